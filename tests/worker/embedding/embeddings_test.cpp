#include "worker/embedding/embeddings.h"

#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/embedding/dense_adam.h"
#include "worker/comm/ddp.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace gnn::embedding {
namespace {

using ::testing::HasSubstr;

using Update = api::EmbeddingUpdate;

constexpr double kRate = 0.05;

EmbeddingOptions options(Update update = Update::Dense) {
  return {
      .tables = {{"user", 12, 3}, {"item", 7, 2}},
      .update = update,
      .seed = 9,
      .dtype = at::kDouble,
  };
}

Embeddings alone(const EmbeddingOptions& of = options()) {
  return comm::require(Embeddings::create(of, *comm::make_single_communicator()));
}

at::Tensor ids_from(const std::vector<int64_t>& ids) {
  return at::tensor(ids, at::kLong);
}

// A step of one rank: reads rows of a table, gives them a gradient, and applies it.
Status step(Embeddings& embeddings, size_t table, const at::Tensor& ids, double gradient = 1) {
  const at::Tensor rows = embeddings.read(table, ids);
  (rows.square() * gradient).sum().backward();
  return embeddings.apply(*comm::make_single_communicator(), {.learning_rate = kRate});
}

std::vector<at::Tensor> all_values(const Embeddings& embeddings) {
  std::vector<at::Tensor> values;
  for (size_t i = 0; i < embeddings.count(); ++i) values.push_back(embeddings.values(i));
  return values;
}

bool same_values(const Embeddings& a, const Embeddings& b) {
  return at::equal(a.values(0), b.values(0)) && at::equal(a.values(1), b.values(1));
}

TEST(Embeddings, StartFromTheSeedAndTheNameAlone) {
  const Embeddings first = alone();
  EXPECT_TRUE(same_values(first, alone()));
  EmbeddingOptions other = options();
  other.seed = 10;
  EXPECT_FALSE(at::equal(first.values(0), alone(other).values(0)));
  other = options();
  other.tables = {{"item", 7, 2}, {"product", 12, 3}};
  const Embeddings renamed = alone(other);
  EXPECT_TRUE(at::equal(renamed.values(0), first.values(1)));
  EXPECT_FALSE(at::equal(renamed.values(1), first.values(0)));
}

TEST(Embeddings, RefuseWeightDecayByItsField) {
  EmbeddingOptions of = options();
  of.optimizer.weight_decay = api::Decimal{"0.01"};
  const auto made = Embeddings::create(of, *comm::make_single_communicator());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(made.error().message, HasSubstr("spec.training.optimizer.weightDecay"));
  EXPECT_THAT(made.error().message, HasSubstr("found 0.01"));
}

TEST(Embeddings, RefuseAnotherOptimizerThanAdam) {
  EmbeddingOptions of = options();
  of.optimizer.type = api::OptimizerType::SGD;
  const auto made = Embeddings::create(of, *comm::make_single_communicator());
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("spec.training.optimizer.type"));
}

TEST(Embeddings, GiveLeavesWhereGradientsAreEnabledAlone) {
  Embeddings embeddings = alone();
  const at::Tensor ids = ids_from({1, 4});
  const at::Tensor leaf = embeddings.read(0, ids);
  EXPECT_TRUE(leaf.requires_grad() && leaf.is_leaf());
  EXPECT_TRUE(at::equal(leaf, embeddings.values(0).index_select(0, ids)));
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(embeddings.read(0, ids).requires_grad());
}

TEST(Embeddings, RefuseIdsThatDoNotAscendOrHaveNoRow) {
  Embeddings embeddings = alone();
  EXPECT_ANY_THROW((void)embeddings.read(0, ids_from({2, 2})));
  EXPECT_ANY_THROW((void)embeddings.read(0, ids_from({3, 1})));
  EXPECT_ANY_THROW((void)embeddings.read(0, ids_from({-1})));
  EXPECT_ANY_THROW((void)embeddings.read(0, ids_from({12})));
  EXPECT_ANY_THROW((void)embeddings.read(0, at::zeros({1}, at::kInt)));
}

TEST(DenseEmbeddings, MoveRowsThatAStepDoesNotTouch) {
  Embeddings embeddings = alone();
  const at::Tensor start = embeddings.values(0);
  ASSERT_TRUE(step(embeddings, 0, ids_from({3})));
  const at::Tensor once = embeddings.values(0);
  ASSERT_TRUE(step(embeddings, 0, ids_from({5})));
  const at::Tensor twice = embeddings.values(0);
  EXPECT_FALSE(at::equal(once[3], twice[3]));
  EXPECT_TRUE(at::equal(twice[4], start[4]));
}

