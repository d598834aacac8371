#include "worker/servers/holder_peer.h"

#include <cstddef>
#include <span>
#include <vector>

namespace gnn::servers {

std::string HolderPeer::name() const {
  return "the servers of part " + std::to_string(part_);
}

void HolderPeer::call(shards::PeerCall call, Callback callback) {
  const auto asked = std::make_shared<const shards::PeerCall>(std::move(call));
  holders_->ask(
      {.what = "hops or rows of part " + std::to_string(part_),
       .part = part_,
       .turn = turn_,
       .make_call =
           [asked] {
             return rpc::Call{
                 .method = asked->method,
                 .request = {std::span(asked->request)},
                 .into = asked->into,
                 .most_rest = asked->most_rest
             };
           },
       // The question's bytes stay until its answer has come.
       .callback =
           [asked, callback = std::move(callback)](Result<Holders::Answer> answer) {
             if (!answer) return callback(tl::unexpected(std::move(answer).error()));
             callback(shards::PeerReply{
                 .size = answer->reply.size, .rest = std::move(answer->reply.rest)
             });
           }}
  );
}

}  // namespace gnn::servers
