#include "worker/comm/ddp.h"

#include "tests/worker/comm/in_process_ranks.h"
#include "worker/comm/uneven_inputs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <chrono>

namespace gnn::comm {
namespace {

constexpr int64_t kFeatures = 5;
constexpr int64_t kClasses = 3;

// Seeded by value, not by the global generator: ranks are threads of one process.
struct NetImpl : torch::nn::Module {
  NetImpl(at::ScalarType dtype, int64_t seed) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
    const auto parameter = [&](const char* name, std::vector<int64_t> shape) {
      return register_parameter(
          name, at::randn(shape, generator, at::TensorOptions(at::kDouble)).to(dtype)
      );
    };
    first = parameter("first", {kFeatures, 7});
    bias = parameter("bias", {7});
    second = parameter("second", {7, kClasses});
    calls = register_buffer("calls", at::zeros({1}, dtype));
  }
  at::Tensor forward(const at::Tensor& x) {
    calls.add_(1);
    return at::tanh(x.matmul(first) + bias).matmul(second);
  }
  at::Tensor first, bias, second, calls;
};
TORCH_MODULE(Net);

struct Batch {
  at::Tensor x;
  at::Tensor y;
};

// The items [begin, end) of a fixed stream.
Batch items(int64_t begin, int64_t end, at::ScalarType dtype) {
  const auto index = at::arange(begin, end, at::kDouble).unsqueeze(1);
  const auto column = at::arange(kFeatures, at::kDouble).unsqueeze(0);
  return {
      .x = at::sin(index * 12.9898 + column * 78.233).to(dtype),
      .y = at::remainder(at::arange(begin, end, at::kLong) * 7, kClasses)
  };
}

at::Tensor loss_of(Net& net, const Batch& batch) {
  return at::cross_entropy_loss(net->forward(batch.x), batch.y);
}

std::vector<at::Tensor> copies(Net& net) {
  std::vector<at::Tensor> tensors;
  for (const auto& parameter : net->parameters()) tensors.push_back(parameter.detach().clone());
  return tensors;
}

double largest_difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, (a[i] - b[i]).abs().max().item<double>());
  return largest;
}

DistributedDataParallel wrap(
    Net& net, std::shared_ptr<Communicator> comm, DdpOptions options = {}
) {
  return require(DistributedDataParallel::create(
      named_parameters_of(*net), named_buffers_of(*net), std::move(comm), options
  ));
}

// Batch of `rank` in `step`; sizes differ by rank and step, and may be 0.
struct Share {
  int64_t begin = 0;
  int64_t end = 0;
};
Share share(int64_t step, int64_t rank, int64_t world, bool last_rank_has_none) {
  const auto size = [&](int64_t r) {
    if (last_rank_has_none && r == world - 1) return int64_t{0};
    return 2 + (step + r) % 3;
  };
  int64_t begin = step * 100;
  for (int64_t r = 0; r < rank; ++r) begin += size(r);
  return {.begin = begin, .end = begin + size(rank)};
}

// Ten SGD steps of one process on the union of the ranks' batches.
std::vector<at::Tensor> train_on_union(
    int64_t world, at::ScalarType dtype, bool last_rank_has_none
) {
  Net net(dtype, 0);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int64_t step = 0; step < 10; ++step) {
    const auto begin = share(step, 0, world, last_rank_has_none).begin;
    const auto end = share(step, world - 1, world, last_rank_has_none).end;
    optimizer.zero_grad();
    loss_of(net, items(begin, end, dtype)).backward();
    optimizer.step();
  }
  return copies(net);
}

struct Case {
  int64_t world;
  at::ScalarType dtype;
  bool last_rank_has_none;
  double tolerance;
};
class WeightedTest : public ::testing::TestWithParam<Case> {};

