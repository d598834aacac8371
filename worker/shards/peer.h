#pragma once

#include "common/result.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gnn::shards {

/// A request to another node's Service, and where its reply goes.
struct PeerCall {
  uint16_t method = 0;
  std::vector<std::byte> request;
  /// Where the reply's first bytes are received, in this order: memory that stays valid until the
  /// callback.
  std::vector<std::span<std::byte>> into;
  int64_t most_rest = 0;  ///< the most bytes that may follow in PeerReply::rest
};

struct PeerReply {
  int64_t size = 0;             ///< bytes of all of it
  std::vector<std::byte> rest;  ///< what came after PeerCall::into was full
};

/// Another node of the job, which serves a part of the data set. There may be any number of calls to
/// it under way.
/// Threads: safe from any thread.
class Peer {
 public:
  /// Called once for each call, by a thread that carries replies: it must be brief.
  using Callback = std::function<void(Result<PeerReply>)>;

  virtual ~Peer() = default;
  /// "node 1 (10.0.0.7:29600)"
  [[nodiscard]] virtual std::string name() const = 0;
  /// Errors, by the callback: PeerLost naming the peer, as soon as it is known to be gone; what the
  /// service answered, with the peer's name before it; Cancelled when this process leaves.
  virtual void call(PeerCall call, Callback callback) = 0;
};

/// The peers to ask, by part; null for this node's own.
using Peers = std::vector<std::shared_ptr<Peer>>;

}  // namespace gnn::shards
