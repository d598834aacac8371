#include "worker/training/step_planner.h"

#include "tests/worker/comm/in_process_ranks.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace gnn::training {
namespace {

// Batches that hold nothing but their number, as many as `mine` of the promised ones.
class CountedBatches final : public Workload {
 public:
  CountedBatches(std::vector<int64_t> promised, int64_t mine)
      : promised_(std::move(promised)), mine_(mine) {}

  torch::nn::Module& module() override { std::abort(); }
  const std::vector<int64_t>& batches_per_rank() const override { return promised_; }
  Status start_epoch(int64_t, int64_t first_batch) override {
    next_ = first_batch;
    return {};
  }
  Result<std::optional<BatchSize>> next_batch() override {
    if (next_ >= mine_) return std::optional<BatchSize>();
    return BatchSize{.items = next_++};
  }
  Scores forward() override { return {}; }
  at::Tensor loss(const Scores&) const override { return {}; }
  at::Tensor count_correct(const Scores&) const override { return at::zeros({}, at::kLong); }
  bool has(Part) const override { return false; }
  Result<Evaluated> evaluate(Part, const EvaluationContext&) override { return Evaluated(); }

 private:
  std::vector<int64_t> promised_;
  int64_t mine_;
  int64_t next_ = 0;
};

api::Training training_of(int64_t gradient_accumulation, api::UnevenInputs uneven) {
  api::Training training;
  training.gradient_accumulation = gradient_accumulation;
  training.uneven_inputs = uneven;
  return training;
}

// The batches of each step of an epoch from `first_step` on, as "0 1|2|" for {0, 1}, {2}, {}.
std::string epoch_of(StepPlanner& planner, int64_t first_step = 0) {
  Position position{.epoch = 0, .step = first_step};
  EXPECT_TRUE(planner.start_epoch(position));
  std::string text;
  for (;; ++position.step) {
    const std::optional<StepPlan> plan = comm::require(planner.plan(position));
    if (!plan) return text;
    if (position.step > first_step) text += '|';
    for (int64_t batch = plan->first_batch; batch < plan->end_batch; ++batch) {
      EXPECT_EQ(comm::require(planner.fetch(position)).items, batch);
      if (batch > plan->first_batch) text += ' ';
      text += std::to_string(batch);
    }
  }
}

TEST(StepPlanner, GroupsBatchesByGradientAccumulation) {
  CountedBatches batches({5}, 5);
  StepPlanner planner(
      batches, comm::make_single_communicator(), training_of(2, api::UnevenInputs::Shadow)
  );
  EXPECT_EQ(planner.steps_per_epoch(), 3);
  EXPECT_EQ(epoch_of(planner), "0 1|2 3|4");
  EXPECT_EQ(epoch_of(planner, 1), "2 3|4") << "a resumed epoch";
  EXPECT_EQ(epoch_of(planner, 3), "") << "an epoch that is over";
}

TEST(StepPlanner, LetsARankWithoutABatchShadowTheOthers) {
  comm::run_ranks(2, [](const std::shared_ptr<comm::Communicator>& communicator) {
    const int64_t rank = communicator->rank();
    for (const auto uneven : {api::UnevenInputs::Shadow, api::UnevenInputs::Join}) {
      CountedBatches batches({1, 3}, rank == 0 ? 1 : 3);
      StepPlanner planner(batches, communicator, training_of(1, uneven));
      EXPECT_EQ(epoch_of(planner), rank == 0 ? "0||" : "0|1|2");
      ASSERT_TRUE(planner.start_epoch({.epoch = 1, .step = 1}));
      EXPECT_EQ(comm::require(planner.plan({.epoch = 1, .step = 1}))->buffer_source, 1);
    }
  });
}

TEST(StepPlanner, TakesTheBuffersOfTheRankThatHasTheNextBatch) {
  comm::run_ranks(2, [](const std::shared_ptr<comm::Communicator>& communicator) {
    CountedBatches batches({2, 5}, communicator->rank() == 0 ? 2 : 5);
    const StepPlanner planner(batches, communicator, training_of(2, api::UnevenInputs::Shadow));
    EXPECT_EQ(planner.buffer_source({.epoch = 0, .step = 0}), 0);
    EXPECT_EQ(planner.buffer_source({.epoch = 0, .step = 1}), 1);
    EXPECT_EQ(planner.buffer_source({.epoch = 0, .step = 2}), 1);
    EXPECT_EQ(planner.buffer_source({.epoch = 0, .step = 3}), 0) << "of the next epoch";
  });
}

TEST(StepPlanner, RefusesAWorkloadWithFewerBatchesThanPromised) {
  CountedBatches batches({3}, 2);
  StepPlanner planner(
      batches, comm::make_single_communicator(), training_of(1, api::UnevenInputs::Shadow)
  );
  ASSERT_TRUE(planner.start_epoch({}));
  ASSERT_TRUE(planner.fetch({}));
  ASSERT_TRUE(planner.fetch({}));
  const auto missing = planner.fetch({.epoch = 0, .step = 2});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::Internal);
  EXPECT_EQ(missing.error().message, "epoch 0, step 2: expected 3 batches on rank 0, found fewer");
}

}  // namespace
}  // namespace gnn::training
