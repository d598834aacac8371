#pragma once

#include "worker/agent/unique_fd.h"

#include <csignal>
#include <vector>

namespace gnn::agent {

/// Turns signals into events on a descriptor. Create it before any thread: it blocks the signals in
/// the calling thread and those made later.
class SignalEvents {
 public:
  explicit SignalEvents(const std::vector<int>& signals);

  [[nodiscard]] int fd() const { return fd_.get(); }
  /// The signals received since the last call.
  [[nodiscard]] std::vector<int> take();

 private:
  UniqueFd fd_;
};

/// Unblocks all signals and restores their default handlers; for a child before exec.
void restore_signals();

}  // namespace gnn::agent
