#include "worker/comm/communicator.h"

#include "tests/worker/comm/in_process_ranks.h"
#include "worker/comm/c10d_communicator.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace gnn::comm {
namespace {

TEST(RunCollective, ReportsThatTorchRanOutOfMemory) {
  const Status status = run_collective("backward", nullptr, [] {
    TORCH_CHECK(false, "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes");
  });
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().kind, ErrorKind::OutOfMemory) << status.error().message;
}

template <class Throw>
ErrorKind kind_thrown_by(Throw throw_it) {
  return run_collective("all_reduce", nullptr, throw_it).error().kind;
}

TEST(RunCollective, TakesC10dsOwnErrorsForALostPeer) {
  EXPECT_EQ(
      kind_thrown_by([] { C10_THROW_ERROR(DistBackendError, "NCCL: remote process exited"); }),
      ErrorKind::PeerLost
  );
  EXPECT_EQ(
      kind_thrown_by([] { C10_THROW_ERROR(DistNetworkError, "Connection reset by peer"); }),
      ErrorKind::PeerLost
  );
  EXPECT_EQ(
      kind_thrown_by([] { C10_THROW_ERROR(DistStoreError, "wait timeout after 10 ms"); }),
      ErrorKind::PeerLost
  );
}

TEST(RunCollective, NeverTakesAMistakeForALostPeerWhateverItsText) {
  EXPECT_EQ(
      kind_thrown_by([] { TORCH_CHECK(false, "gloo/ddp.cpp: expected shape [3], found [4]"); }),
      ErrorKind::Internal
  );
  EXPECT_EQ(
      kind_thrown_by([] { throw std::invalid_argument("gloo: expected shape [3]"); }),
      ErrorKind::Internal
  );
}

class GlooTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(GlooTest, ReducesGathersAndBroadcasts) {
  const int64_t world = GetParam();
  run_ranks(world, [world](const std::shared_ptr<Communicator>& comm) {
    auto sum = at::full({3}, static_cast<double>(comm->rank() + 1), at::kDouble);
    require(comm->all_reduce(sum));
    EXPECT_EQ(sum[2].item<double>(), static_cast<double>(world * (world + 1)) / 2);

    auto largest = at::full({1}, comm->rank(), at::kLong);
    require(comm->all_reduce(largest, ReduceOp::Max));
    EXPECT_EQ(largest.item<int64_t>(), world - 1);
    auto smallest = at::full({1}, comm->rank() + 5, at::kLong);
    require(comm->all_reduce(smallest, ReduceOp::Min));
    EXPECT_EQ(smallest.item<int64_t>(), 5);

    auto sent = at::full({2}, comm->rank() == world - 1 ? 7.0F : 0.0F, at::kFloat);
    require(comm->broadcast(sent, world - 1));
    EXPECT_EQ(sent[1].item<float>(), 7.0F);

    const auto all = require(comm->all_gather(at::full({1}, comm->rank(), at::kLong)));
    for (int64_t r = 0; r < world; ++r) EXPECT_EQ(all[static_cast<size_t>(r)].item<int64_t>(), r);

    const std::string mine(static_cast<size_t>(comm->rank() * 3), 'x');
    const auto bytes = require(all_gather_bytes(*comm, mine));
    for (int64_t r = 0; r < world; ++r)
      EXPECT_EQ(bytes[static_cast<size_t>(r)].size(), static_cast<size_t>(r * 3));

    const auto sums = require(all_reduce_sums(*comm, {1.0, static_cast<double>(comm->rank())}));
    EXPECT_EQ(sums[0], static_cast<double>(world));
    require(comm->barrier());
  });
}

INSTANTIATE_TEST_SUITE_P(WorldSizes, GlooTest, ::testing::Values(1, 2, 3, 4));

TEST(Gloo, ReportsAMissingRankAsPeerLostWithinTheTimeout) {
  run_ranks(2, [](const std::shared_ptr<Communicator>& comm) {
    require(comm->barrier());       // all connections of the group are made
    if (comm->rank() == 1) return;  // leaves: its connections close
    const auto start = std::chrono::steady_clock::now();
    const auto status = comm->barrier(std::chrono::seconds(5));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().kind, ErrorKind::PeerLost);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  });
}