// Python's torch.optim.SparseAdam (2.11.0) in float64, recorded: torch.nn.Embedding(4, 2, sparse=True)
// of these values, and in each step the gradient of the sum over its ids, the k-th counted k-fold, of
// (row * [1.5, -0.25])^2.
TEST(LazyEmbeddings, AreThoseOfSparseAdam) {
  EmbeddingOptions of = options(Update::Lazy);
  of.tables = {{"node", 4, 2}};
  Embeddings embeddings = alone(of);
  auto state = embeddings.state();
  for (auto& entry : state) entry.tensor = entry.tensor.clone();
  state[0].tensor.select(1, 0).copy_(at::arange(8, at::kDouble).reshape({4, 2}) / 4 - 1);
  ASSERT_TRUE(embeddings.restore(state));
  const at::Tensor weights = at::tensor({1.5, -0.25}, at::kDouble);
  const std::vector<std::vector<int64_t>> steps{{0, 2}, {1}, {0}, {2, 3}, {0, 3}};
  for (const auto& ids : steps) {
    const auto count = static_cast<int64_t>(ids.size());
    const at::Tensor rows = embeddings.read(0, ids_from(ids));
    const at::Tensor times = at::arange(1, count + 1, at::kDouble).unsqueeze(1);
    (rows * weights * times).square().sum().backward();
    ASSERT_TRUE(embeddings.apply(*comm::make_single_communicator(), {.learning_rate = 0.05}));
  }
  const at::Tensor recorded = at::tensor(
      {-0.8646309166531948,
       -0.6147418375716409,
       -0.46279316405091075,
       -0.2127935353246015,
       0.0,
       0.1686437443128184,
       0.43436465839459976,
       0.6843360313766291},
      at::kDouble
  );
  EXPECT_LT((embeddings.values(0) - recorded.reshape({4, 2})).abs().max().item<double>(), 1e-14);
}

TEST(Embeddings, AddWhatIsReadSeveralTimesInAStep) {
  Embeddings parts = alone();
  Embeddings whole = alone();
  for (const auto& ids : {ids_from({1, 2, 5}), ids_from({2, 9})}) {
    const at::Tensor rows = parts.read(0, ids);
    rows.sum().backward();
  }
  const at::Tensor rows = whole.read(0, ids_from({1, 2, 5, 9}));
  (rows * at::tensor({1.0, 2.0, 1.0, 1.0}, at::kDouble).unsqueeze(1)).sum().backward();
  for (Embeddings* of : {&parts, &whole})
    ASSERT_TRUE(of->apply(*comm::make_single_communicator(), {.learning_rate = kRate}));
  EXPECT_TRUE(same_values(parts, whole));
}

TEST(Embeddings, ForgetAStepThatIsGivenUp) {
  Embeddings embeddings = alone();
  Embeddings other = alone();
  for (Embeddings* of : {&embeddings, &other}) ASSERT_TRUE(step(*of, 0, ids_from({1, 2, 3})));
  for (Embeddings* of : {&embeddings, &other}) ASSERT_TRUE(step(*of, 1, ids_from({1})));
  embeddings.read(0, ids_from({1, 4})).sum().backward();
  embeddings.discard();
  for (Embeddings* of : {&embeddings, &other}) ASSERT_TRUE(step(*of, 0, ids_from({1, 5})));
  EXPECT_TRUE(same_values(embeddings, other));
}

TEST(Embeddings, AreNotChangedByReading) {
  Embeddings embeddings = alone();
  Embeddings other = alone();
  const at::Tensor all = at::arange(12, at::kLong);
  for (int64_t i = 0; i < 30; ++i) {
    for (Embeddings* of : {&embeddings, &other}) ASSERT_TRUE(step(*of, 0, ids_from({i % 12})));
    const at::NoGradGuard no_grad;
    (void)embeddings.read(0, all);
    (void)embeddings.values(0);
    embeddings.for_each_part([](const at::Tensor&) {});
  }
  EXPECT_TRUE(same_values(embeddings, other));
  const auto state = embeddings.state();
  for (size_t i = 0; i < state.size(); ++i)
    EXPECT_TRUE(at::equal(state[i].tensor, other.state()[i].tensor)) << state[i].name;
}

