#include "worker/training/scattered_rows.h"

#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/training/counting_sink.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace gnn::training {
namespace {

// More than two windows.
constexpr int64_t kPlaces = 150'001;

// Has ranks add the rows that `mine` says, in pieces, and returns what rank 0 gets of all places.
template <class Mine>
Result<at::Tensor> sent_by(int64_t world, const at::Tensor& rows, const Mine& mine) {
  Result<at::Tensor> found = at::Tensor();
  comm::run_ranks(world, [&](const std::shared_ptr<comm::Communicator>& all) {
    const StopToken stop;
    CountingSink progress;
    ScatteredRows scattered(rows.scalar_type(), rows.sizes().slice(1).vec());
    for (const at::Tensor& places : mine(all->rank()).split(1000))
      scattered.add(places, rows.index_select(0, places));
    std::vector<at::Tensor> windows;
    const auto sent = scattered.send(
        kPlaces,
        *all,
        {.stop = stop, .progress = progress},
        [&](const at::Tensor& window) { windows.push_back(window); }
    );
    if (all->rank() != 0) {
      EXPECT_TRUE(windows.empty());
      return;
    }
    if (sent) {
      EXPECT_TRUE(*sent);
      found = at::cat(windows);
    } else {
      found = tl::unexpected(sent.error());
    }
  });
  return found;
}

TEST(ScatteredRows, ComeInTheOrderOfPlacesWhoeverHasThem) {
  torch::manual_seed(3);
  const at::Tensor order = torch::randperm(kPlaces);
  for (const at::Tensor& rows : {at::arange(kPlaces), torch::randn({kPlaces, 3})}) {
    for (const int64_t world : {1, 3}) {
      const auto found = sent_by(world, rows, [&](int64_t rank) {
        return order.slice(0, rank * kPlaces / world, (rank + 1) * kPlaces / world);
      });
      ASSERT_TRUE(found) << found.error().message;
      EXPECT_TRUE(at::equal(*found, rows)) << world << " ranks";
    }
  }
  const auto of_one =
      sent_by(2, order, [&](int64_t rank) { return order.slice(0, 0, rank == 0 ? 0 : kPlaces); });
  EXPECT_TRUE(at::equal(of_one.value(), order)) << "where rank 0 has none";
}

TEST(ScatteredRows, RefuseAPlaceWithoutRow) {
  const at::Tensor places = at::arange(kPlaces);
  places[kPlaces - 1] = 0;
  const auto found = sent_by(2, at::arange(kPlaces), [&](int64_t rank) {
    return places.slice(0, rank * 1000, rank == 0 ? 1000 : kPlaces);
  });
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::Data);
  EXPECT_THAT(found.error().message, ::testing::HasSubstr("a node without rows"));
}

}  // namespace
}  // namespace gnn::training
