#pragma once

#include "common/guarded.h"
#include "common/result.h"
#include "worker/rpc/client.h"
#include "worker/rpc/event_loop.h"
#include "worker/rpc/key.h"
#include "worker/rpc/server.h"
#include "worker/shards/peer.h"
#include "worker/shards/service.h"

#include <memory>
#include <string>

namespace gnn::shards {

/// A peer at the other end of a connection.
class RpcPeer final : public Peer {
 public:
  /// Errors: those of rpc::Client::connect().
  [[nodiscard]] static Result<std::shared_ptr<RpcPeer>> connect(
      std::shared_ptr<rpc::EventLoop> loop, const rpc::ClientOptions& options, const rpc::Key& key
  );

  [[nodiscard]] std::string name() const override { return name_; }
  void call(PeerCall call, Callback callback) override;

  /// Closes the connection: calls under way and later ones fail with Cancelled. Whoever connected
  /// calls it before it lets go of the peer, as the last reference may go on the connection's thread.
  /// Never on that thread.
  void close();

  /// All zero once it is closed.
  [[nodiscard]] rpc::PeerStats stats() const;

 private:
  RpcPeer(std::unique_ptr<rpc::Client> client, std::string name)
      : name_(std::move(name)), client_(std::move(client)) {}

  const std::string name_;
  mutable Guarded<std::unique_ptr<rpc::Client>> client_;  // null once closed
};

/// Answers requests of rpc's clients.
[[nodiscard]] rpc::Handler handler_of(std::shared_ptr<const Service> service);

}  // namespace gnn::shards
