#pragma once

#include "common/clock.h"
#include "common/contract.h"
#include "common/guarded.h"
#include "common/host_port.h"
#include "common/result.h"
#include "worker/comm/rank_groups.h"
#include "worker/progress/remote_data.h"
#include "worker/rendezvous/rendezvous.h"
#include "worker/rpc/event_loop.h"
#include "worker/rpc/key.h"
#include "worker/rpc/server.h"
#include "worker/shards/peer.h"
#include "worker/shards/rpc_peer.h"
#include "worker/shards/service.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gnn::tasks {

/// Where a node's data is served, and by which key.
struct DataEndpoint {
  /// Where local rank 0 listens; port 0: any free one.
  HostPort address{.host = {}, .port = contract::kDataPort};
  std::string host = "127.0.0.1";  ///< under which other nodes reach this one
  std::string key_file{contract::kDataKeyFile};
};

struct DataNetworkOptions {
  DataEndpoint endpoint;
  rendezvous::Incarnation incarnation;
  int64_t partitions = 1;
  int64_t server_threads = 1;
  /// A node whose silence lasts this long is lost.
  Duration peer_timeout = std::chrono::seconds(contract::kDefaultPeerSeconds);
};

/// The connections of one rank to nodes that hold other partitions than its own, and on local rank 0
/// the server for theirs. Node n holds partition n mod P; of several holders of a partition, ranks of
/// different nodes ask different ones.
/// Threads: one.
class DataNetwork {
 public:
  /// Reads the key.
  /// Errors: Configuration naming the file.
  [[nodiscard]] static Result<std::unique_ptr<DataNetwork>> create(
      const DataNetworkOptions& options, comm::RankGroups groups
  );
  /// Calls that are under way fail with Cancelled. Peers may outlive this.
  ~DataNetwork();
  DataNetwork(const DataNetwork&) = delete;
  DataNetwork& operator=(const DataNetwork&) = delete;

  /// Serves `service` on local rank 0, which alone has one, and connects to a holder of each other
  /// partition. Once. Collective.
  /// Errors: Network if the address cannot be listened on; PeerLost if another node has failed to;
  /// those of rpc::Client::connect().
  [[nodiscard]] Result<shards::Peers> open(std::shared_ptr<const shards::Service> service);

  /// Adds what has passed between this rank and other nodes.
  /// Threads: any, also while others use this.
  void count(progress::RemoteData& data) const;

  /// Returns once no rank asks for anything any more. Connections that end from then on are not lost.
  /// Collective.
  [[nodiscard]] Status leave();

 private:
  DataNetwork(const DataNetworkOptions& options, comm::RankGroups groups, const rpc::Key& key);

  [[nodiscard]] int64_t node() const { return groups_.all->rank() / groups_.node->world_size(); }
  [[nodiscard]] int64_t holder_of(int64_t partition) const;
  [[nodiscard]] rpc::Identity identity() const;
  // "HOST:PORT" of the server on local rank 0, else nothing.
  Result<std::string> serve(std::shared_ptr<const shards::Service> service);
  // Of all nodes.
  Result<std::vector<std::string>> exchange(const Result<std::string>& mine);

  const DataNetworkOptions options_;
  const comm::RankGroups groups_;
  const rpc::Key key_;
  std::shared_ptr<rpc::EventLoop> loop_;
  struct Ends {
    std::unique_ptr<rpc::Server> server;                  // on local rank 0
    std::vector<std::shared_ptr<shards::RpcPeer>> peers;  // that are asked
  };
  mutable Guarded<Ends> ends_;
  // Connections that were lost before this rank began to leave; -1 before.
  std::atomic<int64_t> lost_before_leaving_ = -1;
};

}  // namespace gnn::tasks
