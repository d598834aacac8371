#include "worker/comm/communicator.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace gnn::comm {
namespace {

class SingleCommunicator final : public Communicator {
 public:
  int64_t rank() const override { return 0; }
  int64_t world_size() const override { return 1; }
  const char* backend() const override { return "single"; }
  Status all_reduce(at::Tensor, ReduceOp, std::optional<Timeout>) override { return {}; }
  Status broadcast(at::Tensor, int64_t root) override {
    TORCH_CHECK(root == 0, "root must be 0 in a group of one, found ", root);
    return {};
  }
  Result<std::vector<at::Tensor>> all_gather(const at::Tensor& tensor) override {
    return std::vector<at::Tensor>{tensor.clone()};
  }
  Status barrier(std::optional<Timeout>) override { return {}; }
};

// "rank 3", "ranks 0, 2"
std::string name_ranks(const std::vector<size_t>& ranks, std::string_view holder) {
  constexpr size_t kMostNamed = 8;
  std::string text = std::string(holder) + (ranks.size() == 1 ? "" : "s");
  for (size_t i = 0; i < std::min(ranks.size(), kMostNamed); ++i)
    text += (i == 0 ? " " : ", ") + std::to_string(ranks[i]);
  if (ranks.size() > kMostNamed)
    text += " and " + std::to_string(ranks.size() - kMostNamed) + " more";
  return text;
}

}  // namespace

std::shared_ptr<Communicator> make_single_communicator() {
  return std::make_shared<SingleCommunicator>();
}

Result<std::vector<double>> all_reduce_sums(
    Communicator& communicator,
    const std::vector<double>& values,
    std::optional<Communicator::Timeout> timeout
) {
  auto sums = at::tensor(values, at::kDouble);
  GNN_RETURN_IF_ERROR(communicator.all_reduce(sums, ReduceOp::Sum, timeout));
  const double* begin = sums.const_data_ptr<double>();
  return std::vector<double>(begin, begin + sums.numel());
}

Result<std::vector<std::string>> all_gather_bytes(
    Communicator& communicator, const std::string& bytes
) {
  const auto mine = static_cast<int64_t>(bytes.size());
  GNN_ASSIGN_OR_RETURN(const auto lengths, communicator.all_gather(at::full({1}, mine, at::kLong)));
  int64_t longest = 1;
  for (const auto& length : lengths) longest = std::max(longest, length.item<int64_t>());
  auto padded = at::zeros({longest}, at::kByte);
  std::memcpy(padded.mutable_data_ptr<uint8_t>(), bytes.data(), bytes.size());
  GNN_ASSIGN_OR_RETURN(const auto gathered, communicator.all_gather(padded));
  std::vector<std::string> all;
  for (size_t r = 0; r < gathered.size(); ++r) {
    const auto* begin = reinterpret_cast<const char*>(gathered[r].const_data_ptr<uint8_t>());
    all.emplace_back(begin, static_cast<size_t>(lengths[r].item<int64_t>()));
  }
  return all;
}

std::string describe_differences(
    const std::vector<std::string>& values_by_rank, std::string_view holder
) {
  std::map<std::string, std::vector<size_t>> ranks_of;
  for (size_t rank = 0; rank < values_by_rank.size(); ++rank)
    ranks_of[values_by_rank[rank]].push_back(rank);
  if (ranks_of.size() < 2) return "";
  std::string text;
  for (const auto& [value, ranks] : ranks_of)
    text += (text.empty() ? "" : "; ") + value + " on " + name_ranks(ranks, holder);
  return text;
}

}  // namespace gnn::comm
