#pragma once

#include <chrono>

namespace gnn {

/// Seconds since a moment of the steady clock, for measurements. What tests must control takes a
/// Clock instead.
[[nodiscard]] inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace gnn
