#include "worker/data/gather.h"

#include "worker/sampling/core/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace gnn::data {
namespace {

std::vector<std::byte> random_bytes(size_t count) {
  sampling::core::CounterRng rng({7, 7}, 0, count);
  std::vector<std::byte> bytes(count);
  for (std::byte& each : bytes) each = static_cast<std::byte>(rng.next32());
  return bytes;
}

std::vector<int64_t> random_ids(size_t count, uint64_t num_rows) {
  sampling::core::CounterRng rng({8, 8}, 0, count);
  std::vector<int64_t> ids(count);
  for (int64_t& id : ids) id = static_cast<int64_t>(rng.below(num_rows));
  return ids;
}

struct GatherCase {
  size_t row_bytes;
  size_t count;
};

class GatherRows : public ::testing::TestWithParam<GatherCase> {};

TEST_P(GatherRows, CopiesRowsById) {
  const auto [row_bytes, count] = GetParam();
  constexpr size_t kRows = 700;
  constexpr size_t kMargin = 13;
  const auto rows = random_bytes(kRows * row_bytes);
  const auto ids = random_ids(count, kRows);
  std::vector<std::byte> expected(count * row_bytes);
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(
        expected.data() + i * row_bytes,
        rows.data() + static_cast<size_t>(ids[i]) * row_bytes,
        row_bytes
    );
  }
  std::vector<std::byte> alone(count * row_bytes);
  gather_rows(rows.data(), row_bytes, ids, alone.data());
  EXPECT_EQ(alone, expected);
  ThreadPool pool(3);
  std::vector<std::byte> together(count * row_bytes);
  gather_rows(rows.data(), row_bytes, ids, together.data(), pool);
  EXPECT_EQ(together, expected);
  // By address, and none where another place in memory has the row already.
  std::vector<const std::byte*> addresses;
  std::vector<std::byte> with_gaps = expected;
  for (size_t i = 0; i < count; ++i) {
    const bool is_gap = i % 3 == 1;
    addresses.push_back(is_gap ? nullptr : rows.data() + static_cast<size_t>(ids[i]) * row_bytes);
    if (is_gap) std::fill_n(with_gaps.data() + i * row_bytes, row_bytes, std::byte{0x5A});
  }
  std::vector<std::byte> by_address(count * row_bytes, std::byte{0x5A});
  gather_rows(addresses, row_bytes, by_address.data());
  EXPECT_EQ(by_address, with_gaps);
  // A result that starts inside a cache line leaves what lies before and after it alone.
  std::vector<std::byte> shifted(count * row_bytes + 2 * kMargin, std::byte{0x5A});
  gather_rows(rows.data(), row_bytes, ids, shifted.data() + kMargin);
  const std::vector<std::byte> margin(kMargin, std::byte{0x5A});
  EXPECT_TRUE(std::equal(margin.begin(), margin.end(), shifted.begin()));
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), shifted.begin() + kMargin));
  EXPECT_TRUE(std::equal(margin.begin(), margin.end(), shifted.end() - kMargin));
}

// Odd widths, one label, more than a page; results small, and large enough to be written past the
// caches.
INSTANTIATE_TEST_SUITE_P(
    Widths,
    GatherRows,
    ::testing::Values(
        GatherCase{1, 5},
        GatherCase{3, 1000},
        GatherCase{8, 3},
        GatherCase{8, 600000},
        GatherCase{400, 1},
        GatherCase{400, 11000},
        GatherCase{402, 11000},
        GatherCase{512, 9000},
        GatherCase{9008, 500},
        GatherCase{400, 50000},
        GatherCase{402, 50000},
        GatherCase{9008, 2500}
    ),
    [](const auto& each) {
      return std::to_string(each.param.row_bytes) + "BytesTimes" + std::to_string(each.param.count);
    }
);

TEST(GatherRows, CopiesNothingForNoIdsOrEmptyRows) {
  const std::byte row{};
  std::byte out{0x5A};
  const std::vector<int64_t> one{0};
  gather_rows(&row, 1, {}, &out);
  gather_rows(&row, 0, one, &out);
  EXPECT_EQ(out, std::byte{0x5A});
}

TEST(FirstOutOfRange, FindsTheFirstBadId) {
  EXPECT_EQ(first_out_of_range(std::vector<int64_t>{0, 1, 2}, 3), -1);
  EXPECT_EQ(first_out_of_range(std::vector<int64_t>{0, 3, -1}, 3), 1);
  EXPECT_EQ(first_out_of_range(std::vector<int64_t>{-1}, 3), 0);
  EXPECT_EQ(first_out_of_range(std::vector<int64_t>{0}, 0), 0);
  EXPECT_EQ(first_out_of_range({}, 0), -1);
}

}  // namespace
}  // namespace gnn::data
