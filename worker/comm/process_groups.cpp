#include "worker/comm/process_groups.h"

#include "common/out_of_memory.h"
#include "worker/comm/c10d_communicator.h"
#include "worker/comm/gloo/gloo_backend.h"
#include "worker/comm/nccl/nccl_backend.h"
#include "worker/comm/tcp_store.h"
#include "worker/rendezvous/local_address.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <csignal>

namespace gnn::comm {
namespace {

Result<std::shared_ptr<TcpStore>> join_store(const rendezvous::Rendezvous& rendezvous) {
  GNN_ASSIGN_OR_RETURN(
      auto store,
      TcpStore::join({
          .host = rendezvous.store_host,
          .port = rendezvous.store_port,
          .connect_timeout = std::chrono::seconds(30),
          .call_timeout = std::chrono::seconds(30),
      })
  );
  GNN_ASSIGN_OR_RETURN(
      const rendezvous::Handshake handshake,
      rendezvous::rank_handshake(*store, rendezvous.incarnation)
  );
  if (handshake.answer != rendezvous::HandshakeAnswer::Welcome)
    return fail(ErrorKind::PeerLost, "the store refused the handshake: " + handshake.reason);
  return store;
}

// Connects all ranks with each other. c10d throws its error for mistakes of the caller when Gloo
// cannot connect; but nothing here can be one, so that the others are to blame unless this machine
// has no memory left.
Result<c10::intrusive_ptr<c10d::Backend>> meet_by_gloo(
    const c10::intrusive_ptr<c10d::Store>& store,
    int64_t rank,
    int64_t world_size,
    const CommunicatorOptions& options
) {
  // Gloo writes to its connections without MSG_NOSIGNAL: a rank whose peer is gone would end by the
  // signal, and take the blame for it.
  ::signal(SIGPIPE, SIG_IGN);
  try {
    return gloo_backend::make(
        c10::make_intrusive<c10d::PrefixStore>("gloo", store), rank, world_size, options
    );
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return fail(
        is_out_of_memory(error) ? ErrorKind::OutOfMemory : ErrorKind::PeerLost,
        "cannot form the group " + options.name + ": " + text.substr(0, text.find('\n'))
    );
  }
}

// Gloo cannot reach tensors on a GPU, nor NCCL those on the CPU: ranks on different devices would
// wait for each other in different collectives.
Status check_same_device(Communicator& communicator, c10::Device device) {
  if (communicator.world_size() == 1) return {};
  GNN_ASSIGN_OR_RETURN(
      const auto devices, all_gather_bytes(communicator, device.is_cuda() ? "cuda" : "cpu")
  );
  const std::string differences = describe_differences(devices);
  if (differences.empty()) return {};
  return fail(
      ErrorKind::Configuration,
      "expected the same kind of device on all ranks, found " + differences +
          "; give each rank a GPU of its own, or set spec.training.device to CPU"
  );
}

Status check_backend(Backend backend, c10::Device device) {
  if (backend == Backend::Gloo && device.is_cuda())
    return fail(
        ErrorKind::Configuration,
        "spec.workers.backend: Gloo expects ranks on the CPU, found one on " + device.str() +
            "; set Auto or NCCL, or spec.training.device to CPU"
    );
  if (backend == Backend::Nccl && !device.is_cuda())
    return fail(
        ErrorKind::Configuration,
        "spec.workers.backend: NCCL expects ranks on CUDA, found one on " + device.str() +
            "; set Auto, or use an image with CUDA on machines with GPUs"
    );
  if (device.is_cuda() && !nccl_backend::available())
    return fail(
        ErrorKind::Configuration,
        "spec.workers.backend: expected a build with NCCL for ranks on CUDA, found one without"
    );
  return {};
}

}  // namespace

c10::Device device_of_rank(bool use_cuda, int64_t local_rank) {
  if (!use_cuda) return c10::Device(c10::kCPU);
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(local_rank));
}

