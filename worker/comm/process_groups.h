#pragma once

#include "common/contract.h"
#include "common/result.h"
#include "worker/comm/communicator.h"
#include "worker/comm/rank_groups.h"
#include "worker/progress/collective_activity.h"
#include "worker/rendezvous/rendezvous.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>

namespace gnn::comm {

class TcpStore;
struct C10dStoreHandle;

enum class Backend {
  Auto,  ///< NCCL when the device is CUDA, else Gloo
  Gloo,  ///< for the CPU
  Nccl,  ///< for CUDA
};

struct CommunicatorOptions {
  /// Longest wait for the other ranks in one collective.
  Communicator::Timeout timeout = std::chrono::seconds(contract::kDefaultCollectiveSeconds);
  std::string name = "ranks";  ///< tells groups of one store apart
  /// Local address that the other ranks can reach, for Gloo; empty: loopback.
  std::string address{};
  /// Told when a collective starts and ends; may be null.
  std::shared_ptr<progress::CollectiveActivity> activity{};
};

/// The CUDA device of a rank is its local rank; the CPU otherwise.
[[nodiscard]] c10::Device device_of_rank(bool use_cuda, int64_t local_rank);

/// A group over `store` with the given rank and size. Before it sends anything else, its ranks
/// compare their devices.
/// Errors: Configuration if some ranks are on CUDA and some are not, the same on all ranks, if the
/// backend does not fit the device, or if this build lacks it; PeerLost if ranks don't come in time.
[[nodiscard]] Result<std::shared_ptr<Communicator>> make_communicator(
    Backend backend,
    c10::Device device,
    const C10dStoreHandle& store,
    int64_t rank,
    int64_t world_size,
    const CommunicatorOptions& options = {}
);

/// Makes the groups of one rank: that of all ranks, and with create_local_process_group() those of
/// its node and of its peers.
class ProcessGroups {
 public:
  /// Joins the store, passes the handshake and forms the group of all ranks. A single rank needs no
  /// store.
  /// Errors: PeerLost if the store is lost or refuses this job, attempt or round; those of
  /// make_communicator().
  [[nodiscard]] static Result<ProcessGroups> create(
      const rendezvous::Rendezvous& rendezvous,
      Backend backend,
      c10::Device device,
      std::shared_ptr<progress::CollectiveActivity> activity = nullptr
  );

  /// Forms one group per `processes_per_node` consecutive ranks, and one, by Gloo, of the ranks with
  /// the same place in theirs. Collective: all ranks call it.
  /// Errors: Configuration if processes_per_node does not divide the world size.
  /// Source: PyG's multi-node tutorial, create_local_process_group.
  [[nodiscard]] Status create_local_process_group(int64_t processes_per_node);
  /// The group of this rank's node; its rank is the local rank.
  /// Precondition: create_local_process_group() succeeded.
  [[nodiscard]] const std::shared_ptr<Communicator>& get_local_process_group() const;

  /// All of them.
  /// Precondition: create_local_process_group() succeeded.
  [[nodiscard]] RankGroups groups() const;

  /// Of all ranks.
  [[nodiscard]] const std::shared_ptr<Communicator>& communicator() const { return communicator_; }
  /// The local address that the other ranks can reach; empty without others.
  [[nodiscard]] const std::string& address() const { return options_.address; }

 private:
  // A group of its own name in the store.
  Result<std::shared_ptr<Communicator>> make_group(
      const std::string& name, Backend backend, c10::Device device, int64_t rank, int64_t size
  );
  ProcessGroups(rendezvous::Rendezvous rendezvous, Backend backend, c10::Device device);

  rendezvous::Rendezvous rendezvous_;
  Backend backend_;
  c10::Device device_;
  CommunicatorOptions options_;
  std::shared_ptr<TcpStore> store_;
  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<Communicator> local_;
  std::shared_ptr<Communicator> peers_;
};

}  // namespace gnn::comm
