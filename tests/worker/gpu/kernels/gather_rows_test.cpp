#include "worker/gpu/kernels/gather_rows.h"

#include "tests/support/gpu_emulator.h"
#include "worker/gpu/kernels/launch_shape.h"
#include "worker/sampling/core/rng.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

namespace gnn::gpu {
namespace {

// Rows of random bytes; `at` bytes into an allocation, so that words of any width occur.
struct Table {
  Table(int64_t num_rows, size_t row_bytes, size_t offset)
      : bytes(static_cast<size_t>(num_rows) * row_bytes + 16), at(offset) {
    sampling::core::CounterRng random({static_cast<uint32_t>(row_bytes), 9}, 0, offset);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next32() & 0xFFU);
  }
  [[nodiscard]] std::byte* data() { return bytes.data() + at; }

  std::vector<std::byte> bytes;
  size_t at;
};

TEST(GatherRows, CopiesRowsOfAnyLengthFromWhereTheyLie) {
  const std::vector<int64_t> ids = {3, 0, 49, 3, 20, 19, 21, 1, 48, 7, 7};
  const auto size = static_cast<int64_t>(ids.size());
  for (const size_t row_bytes : std::initializer_list<size_t>{1, 2, 6, 20, 24, 64, 400, 1040}) {
    for (const size_t at : std::initializer_list<size_t>{0, 2}) {
      for (const int64_t hot_rows : {0, 20, 50}) {
        Table all(50, row_bytes, at);
        Table hot(50, row_bytes, 0);
        Table out(size, row_bytes, 0);
        const RowsView rows{.hot = hot.data(), .hot_rows = hot_rows, .all = all.data()};
        with_word_of(rows, row_bytes, out.data(), [&]<class Word>(Word) {
          const auto words = static_cast<int64_t>(row_bytes / sizeof(Word));
          testing::GpuEmulator({.seed = row_bytes})
              .launch(
                  GatherRows<Word>{
                      .rows = rows,
                      .ids = ids.data(),
                      .size = size,
                      .words = words,
                      .lanes = lanes_for(words),
                      .out = reinterpret_cast<Word*>(out.data())
                  },
                  {.blocks = 1, .threads = 32}
              );
        });
        for (size_t i = 0; i < ids.size(); ++i) {
          const auto id = static_cast<size_t>(ids[i]);
          std::byte* const from = ids[i] < hot_rows ? hot.data() : all.data();
          ASSERT_EQ(std::memcmp(out.data() + i * row_bytes, from + id * row_bytes, row_bytes), 0)
              << "row " << i << " of " << row_bytes << " bytes, " << hot_rows << " hot";
        }
      }
    }
  }
}

TEST(GatherRows, TakesTheWidestWordThatFits) {
  const auto width = [](size_t row_bytes, size_t place) {
    // reinterpret_cast: a place of a given alignment, where nothing is read.
    const RowsView rows{.all = reinterpret_cast<const std::byte*>(place)};
    return with_word_of(rows, row_bytes, nullptr, [](auto word) { return sizeof(word); });
  };
  EXPECT_EQ(width(400, 4096), 16U);
  EXPECT_EQ(width(408, 4096), 8U);
  EXPECT_EQ(width(400, 4100), 4U);
  EXPECT_EQ(width(6, 4096), 2U);
  EXPECT_EQ(width(7, 4096), 1U);
}

}  // namespace
}  // namespace gnn::gpu