TEST_P(WeightedTest, TrainsAsOneProcessOnTheUnionBatch) {
  const Case c = GetParam();
  const auto expected = train_on_union(c.world, c.dtype, c.last_rank_has_none);
  run_ranks(c.world, [&](const std::shared_ptr<Communicator>& comm) {
    Net net(c.dtype, comm->rank());  // different at first: rank 0's parameters are sent to all
    auto ddp = wrap(
        net,
        comm,
        {.bucket_bytes = 200, .first_bucket_bytes = 64, .average = GradientAverage::BatchSize}
    );
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    for (int64_t step = 0; step < 10; ++step) {
      const auto mine = share(step, comm->rank(), c.world, c.last_rank_has_none);
      ddp.zero_grad();
      require(ddp.start_step(0));
      StepResult result;
      if (mine.begin == mine.end) {
        result = require(ddp.shadow_step());
      } else {
        const auto batch_size = static_cast<double>(mine.end - mine.begin);
        result = require(ddp.backward(
            loss_of(net, items(mine.begin, mine.end, c.dtype)), {.batch_size = batch_size}
        ));
      }
      const auto end = share(step, c.world - 1, c.world, c.last_rank_has_none).end;
      EXPECT_NEAR(result.total_batch_size, static_cast<double>(end - step * 100), 1e-3);
      EXPECT_EQ(result.active_ranks, c.last_rank_has_none ? c.world - 1 : c.world);
      optimizer.step();
      EXPECT_TRUE(replicas_agree(net->parameters(), *comm)) << "after step " << step;
    }
    EXPECT_LE(largest_difference(copies(net), expected), c.tolerance);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Worlds,
    WeightedTest,
    ::testing::Values(
        Case{1, at::kDouble, false, 1e-9},
        Case{2, at::kDouble, false, 1e-9},
        Case{3, at::kDouble, false, 1e-9},
        Case{4, at::kDouble, false, 1e-9},
        Case{3, at::kDouble, true, 1e-9},
        Case{2, at::kFloat, false, 1e-5},
        Case{4, at::kFloat, true, 1e-5}
    ),
    [](const ::testing::TestParamInfo<Case>& item) {
      return std::to_string(item.param.world) +
             (item.param.dtype == at::kDouble ? "Double" : "Float") +
             (item.param.last_rank_has_none ? "OneRankHasNone" : "");
    }
);

TEST(DistributedDataParallel, KeepsReplicasEqualOverUnevenEpochs) {
  for (const auto& batches :
       std::vector<std::vector<int64_t>>{{4, 3}, {1, 9}, {0, 3, 2}, {5, 5, 4, 0}}) {
    const ShadowPlan plan(batches);
    for (const auto average : {GradientAverage::WorldSize, GradientAverage::BatchSize})
      run_ranks(
          static_cast<int64_t>(batches.size()),
          [&](const std::shared_ptr<Communicator>& comm) {
            Net net(at::kFloat, comm->rank());
            auto ddp = wrap(net, comm, {.average = average});
            torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(0.01));
            for (int64_t step = 0; step < plan.total_steps(); ++step) {
              ddp.zero_grad();
              require(ddp.start_step(plan.buffer_source(step)));
              const int64_t begin = step * 10 + comm->rank() * 1000;
              const auto result =
                  step < batches[static_cast<size_t>(comm->rank())]
                      ? require(ddp.backward(loss_of(net, items(begin, begin + 4, at::kFloat))))
                      : require(ddp.shadow_step());
              EXPECT_EQ(result.active_ranks, plan.active_ranks(step));
              EXPECT_FALSE(result.stop);
              optimizer.step();

              EXPECT_TRUE(replicas_agree(net->parameters(), *comm));
            }
          }
      );
  }
}

TEST(DistributedDataParallel, EveryRankLearnsTheMeanLossOfAllItems) {
  run_ranks(3, [](const std::shared_ptr<Communicator>& comm) {
    Net net(at::kDouble, 0);
    Net alone(at::kDouble, 0);
    const double expected = loss_of(alone, items(0, 9, at::kDouble)).item<double>();
    auto ddp = wrap(net, comm);
    require(ddp.start_step());
    // Rank 0 takes 4 items and, before them, 2; rank 1 takes 3; rank 2 has none.
    const auto part = [&](int64_t from, int64_t to) {
      return loss_of(net, items(from, to, at::kDouble));
    };
    StepResult result;
    if (comm->rank() == 0) {
      const at::Tensor first = part(0, 2);
      require(ddp.accumulate(first / 2, {.batch_size = 2, .reported_loss = first}));
      const at::Tensor second = part(2, 6);
      result = require(ddp.backward(second / 2, {.batch_size = 4, .reported_loss = second}));
    } else if (comm->rank() == 1) {
      result = require(ddp.backward(part(6, 9), {.batch_size = 3}));
    } else {
      result = require(ddp.shadow_step());
    }
    EXPECT_NEAR(result.mean_loss, expected, 1e-12);
    // And the next step starts from nothing.
    require(ddp.start_step());
    EXPECT_NEAR(require(ddp.backward(part(0, 9), {.batch_size = 9})).mean_loss, expected, 1e-12);
  });
}

TEST(DistributedDataParallel, SaysHowLongARankWaitedForTheOthersGradients) {
  run_ranks(2, [](const std::shared_ptr<Communicator>& comm) {
    Net net(at::kFloat, 0);
    auto ddp = wrap(net, comm);
    EXPECT_EQ(ddp.exposed_reduce_seconds(), 0);
    require(ddp.start_step());
    const auto start = std::chrono::steady_clock::now();
    require(ddp.backward(loss_of(net, items(0, 4, at::kFloat))));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_GT(ddp.exposed_reduce_seconds(), 0);
    EXPECT_LE(ddp.exposed_reduce_seconds(), took.count());
  });
}

TEST(DistributedDataParallel, CountsAsACollectiveWhateverWaitsForOtherRanks) {
  run_ranks(2, [](const std::shared_ptr<Communicator>& comm) {
    Net net(at::kFloat, 0);
    auto ddp = wrap(net, comm);
    const auto activity = comm->activity();
    const int64_t before = activity->done();
    require(ddp.start_step(0));
    EXPECT_EQ(activity->done(), before + 1) << "the broadcast of the buffers";
    const int64_t begin = comm->rank() * 10;
    require(ddp.backward(loss_of(net, items(begin, begin + 4, at::kFloat))));
    EXPECT_EQ(activity->done(), before + 3) << "the reduction, and the wait for what it agreed on";
    EXPECT_FALSE(activity->waiting());
  });
}

TEST(DistributedDataParallel, ARankCountsAsWaitingWhileAnotherHasNoGradientsYet) {
  ActivityOfRank0 first;
  run_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
    Net net(at::kFloat, 0);
    auto ddp = wrap(net, comm);
    require(ddp.start_step());
    if (comm->rank() == 0) first.show(comm->activity());
    EXPECT_TRUE(comm->rank() == 0 || first.wait_until_it_waits());
    require(ddp.backward(loss_of(net, items(0, 4, at::kFloat))));
  });
}

