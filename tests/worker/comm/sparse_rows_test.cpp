#include "worker/comm/sparse_rows.h"

#include "tests/worker/comm/in_process_ranks.h"
#include "worker/comm/ddp.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gnn::comm {
namespace {

at::Tensor ids_from(const std::vector<int64_t>& ids) {
  return at::tensor(ids, at::kLong);
}

// Values that say which rank's row it is.
SparseRows rows_of_rank(int64_t rank, const std::vector<int64_t>& ids) {
  auto values = at::empty({static_cast<int64_t>(ids.size()), 2}, at::kFloat);
  for (size_t i = 0; i < ids.size(); ++i)
    values[static_cast<int64_t>(i)].fill_(static_cast<double>(100 * rank + ids[i]));
  return {ids_from(ids), values};
}

TEST(SparseRows, OfEachRankReachAllWhateverTheirNumbers) {
  const std::vector<std::vector<int64_t>> held{{3, 7, 9}, {}, {7}, {0, 9}};
  run_ranks(4, [&](const std::shared_ptr<Communicator>& comm) {
    const auto rank = static_cast<size_t>(comm->rank());
    const auto all = require(all_gather_rows(*comm, rows_of_rank(comm->rank(), held[rank])));
    ASSERT_EQ(all.size(), 4U);
    for (size_t r = 0; r < all.size(); ++r) {
      const auto expected = rows_of_rank(static_cast<int64_t>(r), held[r]);
      EXPECT_TRUE(at::equal(all[r].ids, expected.ids)) << "of rank " << r;
      EXPECT_TRUE(at::equal(all[r].values, expected.values)) << "of rank " << r;
    }
  });
}

TEST(SparseRows, ReachAllWhereNoRankHasAny) {
  run_ranks(2, [](const std::shared_ptr<Communicator>& comm) {
    const auto all = require(all_gather_rows(*comm, rows_of_rank(comm->rank(), {})));
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[1].values.sizes(), (std::vector<int64_t>{0, 2}));
  });
}

TEST(SparseRows, OfDifferentWidthsAreRefusedOnAllRanks) {
  run_ranks(3, [](const std::shared_ptr<Communicator>& comm) {
    const SparseRows mine{ids_from({4}), at::zeros({1, comm->rank() == 2 ? 3 : 2})};
    const auto all = all_gather_rows(*comm, mine);
    ASSERT_FALSE(all);
    EXPECT_NE(
        all.error().message.find("rank 2, as on rank 0, float32 rows of 2, found float32 rows of 3"
        ),
        std::string::npos
    ) << all.error().message;
  });
}

TEST(SparseRows, ReportALostRankAsPeerLost) {
  run_ranks(2, [](const std::shared_ptr<Communicator>& comm) {
    require(comm->barrier());       // all connections of the group are made
    if (comm->rank() == 1) return;  // leaves: its connections close
    const auto all = all_gather_rows(*comm, rows_of_rank(0, {1}));
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().kind, ErrorKind::PeerLost) << all.error().message;
  });
}

TEST(SparseRows, WhoseIdsDoNotAscendAreRefused) {
  const auto comm = make_single_communicator();
  EXPECT_ANY_THROW((void)all_gather_rows(*comm, rows_of_rank(0, {5, 5})));
  EXPECT_ANY_THROW((void)sum_rows({rows_of_rank(0, {5, 2})}));
}

TEST(SumOfSparseRows, HasEachIdOnceAndTheSumOfItsRows) {
  const auto sum =
      sum_rows({rows_of_rank(0, {3, 7}), rows_of_rank(1, {}), rows_of_rank(2, {0, 7, 9})});
  EXPECT_TRUE(at::equal(sum.ids, ids_from({0, 3, 7, 9})));
  EXPECT_TRUE(
      at::equal(sum.values, at::tensor({200.0F, 3.0F, 214.0F, 209.0F}).unsqueeze(1).expand({4, 2}))
  );
}

TEST(SumOfSparseRows, AddsInTheOrderOfTheParts) {
  const auto row = [](float value) { return SparseRows{ids_from({1}), at::full({1, 1}, value)}; };
  // In float32 only the order (1e8 - 1e8) + 1 keeps the 1.
  EXPECT_EQ(sum_rows({row(1e8F), row(-1e8F), row(1)}).values.item<float>(), 1);
  EXPECT_EQ(sum_rows({row(1), row(1e8F), row(-1e8F)}).values.item<float>(), 0);
}

