#include "worker/agent/memory_note.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace gnn::agent {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(MemoryNotes, NameTheRankThatHoldsMost) {
  MemoryNotes notes(1000 * kMiB);
  const auto note = notes.take(std::array<int64_t, 3>{100 * kMiB, 400 * kMiB, 0}, 6);
  ASSERT_TRUE(note);
  EXPECT_EQ(note->local_rank, 1);
  EXPECT_EQ(
      note->message,
      "the pod was killed before it could say why; rank 7 held 400 MiB, all its ranks 500 MiB, and "
      "the "
      "memory limit is 1000 MiB"
  );
}

TEST(MemoryNotes, BeginAtHalfTheLimitAndFollowGrowthAlone) {
  MemoryNotes notes(1000 * kMiB);
  const auto noted = [&](int64_t mebibytes) {
    return notes.take(std::array<int64_t, 1>{mebibytes * kMiB}, 0).has_value();
  };
  EXPECT_FALSE(noted(499));
  EXPECT_TRUE(noted(500));
  EXPECT_FALSE(noted(549));
  EXPECT_FALSE(noted(100));
  EXPECT_FALSE(noted(500));
  EXPECT_TRUE(noted(550));
  EXPECT_TRUE(noted(999));
}

TEST(MemoryNotes, AreAtMostElevenHoweverMemoryMoves) {
  MemoryNotes notes(1000 * kMiB);
  int count = 0;
  for (int round = 0; round < 3; ++round) {
    for (int64_t held = 0; held <= 1000; ++held) {
      if (notes.take(std::array<int64_t, 1>{held * kMiB}, 0)) ++count;
    }
  }
  EXPECT_EQ(count, 11);
}

TEST(MemoryNotes, AreNoneWithoutALimitOrRanks) {
  EXPECT_FALSE(MemoryNotes(std::nullopt).take(std::array<int64_t, 1>{kMiB}, 0));
  EXPECT_FALSE(MemoryNotes(kMiB).take({}, 0));
  EXPECT_FALSE(MemoryNotes(0).take(std::array<int64_t, 1>{0}, 0));
}

}  // namespace
}  // namespace gnn::agent
