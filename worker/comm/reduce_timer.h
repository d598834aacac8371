#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <chrono>
#include <optional>

namespace gnn::comm {

/// Times what a step waits for the gradients of other ranks, beyond its own backward. A GPU works
/// behind the host, which has queued all of backward long before it is done: there the device's own
/// clock counts, by events of its current stream.
/// ready() and reduced() may be called by different threads, one after the other.
class ReduceTimer {
 public:
  explicit ReduceTimer(c10::Device device) : device_(device) {}

  /// A part of this rank's gradients is complete once the work queued so far is; the last call
  /// counts.
  void ready();
  /// All gradients are reduced once the work queued so far is.
  void reduced();
  /// Seconds from the one to the other; 0 before both were called. On a GPU the device must have
  /// been waited for since.
  [[nodiscard]] double seconds() const;

 private:
  // A moment of the device, or of the host for a device that does not work behind it.
  struct Moment {
    std::chrono::steady_clock::time_point host;
    std::optional<c10::Event> device;
  };
  [[nodiscard]] Moment now() const;

  c10::Device device_;
  std::optional<Moment> ready_;
  std::optional<Moment> reduced_;
};

}  // namespace gnn::comm
