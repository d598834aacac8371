#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gnn {

/// Counts durations by powers of two.
struct LatencyHistogram {
  /// Bucket i counts what took at most upper_bound(i) and more than the one before; the last one
  /// counts all that took longer.
  static constexpr size_t kBuckets = 20;
  /// 32 us, 64 us, ... 8.4 s.
  [[nodiscard]] static constexpr std::chrono::microseconds upper_bound(size_t bucket) {
    return std::chrono::microseconds(int64_t{32} << bucket);
  }

  std::array<int64_t, kBuckets> counts{};
  std::chrono::nanoseconds sum{0};

  void observe(std::chrono::nanoseconds latency) {
    size_t bucket = 0;
    while (bucket + 1 < kBuckets && latency > upper_bound(bucket)) ++bucket;
    ++counts[bucket];
    sum += latency;
  }
  LatencyHistogram& operator+=(const LatencyHistogram& more) {
    for (size_t bucket = 0; bucket < kBuckets; ++bucket) counts[bucket] += more.counts[bucket];
    sum += more.sum;
    return *this;
  }
};

}  // namespace gnn
