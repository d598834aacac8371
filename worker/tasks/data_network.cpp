#include "worker/tasks/data_network.h"

#include "worker/shards/messages.h"

#include <cstddef>
#include <utility>

namespace gnn::tasks {
namespace {

shards::Method method_of(progress::DataKind kind) {
  switch (kind) {
    case progress::DataKind::Hops:
      return shards::Method::Hop;
    case progress::DataKind::Features:
      return shards::Method::Features;
    case progress::DataKind::Labels:
      return shards::Method::Labels;
    case progress::DataKind::Layers:
      break;
  }
  return shards::Method::Hidden;
}

}  // namespace

DataNetwork::DataNetwork(
    const DataNetworkOptions& options, comm::RankGroups groups, const rpc::Key& key
)
    : options_(options),
      groups_(std::move(groups)),
      key_(key),
      loop_(std::make_shared<rpc::EventLoop>()) {}

DataNetwork::~DataNetwork() {
  // Not under the lock: calls that fail may take long.
  const Ends ends = std::move(*ends_.lock());
  for (const auto& peer : ends.peers) peer->close();
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

void DataNetwork::count(progress::RemoteData& data) const {
  const auto number_of = [](progress::DataKind kind) {
    return static_cast<uint16_t>(method_of(kind));
  };
  const auto ends = ends_.lock();
  int64_t lost = 0;
  for (const auto& peer : ends->peers) {
    const rpc::PeerStats stats = peer->stats();
    for (const progress::DataKind kind : progress::kDataKinds) {
      const rpc::MethodStats& asked = stats.of(number_of(kind));
      data.received_bytes[kind] += asked.payload_received;
      data.latency[kind] += asked.latency;
    }
    data.calls_under_way += stats.calls_under_way;
    lost += stats.lost;
  }
  if (ends->server != nullptr) {
    for (const rpc::PeerStats& stats : ends->server->stats()) {
      for (const progress::DataKind kind : progress::kDataKinds)
        data.served_bytes[kind] += stats.of(number_of(kind)).payload_sent;
      lost += stats.lost;
    }
    data.connections_refused += ends->server->refused();
  }
  const int64_t before_leaving = lost_before_leaving_.load();
  data.peers_lost += before_leaving < 0 ? lost : before_leaving;
}

Status DataNetwork::leave() {
  progress::RemoteData so_far;
  count(so_far);
  lost_before_leaving_.store(so_far.peers_lost);
  return groups_.all->barrier();
}

Result<std::string> DataNetwork::serve(std::shared_ptr<const shards::Service> service) {
  if (service == nullptr) return std::string();
  GNN_ASSIGN_OR_RETURN(
      auto server,
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
  const uint16_t port = server->port();
  ends_.lock()->server = std::move(server);
  return format_host_port(options_.endpoint.host, port);
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
        auto peer,
        shards::RpcPeer::connect(
            loop_,
            {.address = addresses[static_cast<size_t>(holder)],
             .node = holder,
             .identity = identity(),
             .peer_timeout = options_.peer_timeout},
            key_
        )
    );
    ends_.lock()->peers.push_back(peer);
    peers[static_cast<size_t>(partition)] = std::move(peer);
  }
  return peers;
}

}  // namespace gnn::tasks
