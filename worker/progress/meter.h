#pragma once

#include "common/guarded.h"

#include <functional>
#include <utility>

namespace gnn::progress {

/// Lets others read counts while what counts them runs, and what they were at the end.
/// Threads: safe from any thread.
template <class T>
class Meter {
 public:
  using Read = std::function<T()>;

  /// `read` works until stop(), from any thread.
  explicit Meter(Read read) : state_(State{.read = std::move(read)}) {}

  [[nodiscard]] T read() const {
    const auto state = state_.lock();
    return state->read ? state->read() : state->last;
  }
  /// From now on read() gives what it would have given now.
  void stop() {
    const auto state = state_.lock();
    if (!state->read) return;
    state->last = state->read();
    state->read = nullptr;
  }

 private:
  struct State {
    Read read;
    T last{};
  };
  mutable Guarded<State> state_;
};

}  // namespace gnn::progress