// A table outside the reducer: the rows that a batch reads are a leaf, and the model has one weight.
struct ToyBatch {
  std::vector<int64_t> ids;
};

at::Tensor toy_table() {
  return at::arange(24, at::kDouble).reshape({8, 3}) / 10;
}

SparseRows no_rows() {
  return {at::empty({0}, at::kLong), at::empty({0, 3}, at::kDouble)};
}

// The sum over the batches of this rank, each in a step of its own or accumulated.
struct ToyStep {
  at::Tensor weight = at::tensor({0.5, -1.0, 2.0}, at::kDouble).requires_grad_(true);
  DistributedDataParallel ddp;
  std::shared_ptr<Communicator> comm;

  explicit ToyStep(const std::shared_ptr<Communicator>& group, GradientAverage average)
      : ddp(require(
            DistributedDataParallel::create({{"weight", weight}}, {}, group, {.average = average})
        )),
        comm(group) {}

  // The average of all ranks' rows.
  SparseRows run(const std::vector<ToyBatch>& batches) {
    require(ddp.start_step());
    std::vector<SparseRows> mine{no_rows()};
    StepResult result;
    for (size_t b = 0; b < batches.size(); ++b) {
      const auto ids = ids_from(batches[b].ids);
      auto rows = toy_table().index_select(0, ids).requires_grad_(true);
      const auto loss = (rows.mv(weight) - 1).square().mean();
      const StepContribution contribution{.batch_size = static_cast<double>(batches[b].ids.size())};
      if (b + 1 < batches.size())
        require(ddp.accumulate(loss, contribution));
      else
        result = require(ddp.backward(loss, contribution));
      mine.push_back({ids, rows.grad()});
    }
    if (batches.empty()) result = require(ddp.shadow_step());
    auto sum = sum_rows(require(all_gather_rows(*comm, sum_rows(mine))));
    sum.values.mul_(ddp.factor_of_sums(result));
    return sum;
  }
};

class ToyRanks : public ::testing::TestWithParam<int64_t> {};

TEST_P(ToyRanks, AverageRowsAsOneProcessThatAccumulatesTheirBatches) {
  const int64_t world = GetParam();
  // The last rank has no batch; the first has two.
  std::vector<std::vector<ToyBatch>> of_rank{{{{1, 2, 5}}, {{0, 2}}}, {{{2, 7}}}, {{{1}}}, {}};
  of_rank.erase(of_rank.begin() + 1, of_rank.begin() + 1 + (4 - world));
  ToyStep alone(make_single_communicator(), GradientAverage::BatchSize);
  std::vector<ToyBatch> batches;
  for (const auto& of : of_rank) batches.insert(batches.end(), of.begin(), of.end());
  const auto expected = alone.run(batches);
  run_ranks(world, [&](const std::shared_ptr<Communicator>& comm) {
    ToyStep step(comm, GradientAverage::BatchSize);
    const auto found = step.run(of_rank[static_cast<size_t>(comm->rank())]);
    EXPECT_TRUE(at::equal(found.ids, expected.ids));
    EXPECT_TRUE(at::allclose(found.values, expected.values, 1e-9, 1e-9));
    EXPECT_TRUE(at::allclose(step.weight.grad(), alone.weight.grad(), 1e-9, 1e-9));
    EXPECT_TRUE(replicas_agree({found.ids, found.values}, *comm));
  });
}

INSTANTIATE_TEST_SUITE_P(WorldSizes, ToyRanks, ::testing::Values(2, 3, 4));

TEST(AverageOfRows, DividesByTheWorldSizeWhereGradientsAreDividedByIt) {
  run_ranks(2, [](const std::shared_ptr<Communicator>& comm) {
    ToyStep step(comm, GradientAverage::WorldSize);
    const bool has_batch = comm->rank() == 0;
    const auto found = step.run(has_batch ? std::vector<ToyBatch>{{{4}}} : std::vector<ToyBatch>{});
    ToyStep alone(make_single_communicator(), GradientAverage::WorldSize);
    EXPECT_TRUE(at::equal(found.values, alone.run({{{4}}}).values / 2));
  });
}

}  // namespace
}  // namespace gnn::comm