TEST(DistributedDataParallel, AllRanksLearnInTheSameStepThatOneWantsToStop) {
  run_ranks(3, [](const std::shared_ptr<Communicator>& comm) {
    Net net(at::kFloat, 0);
    auto ddp = wrap(net, comm);
    int64_t steps = 0;
    for (bool stop = false; !stop && steps < 10; ++steps) {
      ddp.zero_grad();
      require(ddp.start_step());
      const bool asked = comm->rank() == 1 && steps == 2;
      stop = require(ddp.backward(loss_of(net, items(0, 4, at::kFloat)), {.stop = asked})).stop;
    }
    EXPECT_EQ(steps, 3);
  });
}

TEST(DistributedDataParallel, AccumulatedStepsEqualTheUnionBatch) {
  run_ranks(2, [](const std::shared_ptr<Communicator>& comm) {
    Net net(at::kDouble, 0);
    Net alone(at::kDouble, 0);
    loss_of(alone, items(0, 12, at::kDouble)).backward();
    auto ddp = wrap(net, comm, {.average = GradientAverage::BatchSize});
    require(ddp.start_step());
    // Rank 0 takes 5 + 3 items in two parts, rank 1 takes 1 + 3.
    const int64_t begin = comm->rank() == 0 ? 0 : 8;
    const int64_t cut = comm->rank() == 0 ? 5 : 9;
    const int64_t end = comm->rank() == 0 ? 8 : 12;
    const auto part = [&](int64_t from, int64_t to) {
      return loss_of(net, items(from, to, at::kDouble));
    };
    require(ddp.accumulate(part(begin, cut), {.batch_size = static_cast<double>(cut - begin)}));
    require(ddp.backward(part(cut, end), {.batch_size = static_cast<double>(end - cut)}));
    EXPECT_TRUE(at::allclose(net->first.grad(), alone->first.grad(), 1e-12, 1e-12));
    EXPECT_TRUE(at::allclose(net->second.grad(), alone->second.grad(), 1e-12, 1e-12));
  });
}

