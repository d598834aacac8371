#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gnn::rpc {

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
};

/// What has passed between this process and a peer.
struct PeerStats {
  int64_t node = 0;      ///< the peer's
  int64_t requests = 0;  ///< answered, with a reply or a failure
  /// Bodies of requests and replies alone, without failures: what was asked for.
  int64_t payload_sent = 0;
  int64_t payload_received = 0;
  /// All that went over the connection after its handshake, heartbeats and headers too.
  int64_t bytes_sent = 0;
  int64_t bytes_received = 0;
  /// A client's: from call() to its callback. A server's: from the whole request to the end of its
  /// reply in the kernel's buffer.
  LatencyHistogram latency;
};

}  // namespace gnn::rpc
