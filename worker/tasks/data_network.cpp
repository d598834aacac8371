#include "worker/tasks/data_network.h"

#include <cstddef>
#include <utility>

namespace gnn::tasks {

DataNetwork::DataNetwork(
    const DataNetworkOptions& options, comm::RankGroups groups, const rpc::Key& key
)
    : options_(options),
      groups_(std::move(groups)),
      key_(key),
      loop_(std::make_shared<rpc::EventLoop>()) {}

DataNetwork::~DataNetwork() {
  for (const auto& peer : peers_) peer->close();
}

Result<std::unique_ptr<DataNetwork>> DataNetwork::create(
    const DataNetworkOptions& options, comm::RankGroups groups
) {
  GNN_ASSIGN_OR_RETURN(const rpc::Key key, rpc::Key::read_file(options.endpoint.key_file));
  return std::unique_ptr<DataNetwork>(new DataNetwork(options, std::move(groups), key));
}

// Holders of one partition share the nodes that ask for it.
int64_t DataNetwork::holder_of(int64_t partition) const {
  const int64_t nodes = groups_.all->world_size() / groups_.node->world_size();
  const int64_t holders = (nodes - partition + options_.partitions - 1) / options_.partitions;
  return partition + node() / options_.partitions % holders * options_.partitions;
}

rpc::Identity DataNetwork::identity() const {
  return {
      .job_uid = options_.incarnation.job_uid,
      .attempt = options_.incarnation.attempt,
      .round = options_.incarnation.round,
      .node = node(),
      .rank = groups_.node->rank(),
  };
}

Result<std::string> DataNetwork::serve(std::shared_ptr<const shards::Service> service) {
  if (service == nullptr) return std::string();
  GNN_ASSIGN_OR_RETURN(
      server_,
      rpc::Server::start(
          loop_,
          {.address = options_.endpoint.address,
           .identity = identity(),
           .num_threads = options_.server_threads,
           .peer_timeout = options_.peer_timeout},
          key_,
          shards::handler_of(std::move(service))
      )
  );
  return format_host_port(options_.endpoint.host, server_->port());
}

Result<std::vector<std::string>> DataNetwork::exchange(const Result<std::string>& mine) {
  const int64_t on_node = groups_.node->world_size();
  GNN_ASSIGN_OR_RETURN(
      const auto of_ranks, comm::all_gather_bytes(*groups_.all, mine ? *mine : std::string())
  );
  if (!mine) return tl::unexpected(mine.error());
  std::vector<std::string> of_nodes;
  for (size_t rank = 0; rank < of_ranks.size(); rank += static_cast<size_t>(on_node)) {
    of_nodes.push_back(of_ranks[rank]);
    if (!of_nodes.back().empty()) continue;
    return fail(
        ErrorKind::PeerLost,
        "node " + std::to_string(of_nodes.size() - 1) + " cannot serve its partition of the data"
    );
  }
  return of_nodes;
}

Result<shards::Peers> DataNetwork::open(std::shared_ptr<const shards::Service> service) {
  GNN_ASSIGN_OR_RETURN(const auto addresses, exchange(serve(std::move(service))));
  shards::Peers peers(static_cast<size_t>(options_.partitions));
  for (int64_t partition = 0; partition < options_.partitions; ++partition) {
    if (partition == node() % options_.partitions) continue;
    const int64_t holder = holder_of(partition);
    GNN_ASSIGN_OR_RETURN(
        peers_.emplace_back(),
        shards::RpcPeer::connect(
            loop_,
            {.address = addresses[static_cast<size_t>(holder)],
             .node = holder,
             .identity = identity(),
             .peer_timeout = options_.peer_timeout},
            key_
        )
    );
    peers[static_cast<size_t>(partition)] = peers_.back();
  }
  return peers;
}

}  // namespace gnn::tasks