TEST(Embeddings, PassAllRowsInParts) {
  EmbeddingOptions of = options();
  of.tables = {{"a", 3, 700'000}, {"b", 5, 2}};
  Embeddings embeddings = alone(of);
  std::vector<at::Tensor> parts;
  embeddings.for_each_part([&](const at::Tensor& part) { parts.push_back(part); });
  ASSERT_EQ(parts.size(), 4U);
  EXPECT_TRUE(at::equal(at::cat({parts[0], parts[1], parts[2]}), embeddings.values(0)));
  EXPECT_TRUE(at::equal(parts[3], embeddings.values(1)));
}

TEST(Embeddings, NameTheRowOfAGradientThatIsNotFinite) {
  for (const Update update : {Update::Dense, Update::Lazy}) {
    for (const double bad :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      Embeddings embeddings = alone(options(update));
      const at::Tensor rows = embeddings.read(1, ids_from({2, 4, 6}));
      at::Tensor factors = at::ones({3, 2}, at::kDouble);
      factors[1][1] = bad;
      factors[2][0] = bad;
      (rows * factors).sum().backward();
      const Status status =
          embeddings.apply(*comm::make_single_communicator(), {.learning_rate = kRate});
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().kind, ErrorKind::Configuration);
      EXPECT_THAT(status.error().message, HasSubstr("row 4 of the embeddings of item"));
    }
  }
}

TEST(Embeddings, FindWhatIsNotFinite) {
  EmbeddingOptions of = options();
  of.dtype = at::kFloat;
  Embeddings embeddings = alone(of);
  ASSERT_TRUE(step(embeddings, 1, ids_from({2})));
  EXPECT_EQ(embeddings.find_not_finite(), std::nullopt);
  // Its square is beyond float32.
  ASSERT_TRUE(step(embeddings, 1, ids_from({2}), 1e30));
  EXPECT_EQ(embeddings.find_not_finite(), "embeddings/item/state");
}

TEST(Embeddings, CountWhatTheyHold) {
  // Three numbers an element and four bytes a row; a hundred bytes or so for each step.
  const int64_t tables = (12 * 3 + 7 * 2) * 3 * 8;
  EXPECT_EQ(alone(options(Update::Lazy)).bytes(), tables);
  Embeddings dense = alone();
  EXPECT_GE(dense.bytes(), tables + 19 * 4);
  ASSERT_TRUE(step(dense, 0, ids_from({1})));
  EXPECT_GT(dense.bytes(), tables + 19 * 4 + 80);
}

// Steps with gaps of many lengths, in both tables.
Status gappy_step(Embeddings& embeddings, int64_t i) {
  const int64_t row = i * i % 11;
  return step(embeddings, static_cast<size_t>(i % 3 == 0), ids_from({row % 6, row % 6 + 1}));
}

TEST(Embeddings, GoOnFromTheirStateWithTheSameBits) {
  for (const Update update : {Update::Dense, Update::Lazy}) {
    Embeddings whole = alone(options(update));
    EmbeddingOptions of = options(update);
    for (int64_t i = 0; i < 40; ++i) {
      ASSERT_TRUE(gappy_step(whole, i));
      of.seed = 100 + i;  // what it starts from does not matter
      Embeddings resumed = alone(of);
      ASSERT_TRUE(resumed.restore(whole.state()));
      EXPECT_EQ(resumed.steps(), i + 1);
      EXPECT_TRUE(same_values(resumed, whole)) << i;
      Embeddings other = alone(options(update));
      ASSERT_TRUE(other.restore(whole.state()));
      for (Embeddings* each : {&resumed, &other})
        for (int64_t j = 0; j < 3; ++j) ASSERT_TRUE(gappy_step(*each, j));
      EXPECT_TRUE(same_values(resumed, other)) << i;
    }
  }
}

TEST(Embeddings, RefuseAStateThatDoesNotFitAndStayAsTheyAre) {
  Embeddings embeddings = alone();
  ASSERT_TRUE(step(embeddings, 0, ids_from({1})));
  const std::vector<at::Tensor> before = all_values(embeddings);
  const auto refused = [&](const std::string& name, const at::Tensor& replacement) {
    auto state = embeddings.state();
    std::erase_if(state, [&](const auto& entry) { return entry.name == name; });
    if (replacement.defined()) state.push_back({.name = name, .tensor = replacement});
    const Status status = embeddings.restore(state);
    EXPECT_TRUE(at::equal(embeddings.values(0), before[0]));
    return status ? std::string("restored") : status.error().message;
  };
  EXPECT_THAT(refused("embeddings/user/state", {}), HasSubstr("embeddings/user/state is missing"));
  EXPECT_THAT(
      refused("embeddings/user/state", at::zeros({11, 3, 3}, at::kDouble)),
      HasSubstr("expected Double [12, 3, 3], found Double [11, 3, 3]")
  );
  EXPECT_THAT(
      refused("embeddings/user/state", at::zeros({12, 3, 3}, at::kFloat)), HasSubstr("found Float")
  );
  EXPECT_THAT(
      refused("embeddings/item/last_steps", at::full({7}, 2, at::kInt)),
      HasSubstr("expected steps from 0 to 1")
  );
  EXPECT_THAT(
      refused("embeddings/item/last_steps", at::full({7}, -1, at::kInt)),
      HasSubstr("expected steps from 0 to 1")
  );
  EXPECT_THAT(
      refused("embeddings/shop/state", at::zeros({1})), HasSubstr("no embeddings/shop/state")
  );
  EXPECT_THAT(refused("embeddings/learning_rates", {}), HasSubstr("learning_rates is missing"));
}

// ---- several ranks

TEST(EmbeddingsOfRanks, ThatDifferAreRefusedOnAllNamingOne) {
  comm::run_ranks(3, [](const std::shared_ptr<comm::Communicator>& comm) {
    EmbeddingOptions of = options();
    if (comm->rank() == 2) of.tables[1].rows = 8;
    const auto made = Embeddings::create(of, *comm);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().kind, ErrorKind::Configuration);
    EXPECT_THAT(made.error().message, HasSubstr("rank 2"));
    EXPECT_THAT(made.error().message, HasSubstr("item [8, 2]"));
  });
}

