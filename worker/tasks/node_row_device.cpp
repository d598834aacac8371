#include "worker/tasks/node_row_device.h"

#include "worker/comm/communicator.h"
#include "worker/comm/node_memory.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

namespace gnn::tasks {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 30;

class NodeRowDevice final : public loader::RowDevice {
 public:
  NodeRowDevice(
      std::shared_ptr<loader::RowDevice> device, comm::RankGroups groups, ProgressBar& progress
  )
      : device_(std::move(device)), groups_(std::move(groups)), progress_(progress) {}

  Result<std::shared_ptr<std::byte>> allocate(size_t bytes) override {
    return device_->allocate(bytes);
  }
  Status upload(std::byte* to, std::span<const std::byte> from) override {
    return device_->upload(to, from);
  }
  Result<at::Tensor> host_memory(c10::IntArrayRef shape, at::ScalarType type) override {
    return device_->host_memory(shape, type);
  }
  Result<at::Tensor> on_host(const at::Tensor& ids) override { return device_->on_host(ids); }
  Result<loader::GatheredRows> gather(const loader::GatherRequest& request) override {
    return device_->gather(request);
  }

  Result<std::shared_ptr<const std::byte>> pin(std::span<const std::byte> bytes) override {
    auto pinned = device_->pin(bytes);
    GNN_ASSIGN_OR_RETURN(const Outcome of_node, agree(outcome_of(pinned)));
    if (of_node == Outcome::Pinned) return pinned;
    if (of_node == Outcome::Refused) {
      if (pinned) pinned->reset();
      GNN_ASSIGN_OR_RETURN(const at::Tensor copy, copy_of(bytes));
      return pin_copy(copy);
    }
    if (!pinned) return pinned;
    return fail(ErrorKind::OutOfMemory, "another rank of the node can't pin its memory");
  }

 private:
  // The largest one counts, if not all ranks have the same.
  enum class Outcome : int64_t { Pinned, Refused, Failed };

  static Outcome outcome_of(const Result<std::shared_ptr<const std::byte>>& pinned) {
    if (pinned) return Outcome::Pinned;
    return pinned.error().kind == ErrorKind::Configuration ? Outcome::Refused : Outcome::Failed;
  }

  Result<Outcome> agree(Outcome mine) {
    const at::Tensor outcome = at::full({1}, static_cast<int64_t>(mine), at::kLong);
    GNN_RETURN_IF_ERROR(groups_.node->all_reduce(outcome, comm::ReduceOp::Max));
    return static_cast<Outcome>(outcome.item<int64_t>());
  }

  // Local rank 0 copies; the others of its node see each piece.
  Result<at::Tensor> copy_of(std::span<const std::byte> bytes) {
    const auto size = static_cast<int64_t>(bytes.size());
    GNN_ASSIGN_OR_RETURN(
        const std::optional<at::Tensor> shared,
        comm::zeros_shared_by(*groups_.node, {size}, at::kByte)
    );
    const at::Tensor copy = shared ? *shared : at::empty({size}, at::kByte);
    const bool copies = !shared || groups_.node->rank() == 0;
    auto* const to = static_cast<std::byte*>(copy.mutable_data_ptr());
    progress_.begin("copying rows to memory that can be pinned", size, "bytes");
    for (size_t begin = 0; begin < bytes.size(); begin += kPieceBytes) {
      const size_t count = std::min(kPieceBytes, bytes.size() - begin);
      if (copies) std::memcpy(to + begin, bytes.data() + begin, count);
      GNN_RETURN_IF_ERROR(groups_.node->barrier());
      progress_.advance_to(static_cast<int64_t>(begin + count));
    }
    progress_.end();
    return copy;
  }

  // With the copy, for as long as it is pinned.
  Result<std::shared_ptr<const std::byte>> pin_copy(const at::Tensor& copy) {
    struct PinnedCopy {
      at::Tensor copy;
      std::shared_ptr<const std::byte> pinned;  // let go of first
    };
    const std::span bytes(static_cast<const std::byte*>(copy.const_data_ptr()), copy.nbytes());
    GNN_ASSIGN_OR_RETURN(auto pinned, device_->pin(bytes));
    const auto both = std::make_shared<PinnedCopy>(PinnedCopy{copy, std::move(pinned)});
    return std::shared_ptr<const std::byte>(both, both->pinned.get());
  }

  const std::shared_ptr<loader::RowDevice> device_;
  const comm::RankGroups groups_;
  ProgressBar& progress_;
};

}  // namespace

std::shared_ptr<loader::RowDevice> node_row_device(
    std::shared_ptr<loader::RowDevice> device, const comm::RankGroups& groups, ProgressBar& progress
) {
  return std::make_shared<NodeRowDevice>(std::move(device), groups, progress);
}

}  // namespace gnn::tasks