TEST(DistributedDataParallel, FollowsParametersWhoseStorageIsReplaced) {
  run_ranks(2, [](const std::shared_ptr<Communicator>& comm) {
    Net net(at::kDouble, 0);
    auto ddp = wrap(net, comm);
    for (int64_t step = 0; step < 2; ++step) {
      {
        const at::NoGradGuard no_grad;  // as torch's archives load
        for (auto& parameter : net->parameters()) parameter.set_(parameter.detach().clone());
      }
      ddp.zero_grad();
      require(ddp.start_step());
      const int64_t begin = comm->rank() * 10;
      require(ddp.backward(loss_of(net, items(begin, begin + 4, at::kDouble))));
      auto mine = net->first.grad().clone();
      require(comm->broadcast(mine, 0));
      EXPECT_TRUE(at::equal(mine, net->first.grad()));
    }
  });
}

TEST(DistributedDataParallel, RefusesAParameterWithoutGradient) {
  run_ranks(2, [](const std::shared_ptr<Communicator>& comm) {
    Net net(at::kFloat, 0);
    auto ddp = wrap(net, comm);
    require(ddp.start_step());
    const auto result = ddp.backward(net->first.sum());  // `second` is not reached
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::Internal) << "no peer is to blame";
  });
}

TEST(DistributedDataParallel, SendsBuffersOfTheChosenRank) {
  run_ranks(2, [](const std::shared_ptr<Communicator>& comm) {
    Net net(at::kFloat, 0);
    auto ddp = wrap(net, comm);
    net->calls.fill_(static_cast<double>(comm->rank() + 10));
    require(ddp.start_step(1));
    EXPECT_EQ(net->calls.item<float>(), 11.0F);
  });
}

TEST(DistributedDataParallel, NamesTheFirstTensorThatDiffersBetweenRanks) {
  run_ranks(2, [](const std::shared_ptr<Communicator>& comm) {
    const auto mine = at::zeros({2, comm->rank() == 0 ? 3 : 4}).requires_grad_(true);
    const auto ddp = DistributedDataParallel::create({{"weight", mine}}, {}, comm);
    ASSERT_FALSE(ddp);
    EXPECT_EQ(ddp.error().kind, ErrorKind::Configuration);
    EXPECT_NE(ddp.error().message.find("weight"), std::string::npos);
    EXPECT_NE(ddp.error().message.find("[2, 4]"), std::string::npos);
  });
}

TEST(DistributedDataParallel, ReducesToTheSameBitsEveryTime) {
  std::vector<std::vector<at::Tensor>> runs(2);
  for (auto& run : runs)
    run_ranks(3, [&run](const std::shared_ptr<Communicator>& comm) {
      Net net(at::kFloat, 0);
      auto ddp = wrap(net, comm, {.bucket_bytes = 100, .first_bucket_bytes = 40});
      torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(0.01));
      for (int64_t step = 0; step < 5; ++step) {
        ddp.zero_grad();
        require(ddp.start_step());
        const int64_t begin = 3 * step + comm->rank();
        require(ddp.backward(loss_of(net, items(begin, begin + 5, at::kFloat))));
        optimizer.step();
      }
      if (comm->rank() == 0) run = copies(net);
    });
  for (size_t i = 0; i < runs[0].size(); ++i) EXPECT_TRUE(at::equal(runs[0][i], runs[1][i]));
}

TEST(DistributedDataParallel, LayoutHashDependsOnNamesShapesAndBuckets) {
  Net net(at::kFloat, 0);
  const auto hash = [&](DdpOptions options) {
    return wrap(net, make_single_communicator(), options).layout_hash();
  };
  EXPECT_EQ(hash({}), hash({}));
  EXPECT_NE(hash({}), hash({.bucket_bytes = 64, .first_bucket_bytes = 32}));
}

}  // namespace
}  // namespace gnn::comm