// A batch reads users and items; the model has one weight.
struct Batch {
  std::vector<int64_t> users;
  std::vector<int64_t> items;
};

// Trains on batches in steps, by the reducer and the embeddings.
class Trainee {
 public:
  Trainee(
      Update update,
      comm::GradientAverage average,
      const std::shared_ptr<comm::Communicator>& communicator
  )
      : comm_(communicator),
        weight_(at::tensor({0.5, -1.0, 2.0}, at::kDouble).requires_grad_(true)),
        ddp_(comm::require(comm::DistributedDataParallel::create(
            {{"weight", weight_}}, {}, communicator, {.average = average}
        ))),
        adam_({weight_}, torch::optim::AdamOptions(kRate)),
        embeddings_(comm::require(Embeddings::create(options(update), *communicator))) {}

  // A step of some batches, none included.
  void step(const std::vector<Batch>& batches) {
    ddp_.zero_grad();
    comm::require(ddp_.start_step());
    comm::StepResult result;
    if (batches.empty()) result = comm::require(ddp_.shadow_step());
    for (size_t b = 0; b < batches.size(); ++b) {
      const auto [loss, size] = loss_of(batches[b]);
      const comm::StepContribution mine{.batch_size = size};
      if (b + 1 < batches.size()) {
        comm::require(ddp_.accumulate(loss, mine));
      } else {
        result = comm::require(ddp_.backward(loss, mine));
      }
    }
    comm::require(
        embeddings_.apply(*comm_, {.factor = ddp_.factor_of_sums(result), .learning_rate = kRate})
    );
    adam_.step();
  }

  [[nodiscard]] std::vector<at::Tensor> tensors() const {
    std::vector<at::Tensor> all = all_values(embeddings_);
    all.push_back(weight_.detach());
    for (const auto& entry : embeddings_.state()) all.push_back(entry.tensor);
    return all;
  }

 private:
  std::pair<at::Tensor, double> loss_of(const Batch& batch) {
    const at::Tensor users = embeddings_.read(0, ids_from(batch.users));
    const at::Tensor items = embeddings_.read(1, ids_from(batch.items));
    const at::Tensor scores = users.mv(weight_).unsqueeze(1) * items.sum(1);
    return {(scores - 1).square().mean(), static_cast<double>(scores.numel())};
  }

  std::shared_ptr<comm::Communicator> comm_;
  at::Tensor weight_;
  comm::DistributedDataParallel ddp_;
  torch::optim::Adam adam_;
  Embeddings embeddings_;
};

