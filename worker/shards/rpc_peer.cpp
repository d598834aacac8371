#include "worker/shards/rpc_peer.h"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace gnn::shards {

Result<std::shared_ptr<RpcPeer>> RpcPeer::connect(
    std::shared_ptr<rpc::EventLoop> loop, const rpc::ClientOptions& options, const rpc::Key& key
) {
  GNN_ASSIGN_OR_RETURN(auto client, rpc::Client::connect(std::move(loop), options, key));
  const rpc::Peer server{.node = options.node, .rank = 0, .address = options.address};
  return std::shared_ptr<RpcPeer>(new RpcPeer(std::move(client), server.name()));
}

void RpcPeer::call(PeerCall call, Callback callback) {
  // The request's bytes stay until the reply has come.
  const auto request = std::make_shared<const std::vector<std::byte>>(std::move(call.request));
  rpc::Call over{
      .method = call.method,
      .request = {std::span(*request)},
      .into = std::move(call.into),
      .most_rest = call.most_rest
  };
  {
    const auto client = client_.lock();
    if (*client != nullptr) {
      return (*client)->call(std::move(over), [request, callback](Result<rpc::Reply> reply) {
        if (!reply) return callback(tl::unexpected(std::move(reply).error()));
        callback(PeerReply{.size = reply->size, .rest = std::move(reply->rest)});
      });
    }
  }
  callback(fail(ErrorKind::Cancelled, name_ + ": the connection was closed"));
}

void RpcPeer::close() {
  // Destroyed without the lock: the calls that fail may call again.
  const std::unique_ptr<rpc::Client> closed = std::exchange(*client_.lock(), nullptr);
}

rpc::PeerStats RpcPeer::stats() const {
  const auto client = client_.lock();
  return *client == nullptr ? rpc::PeerStats() : (*client)->stats();
}

rpc::Handler handler_of(std::shared_ptr<const Service> service) {
  return [service = std::move(service)](
             const rpc::Peer& /*peer*/, uint16_t method, std::span<const std::byte> request
         ) -> Result<rpc::Answer> {
    GNN_ASSIGN_OR_RETURN(ServiceReply reply, service->answer(method, request));
    return rpc::Answer{.segments = std::move(reply.segments), .owner = std::move(reply.owner)};
  };
}

}  // namespace gnn::shards
