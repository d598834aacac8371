#pragma once

#include "common/latency_histogram.h"
#include "worker/rpc/identity.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace gnn::rpc {

/// What has been asked and answered of one method.
struct MethodStats {
  /// Answered, with a reply or a failure. A server counts an answer when it begins to send it.
  int64_t requests = 0;
  /// Bodies of requests and replies alone, without failures: what was asked for.
  int64_t payload_sent = 0;
  int64_t payload_received = 0;
  /// A client's: from call() to its callback. A server's: from the whole request to the end of its
  /// reply in the kernel's buffer.
  LatencyHistogram latency;

  MethodStats& operator+=(const MethodStats& more) {
    requests += more.requests;
    payload_sent += more.payload_sent;
    payload_received += more.payload_received;
    latency += more.latency;
    return *this;
  }
};

/// What has passed between this process and a peer.
struct PeerStats {
  /// Methods from kMethods - 1 on are counted together: a peer may name any.
  static constexpr size_t kMethods = 8;

  Role role = Role::Rank;  ///< the peer's
  int64_t node = 0;
  std::array<MethodStats, kMethods> methods{};
  /// All that went over the connection after its handshake, heartbeats and headers too.
  int64_t bytes_sent = 0;
  int64_t bytes_received = 0;
  int64_t calls_under_way = 0;  ///< a client's that have not been answered yet
  int64_t lost = 0;             ///< connections that broke, or whose peer fell silent

  [[nodiscard]] MethodStats& of(uint16_t method) {
    return methods[std::min<size_t>(method, kMethods - 1)];
  }
  [[nodiscard]] const MethodStats& of(uint16_t method) const {
    return methods[std::min<size_t>(method, kMethods - 1)];
  }
  /// Of all methods.
  [[nodiscard]] MethodStats total() const {
    MethodStats sum;
    for (const MethodStats& each : methods) sum += each;
    return sum;
  }
};

}  // namespace gnn::rpc