// The batches of a step by rank: some ranks have several, some none.
std::vector<std::vector<Batch>> batches_of_step(int64_t world, int64_t step) {
  std::mt19937_64 random(static_cast<uint64_t>(step));
  const auto draw = [&](int64_t rows) {
    std::set<int64_t> ids;
    for (int i = 0; i < 3; ++i)
      ids.insert(static_cast<int64_t>(random() % static_cast<uint64_t>(rows)));
    return std::vector<int64_t>(ids.begin(), ids.end());
  };
  std::vector<std::vector<Batch>> of_rank(static_cast<size_t>(world));
  for (int64_t rank = 0; rank < world; ++rank)
    for (int64_t b = 0; b < (rank + step) % 3; ++b)
      of_rank[static_cast<size_t>(rank)].push_back({draw(12), draw(7)});
  if (std::ranges::all_of(of_rank, [](const auto& of) { return of.empty(); }))
    of_rank[0].push_back({draw(12), draw(7)});
  return of_rank;
}

class EmbeddingRanks : public ::testing::TestWithParam<std::tuple<int64_t, Update>> {};

TEST_P(EmbeddingRanks, AreOneProcessThatAccumulatesTheirBatches) {
  const auto [world, update] = GetParam();
  constexpr int64_t kSteps = 60;
  Trainee one(update, comm::GradientAverage::BatchSize, comm::make_single_communicator());
  for (int64_t step = 0; step < kSteps; ++step) {
    std::vector<Batch> all;
    for (const auto& of : batches_of_step(world, step)) all.insert(all.end(), of.begin(), of.end());
    one.step(all);
  }
  const std::vector<at::Tensor> expected = one.tensors();
  comm::run_ranks(world, [&, world = world, update = update](const auto& comm) {
    Trainee mine(update, comm::GradientAverage::BatchSize, comm);
    for (int64_t step = 0; step < kSteps; ++step)
      mine.step(batches_of_step(world, step)[static_cast<size_t>(comm->rank())]);
    const std::vector<at::Tensor> found = mine.tensors();
    EXPECT_TRUE(comm::replicas_agree(found, *comm));
    for (size_t i = 0; i < 3; ++i)
      EXPECT_LT((found[i] - expected[i]).abs().max().template item<double>(), 1e-9) << i;
  });
}

INSTANTIATE_TEST_SUITE_P(
    WorldSizes,
    EmbeddingRanks,
    ::testing::Combine(::testing::Values(2, 3, 4), ::testing::Values(Update::Dense, Update::Lazy))
);

TEST(EmbeddingsOfRanks, DivideByTheWorldSizeWhereGradientsAreDividedByIt) {
  Embeddings expected = alone();
  const at::Tensor rows = expected.read(0, ids_from({4}));
  (rows.square().sum() / 2).backward();
  ASSERT_TRUE(expected.apply(*comm::make_single_communicator(), {.learning_rate = kRate}));
  comm::run_ranks(2, [&](const std::shared_ptr<comm::Communicator>& comm) {
    Embeddings mine = comm::require(Embeddings::create(options(), *comm));
    if (comm->rank() == 1) mine.read(0, ids_from({4})).square().sum().backward();
    comm::require(mine.apply(*comm, {.factor = 0.5, .learning_rate = kRate}));
    EXPECT_TRUE(same_values(mine, expected));
  });
}

TEST(EmbeddingsOfRanks, ReportTheSameGradientThatIsNotFinite) {
  comm::run_ranks(2, [](const std::shared_ptr<comm::Communicator>& comm) {
    Embeddings mine = comm::require(Embeddings::create(options(), *comm));
    const double gradient = comm->rank() == 1 ? std::numeric_limits<double>::quiet_NaN() : 1;
    (mine.read(0, ids_from({2})).sum() * gradient).backward();
    const Status status = mine.apply(*comm, {.factor = 0.5, .learning_rate = kRate});
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message, HasSubstr("row 2 of the embeddings of user"));
  });
}

TEST(EmbeddingsOfRanks, ReportALostRankAsPeerLost) {
  comm::run_ranks(2, [](const std::shared_ptr<comm::Communicator>& comm) {
    Embeddings mine = comm::require(Embeddings::create(options(), *comm));
    comm::require(comm->barrier());  // all connections of the group are made
    if (comm->rank() == 1) return;   // leaves: its connections close
    const Status status = mine.apply(*comm, {.learning_rate = kRate});
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().kind, ErrorKind::PeerLost) << status.error().message;
  });
}

}  // namespace
}  // namespace gnn::embedding