Result<std::shared_ptr<Communicator>> make_communicator(
    Backend backend,
    c10::Device device,
    const C10dStoreHandle& store,
    int64_t rank,
    int64_t world_size,
    const CommunicatorOptions& options
) {
  const auto prefixed = c10::make_intrusive<c10d::PrefixStore>(options.name, store.store);
  GNN_ASSIGN_OR_RETURN(const auto gloo, meet_by_gloo(prefixed, rank, world_size, options));
  try {
    auto group = c10::make_intrusive<c10d::ProcessGroup>(
        prefixed, static_cast<int>(rank), static_cast<int>(world_size)
    );
    // Tensors on the CPU (counts, hashes) go by Gloo, whichever backend the gradients use.
    group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
    group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
    GNN_RETURN_IF_ERROR(check_same_device(*make_c10d_communicator(group, "gloo", options), device));
    GNN_RETURN_IF_ERROR(check_backend(backend, device));
    const bool nccl = backend != Backend::Gloo && device.is_cuda();
    if (nccl) {
      group->setBackend(
          c10::DeviceType::CUDA,
          c10d::ProcessGroup::BackendType::NCCL,
          nccl_backend::make(
              c10::make_intrusive<c10d::PrefixStore>("nccl", prefixed),
              rank,
              world_size,
              device,
              options
          )
      );
    }
    group->setGroupName(options.name);
    return make_c10d_communicator(std::move(group), nccl ? "nccl" : "gloo", options);
  } catch (const std::exception&) {
    const std::string what = "cannot form the group " + options.name;
    return tl::make_unexpected(error_of_current_exception(what.c_str()));
  }
}

ProcessGroups::ProcessGroups(rendezvous::Rendezvous rendezvous, Backend backend, c10::Device device)
    : rendezvous_(std::move(rendezvous)), backend_(backend), device_(device) {}

Result<ProcessGroups> ProcessGroups::create(
    const rendezvous::Rendezvous& rendezvous,
    Backend backend,
    c10::Device device,
    std::shared_ptr<progress::CollectiveActivity> activity
) {
  ProcessGroups groups(rendezvous, backend, device);
  if (rendezvous.world_size == 1 && backend != Backend::Nccl) {
    if (backend == Backend::Gloo) GNN_RETURN_IF_ERROR(check_backend(backend, device));
    groups.communicator_ = make_single_communicator();
    return groups;
  }
  groups.options_.timeout = rendezvous.collective_timeout;
  groups.options_.activity = std::move(activity);
  if (rendezvous.world_size == 1) {
    GNN_ASSIGN_OR_RETURN(
        groups.communicator_,
        make_communicator(backend, device, *in_process_c10d_store(), 0, 1, groups.options_)
    );
    return groups;
  }
  GNN_ASSIGN_OR_RETURN(
      groups.options_.address,
      rendezvous::local_address_towards(rendezvous.store_host, rendezvous.store_port)
  );
  GNN_ASSIGN_OR_RETURN(groups.store_, join_store(rendezvous));
  CommunicatorOptions options = groups.options_;
  options.name = rendezvous::round_prefix(rendezvous.incarnation) + "ranks";
  GNN_ASSIGN_OR_RETURN(
      groups.communicator_,
      make_communicator(
          backend, device, *groups.store_->handle(), rendezvous.rank, rendezvous.world_size, options
      )
  );
  return groups;
}

Status ProcessGroups::create_local_process_group(int64_t processes_per_node) {
  const int64_t world_size = communicator_->world_size();
  if (processes_per_node < 1 || world_size % processes_per_node != 0)
    return fail(
        ErrorKind::Configuration,
        "expected processes per node that divide the world size of " + std::to_string(world_size) +
            ", found " + std::to_string(processes_per_node)
    );
  if (processes_per_node == world_size) {
    local_ = communicator_;
    peers_ = make_single_communicator();
    return {};
  }
  if (processes_per_node == 1) {
    local_ = make_single_communicator();
    peers_ = communicator_;
    return {};
  }
  // Python programs create the groups of all nodes on every rank, which keeps c10d's counters
  // equal. Here each group has a name of its own in the store, so there is no need to.
  const int64_t node = communicator_->rank() / processes_per_node;
  const int64_t place = communicator_->rank() % processes_per_node;
  GNN_ASSIGN_OR_RETURN(
      local_,
      make_group("node" + std::to_string(node), backend_, device_, place, processes_per_node)
  );
  GNN_ASSIGN_OR_RETURN(
      peers_,
      make_group(
          "peers" + std::to_string(place),
          Backend::Gloo,
          c10::Device(c10::kCPU),
          node,
          world_size / processes_per_node
      )
  );
  return {};
}

Result<std::shared_ptr<Communicator>> ProcessGroups::make_group(
    const std::string& name, Backend backend, c10::Device device, int64_t rank, int64_t size
) {
  CommunicatorOptions options = options_;
  options.name = rendezvous::round_prefix(rendezvous_.incarnation) + name;
  return make_communicator(backend, device, *store_->handle(), rank, size, options);
}

RankGroups ProcessGroups::groups() const {
  return {communicator_, get_local_process_group(), peers_};
}

const std::shared_ptr<Communicator>& ProcessGroups::get_local_process_group() const {
  TORCH_CHECK(local_ != nullptr, "create_local_process_group() was not called");
  return local_;
}

}  // namespace gnn::comm
