#pragma once

#include "worker/servers/holders.h"
#include "worker/shards/peer.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace gnn::servers {

/// All servers that hold one part, as one peer: a call goes to the one whose turn it is, and to another
/// when that is lost; while none is live it waits, up to the server time-out.
/// Threads: safe from any thread.
class HolderPeer final : public shards::Peer {
 public:
  /// `turn`: for example this server's number div P, so that not all servers ask the same holder.
  HolderPeer(std::shared_ptr<Holders> holders, int64_t part, int64_t turn)
      : holders_(std::move(holders)), part_(part), turn_(turn) {}

  /// "the servers of part 1"
  [[nodiscard]] std::string name() const override;
  void call(shards::PeerCall call, Callback callback) override;

 private:
  const std::shared_ptr<Holders> holders_;
  const int64_t part_;
  const int64_t turn_;
};

}  // namespace gnn::servers
