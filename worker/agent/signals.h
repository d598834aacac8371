#pragma once

#include "worker/agent/unique_fd.h"

#include <csignal>
#include <vector>

namespace gnn::agent {

/// Turns signals into readable events. Made before any thread is, since it blocks them for the
/// process.
class SignalEvents {
 public:
  explicit SignalEvents(const std::vector<int>& signals);

  [[nodiscard]] int fd() const { return fd_.get(); }
  /// The signals that came since the last call.
  [[nodiscard]] std::vector<int> take();

 private:
  UniqueFd fd_;
};

/// Unblocks all signals and gives them their default action; for a child before exec.
void restore_signals();

}  // namespace gnn::agent
