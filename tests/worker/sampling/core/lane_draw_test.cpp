#include "worker/sampling/core/lane_draw.h"

#include <gtest/gtest.h>

#include <vector>

namespace gnn::sampling::core {
namespace {

constexpr Philox4x32::Key kLaneDrawKey{21, 22};
constexpr uint32_t kLaneDrawHop = 3;

struct Wanted {
  int64_t node;
  int64_t degree;
  int64_t first;
};

std::vector<int64_t> drawn_in_lanes(const std::vector<Wanted>& wanted, int64_t count) {
  LaneDraw draw(kLaneDrawKey, kLaneDrawHop, count);
  std::vector<int64_t> out(wanted.size() * static_cast<size_t>(count), -1);
  int64_t* next = out.data();
  for (const Wanted& each : wanted) {
    draw.add(each.node, each.degree, each.first, next);
    next += count;
  }
  draw.flush();
  return out;
}

std::vector<int64_t> drawn_one_by_one(const std::vector<Wanted>& wanted, int64_t count) {
  NeighborDraw draw(count);
  std::vector<int64_t> out(wanted.size() * static_cast<size_t>(count), -1);
  int64_t* next = out.data();
  for (const Wanted& each : wanted) {
    const CounterRng rng(kLaneDrawKey, kLaneDrawHop, static_cast<uint64_t>(each.node));
    draw.distinct(rng, each.degree, count, each.first, next);
    next += count;
  }
  return out;
}

TEST(LaneDraw, DrawsWhatOneNodeAfterTheOtherDraws) {
  CounterRng rng({1, 2}, 0, 0);
  for (int64_t count = 1; count <= LaneDraw::kMaxCount; ++count) {
    std::vector<Wanted> wanted;
    for (int i = 0; i < 203; ++i) {
      // From one more than the draw, where all but every draw meets one taken before, to many.
      const auto extra = static_cast<int64_t>(rng.below(uint64_t{1} << rng.below(20)));
      wanted.push_back({static_cast<int64_t>(rng.next64() >> 1), count + 1 + extra, 1000 * i});
    }
    EXPECT_EQ(drawn_in_lanes(wanted, count), drawn_one_by_one(wanted, count)) << count;
  }
}

TEST(LaneDraw, DrawsForAnyNumberOfNodes) {
  std::vector<Wanted> wanted;
  for (int64_t node = 0; node < 140; ++node) {
    EXPECT_EQ(drawn_in_lanes(wanted, 5), drawn_one_by_one(wanted, 5)) << node;
    wanted.push_back({node, 40 + node, 7 * node});
  }
}

// A degree of 3 of 2^32 rejects a word in four; one beyond 2^32 takes two words a draw.
TEST(LaneDraw, DrawsAgainWhereOneDrawRejectsAndFromListsBeyondThirtyTwoBits) {
  std::vector<Wanted> wanted;
  for (int64_t node = 0; node < 200; ++node) {
    const int64_t degree = node % 3 == 0   ? int64_t{3} << 30
                           : node % 3 == 1 ? (int64_t{1} << 32) - 1 + node % 5
                                           : int64_t{1} << 40;
    wanted.push_back({node, degree, int64_t{1} << 50});
  }
  for (const int64_t count : {1, 5, 15, 32})
    EXPECT_EQ(drawn_in_lanes(wanted, count), drawn_one_by_one(wanted, count)) << count;
}

TEST(LaneDraw, StartsAnewAfterAFlush) {
  const std::vector<Wanted> wanted{{1, 10, 0}, {2, 20, 10}};
  LaneDraw draw(kLaneDrawKey, kLaneDrawHop, 3);
  std::vector<int64_t> out(6);
  for (int round = 0; round < 2; ++round) {
    out.assign(6, -1);
    draw.add(1, 10, 0, out.data());
    draw.add(2, 20, 10, out.data() + 3);
    draw.flush();
    EXPECT_EQ(out, drawn_one_by_one(wanted, 3));
  }
}

}  // namespace
}  // namespace gnn::sampling::core