TEST(Gloo, ReportsALateRankAsPeerLost) {
  std::atomic<bool> given_up = false;
  run_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
    require(comm->barrier());  // all connections of the group are made
    if (comm->rank() == 1) return given_up.wait(false);
    const auto status = comm->barrier(std::chrono::milliseconds(20));
    given_up = true;
    given_up.notify_all();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().kind, ErrorKind::PeerLost) << status.error().message;
  });
}

TEST(Gloo, ReportsAMistakeOfTheCallerAsInternal) {
  run_ranks(2, [](const std::shared_ptr<Communicator>& comm) {
    const auto status = comm->broadcast(at::zeros({1}), /*root=*/7);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().kind, ErrorKind::Internal) << status.error().message;
  });
}

TEST(Gloo, TellsItsActivityThatItWaits) {
  auto activity = std::make_shared<progress::CollectiveActivity>();
  auto comm = make_communicator(
      Backend::Gloo, c10::Device(c10::kCPU), *in_process_c10d_store(), 0, 1, {.activity = activity}
  );
  ASSERT_TRUE(comm) << comm.error().message;
  ASSERT_TRUE((*comm)->barrier());
  EXPECT_EQ(activity->done(), 1);
  EXPECT_FALSE(activity->waiting());
}

TEST(SingleCommunicator, DoesEveryCollectiveAtOnce) {
  const auto comm = make_single_communicator();
  auto tensor = at::full({2}, 3.0F);
  EXPECT_TRUE(comm->all_reduce(tensor));
  EXPECT_TRUE(comm->broadcast(tensor, 0));
  EXPECT_TRUE(comm->barrier());
  EXPECT_EQ(comm->all_gather(tensor)->size(), 1U);
  EXPECT_EQ(tensor[0].item<float>(), 3.0F);
}

TEST(DescribeDifferences, NamesTheRanksOfEachValue) {
  EXPECT_EQ(describe_differences({"cpu", "cuda", "cpu"}), "cpu on ranks 0, 2; cuda on rank 1");
  EXPECT_EQ(describe_differences({"cpu", "cpu"}), "");
}

TEST(DescribeDifferences, NamesEightRanksAtMost) {
  std::vector<std::string> values(11, "cpu");
  values[10] = "cuda";
  EXPECT_EQ(
      describe_differences(values),
      "cpu on ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more; cuda on rank 10"
  );
}

TEST(ProcessGroups, RefuseRanksOnDifferentKindsOfDevicesAndNameThem) {
  const auto store = in_process_c10d_store();
  const std::array<c10::Device, 2> devices{c10::Device(c10::kCPU), c10::Device(c10::kCUDA, 0)};
  std::vector<std::thread> ranks;
  for (const int64_t rank : {0, 1}) {
    ranks.emplace_back([&, rank] {
      const auto comm = make_communicator(
          Backend::Auto,
          devices.at(static_cast<size_t>(rank)),
          *store,
          rank,
          2,
          {.timeout = std::chrono::seconds(30)}
      );
      ASSERT_FALSE(comm);
      EXPECT_EQ(comm.error().kind, ErrorKind::Configuration);
      EXPECT_NE(comm.error().message.find("cpu on rank 0; cuda on rank 1"), std::string::npos)
          << comm.error().message;
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(ProcessGroups, RefuseGlooForRanksOnCuda) {
  const c10::Device cuda(c10::kCUDA, 0);
  const auto comm = make_communicator(Backend::Gloo, cuda, *in_process_c10d_store(), 0, 1, {});
  ASSERT_FALSE(comm);
  EXPECT_EQ(comm.error().kind, ErrorKind::Configuration);
  EXPECT_NE(comm.error().message.find("Gloo expects ranks on the CPU"), std::string::npos)
      << comm.error().message;
  EXPECT_FALSE(ProcessGroups::create({}, Backend::Gloo, cuda)) << "in a job of one rank, too";
}

TEST(ProcessGroups, RefuseABackendThatThisBuildLacks) {
  const auto comm =
      make_communicator(Backend::Nccl, c10::Device(c10::kCPU), *in_process_c10d_store(), 0, 1, {});
  ASSERT_FALSE(comm);
  EXPECT_EQ(comm.error().kind, ErrorKind::Configuration);
}

}  // namespace
}  // namespace gnn::comm
