#include "worker/gpu/gather.h"

#include "tests/support/must.h"
#include "tests/worker/gpu/on_gpu.h"
#include "worker/data/gather.h"
#include "worker/gpu/memory.h"
#include "worker/sampling/core/rng.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace gnn::gpu {
namespace {

using testing::must;

class GatherOnGpu : public OnGpu {};

TEST_F(GatherOnGpu, CopiesTheRowsThatTheCpuCopies) {
  constexpr int64_t kRows = 3000;
  constexpr int64_t kIds = 20'000;
  sampling::core::CounterRng random({1, 2}, 0, 0);
  std::vector<int64_t> ids(kIds);
  for (int64_t& id : ids) id = static_cast<int64_t>(random.below(kRows));
  const DeviceMemory device_ids = must(DeviceMemory::copy_of(std::as_bytes(std::span(ids))));
  const OwnStream stream = must(OwnStream::create());
  for (const size_t row_bytes : std::initializer_list<size_t>{3, 20, 256, 400, 1040}) {
    std::vector<std::byte> table(kRows * row_bytes);
    for (std::byte& byte : table) byte = static_cast<std::byte>(random.next32() & 0xFFU);
    std::vector<std::byte> expected(kIds * row_bytes);
    data::gather_rows(table.data(), row_bytes, ids, expected.data());
    const PinnedRange pinned = must(PinnedRange::pin(table));
    const DeviceMemory copy = must(DeviceMemory::copy_of(table));
    const std::vector<RowsView> places = {
        {.all = copy.data()},
        {.all = pinned.device_data()},
        {.hot = copy.data(), .hot_rows = kRows / 3, .all = pinned.device_data()},
        {.hot = copy.data(), .hot_rows = kRows},
    };
    for (const RowsView& rows : places) {
      for (const int64_t threads : {int64_t{0}, int64_t{512}}) {
        const DeviceMemory out =
            must(DeviceMemory::copy_of(std::vector<std::byte>(expected.size())));
        must(gather_rows(
            {.rows = rows,
             .row_bytes = row_bytes,
             // reinterpret_cast: what was copied has its type still.
             .ids = reinterpret_cast<const int64_t*>(device_ids.data()),
             .size = kIds,
             .out = out.data(),
             .most_reading_threads = threads},
            stream.get()
        ));
        std::vector<std::byte> found(expected.size());
        must(copy_to_host(found, out.data(), stream.get()));
        EXPECT_TRUE(found == expected) << row_bytes << " bytes, " << rows.hot_rows << " hot rows";
      }
    }
  }
}

TEST_F(GatherOnGpu, CopiesNothingWhereNothingIsAsked) {
  EXPECT_TRUE(gather_rows({.row_bytes = 16}, nullptr));
  EXPECT_TRUE(gather_rows({.size = 4}, nullptr));
}

}  // namespace
}  // namespace gnn::gpu
