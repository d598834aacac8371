#pragma once

#include <chrono>
#include <thread>

namespace gnn::testing {

/// Polls until `ready()`; false when the time is up.
template <class Ready>
bool wait_until(std::chrono::milliseconds timeout, Ready ready) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!ready()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace gnn::testing
