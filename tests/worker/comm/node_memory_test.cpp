#include "worker/comm/node_memory.h"

#include "tests/support/mapping_flags.h"
#include "tests/support/read_file.h"
#include "tests/worker/comm/in_process_ranks.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gnn::comm {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ZerosSharedBy, AreOneMemoryOnAllRanksOfANode) {
  run_ranks(3, [](const std::shared_ptr<Communicator>& node) {
    const std::optional<at::Tensor> shared = require(zeros_shared_by(*node, {3, 5}, at::kDouble));
    ASSERT_TRUE(shared.has_value());
    EXPECT_EQ(shared->sizes(), (std::vector<int64_t>{3, 5}));
    EXPECT_EQ(shared->scalar_type(), at::kDouble);
    EXPECT_EQ(shared->sum().item<double>(), 0);
    require(node->barrier());
    shared->select(0, node->rank()).fill_(static_cast<double>(node->rank() + 1));
    require(node->barrier());
    EXPECT_EQ(shared->sum().item<double>(), 5 * (1 + 2 + 3));
  });
}

TEST(ZerosSharedBy, LetGoOfTheMemoryWithTheLastTensor) {
  run_ranks(2, [](const std::shared_ptr<Communicator>& node) {
    {
      const auto shared = require(zeros_shared_by(*node, {1000}, at::kFloat));
      EXPECT_THAT(testing::read_file("/proc/self/maps"), HasSubstr("gnn-node-memory"));
      require(node->barrier());
    }
    require(node->barrier());
    EXPECT_THAT(testing::read_file("/proc/self/maps"), Not(HasSubstr("gnn-node-memory")));
    require(node->barrier());
  });
}

TEST(ZerosSharedBy, AreNothingOnAllRanksWhereOneCannotMapThem) {
  run_ranks(2, [](const std::shared_ptr<Communicator>& node) {
    constexpr int64_t kMoreThanAnAddressSpace = int64_t{1} << 58;
    EXPECT_FALSE(require(zeros_shared_by(*node, {kMoreThanAnAddressSpace}, at::kChar)).has_value());
    // And the group is fit for more.
    EXPECT_TRUE(require(zeros_shared_by(*node, {4}, at::kChar)).has_value());
  });
}

// Passes everything on, but gives another number for the file that rank 0 made: a rank that does not
// see rank 0's processes finds somebody else's file at its address.
class OtherFile final : public Communicator {
 public:
  explicit OtherFile(std::shared_ptr<Communicator> inner) : inner_(std::move(inner)) {}

  int64_t rank() const override { return inner_->rank(); }
  int64_t world_size() const override { return inner_->world_size(); }
  const char* backend() const override { return inner_->backend(); }
  Status all_reduce(at::Tensor tensor, ReduceOp op, std::optional<Timeout> timeout) override {
    return inner_->all_reduce(tensor, op, timeout);
  }
  Status broadcast(at::Tensor tensor, int64_t root) override {
    return inner_->broadcast(tensor, root);
  }
  Result<std::vector<at::Tensor>> all_gather(const at::Tensor& tensor) override {
    auto gathered = inner_->all_gather(tensor);
    // Only rank 0 has an address, so it has no padding. Its last word is the file's number.
    const bool is_addresses = !changed_ && gathered && tensor.scalar_type() == at::kByte;
    if (is_addresses) {
      auto* const digit = (*gathered)[0].mutable_data_ptr<uint8_t>() + tensor.numel() - 1;
      *digit = *digit == '1' ? '2' : '1';
      changed_ = true;
    }
    return gathered;
  }
  Status barrier(std::optional<Timeout> timeout) override { return inner_->barrier(timeout); }

 private:
  std::shared_ptr<Communicator> inner_;
  bool changed_ = false;
};

TEST(ZerosSharedBy, AreNothingOnAllRanksWhereOneFindsAnotherFile) {
  run_ranks(2, [](const std::shared_ptr<Communicator>& node) {
    const std::shared_ptr<Communicator> seen =
        node->rank() == 1 ? std::make_shared<OtherFile>(node) : node;
    EXPECT_FALSE(require(zeros_shared_by(*seen, {8}, at::kFloat)).has_value());
  });
}

TEST(ZerosSharedBy, MayBeEmpty) {
  run_ranks(2, [](const std::shared_ptr<Communicator>& node) {
    EXPECT_EQ(require(zeros_shared_by(*node, {0, 7}, at::kFloat))->numel(), 0);
  });
}

TEST(EmptyOnLargePages, AsksForLargePages) {
  const at::Tensor tensor = empty_on_large_pages({3, int64_t{1} << 20}, at::kFloat);
  EXPECT_EQ(tensor.sizes(), (std::vector<int64_t>{3, int64_t{1} << 20}));
  EXPECT_EQ(tensor.scalar_type(), at::kFloat);
  const std::string flags = gnn::testing::mapping_flags(tensor[1].const_data_ptr());
  ASSERT_NE(flags, "");
  const bool has_large_pages = std::filesystem::exists("/sys/kernel/mm/transparent_hugepage");
  EXPECT_EQ(flags.find(" hg ") != std::string::npos, has_large_pages) << flags;
}

}  // namespace
}  // namespace gnn::comm
