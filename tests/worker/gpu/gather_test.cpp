#include "worker/gpu/gather.h"

#include "tests/support/must.h"
#include "tests/worker/gpu/on_gpu.h"
#include "worker/data/gather.h"
#include "worker/gpu/memory.h"
#include "worker/sampling/core/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

TEST_F(GatherOnGpu, GathersMappedAndReceivedRowsAndRoundsFloats) {
  constexpr int64_t kRows = 3000;
  constexpr int64_t kIds = 20'000;
  constexpr int64_t kReceived = 500;
  sampling::core::CounterRng random({3, 4}, 0, 0);
  std::vector<int64_t> ids(kIds);
  for (int64_t& id : ids) id = static_cast<int64_t>(random.below(kRows));
  // Every third row is hot; the first 100 rows lie nowhere, but have been received.
  std::vector<int32_t> places(kRows, -1);
  std::vector<int64_t> hot_ids;
  for (int64_t id = 100; id < kRows; id += 3) {
    places[static_cast<size_t>(id)] = static_cast<int32_t>(hot_ids.size());
    hot_ids.push_back(id);
  }
  std::vector<int64_t> received_places;
  std::vector<int64_t> received_ids;
  for (int64_t at = 0; at < kIds; ++at) {
    if (static_cast<int64_t>(received_ids.size()) == kReceived) break;
    if (ids[static_cast<size_t>(at)] >= 100) continue;
    received_places.push_back(at);
    received_ids.push_back(ids[static_cast<size_t>(at)]);
  }
  const DeviceMemory device_places = must(DeviceMemory::copy_of(std::as_bytes(std::span(places))));
  const OwnStream stream = must(OwnStream::create());
  RowGatherer gatherer = must(RowGatherer::create(stream.get()));
  for (const size_t width : std::initializer_list<size_t>{1, 2, 25, 100}) {
    std::vector<float> table(kRows * width);
    for (float& value : table) value = static_cast<float>(random.next32()) / 1e7F;
    for (const bool rounds : {false, true}) {
      const size_t row_bytes = width * (rounds ? sizeof(uint16_t) : sizeof(float));
      const auto gathered = [&](std::span<const int64_t> wanted) {
        std::vector<std::byte> rows(wanted.size() * row_bytes);
        // reinterpret_cast: rows as bytes, or as the halves of floats that rounding leaves.
        if (rounds) {
          data::gather_rows_as_bfloat16(
              table.data(), width, wanted, reinterpret_cast<uint16_t*>(rows.data())
          );
        } else {
          data::gather_rows(
              reinterpret_cast<const std::byte*>(table.data()), row_bytes, wanted, rows.data()
          );
        }
        return rows;
      };
      const DeviceMemory hot = must(DeviceMemory::copy_of(gathered(hot_ids)));
      const auto cold = std::as_bytes(std::span(table)).subspan(100 * width * sizeof(float));
      const PinnedRange pinned = must(PinnedRange::pin(cold));
      const std::vector<std::byte> received = gathered(received_ids);
      const PinnedRange pinned_received = must(PinnedRange::pin(received));
      const DeviceMemory out = must(DeviceMemory::allocate(kIds * row_bytes));
      const int64_t bad = must(gatherer.gather(
          {.rows =
               {.hot = hot.data(),
                // reinterpret_cast: what was copied has its type still.
                .places = reinterpret_cast<const int32_t*>(device_places.data()),
                .all = pinned.device_data(),
                .first = 100,
                .end = kRows,
                .num_ids = kRows},
           .row_bytes = row_bytes,
           .stored = rounds ? StoredRows::Floats : StoredRows::AsGathered,
           .out = out.data()},
          ids,
          {.rows = pinned_received.device_data(), .places = received_places}
      ));
      EXPECT_EQ(bad, -1);
      std::vector<std::byte> found(kIds * row_bytes);
      must(copy_to_host(found, out.data(), stream.get()));
      const std::vector<std::byte> expected = gathered(ids);
      for (size_t at = 0; at < ids.size(); ++at) {
        const bool is_nowhere =
            ids[at] < 100 &&
            std::find(received_places.begin(), received_places.end(), static_cast<int64_t>(at)) ==
                received_places.end();
        if (is_nowhere) continue;
        ASSERT_EQ(
            std::memcmp(found.data() + at * row_bytes, expected.data() + at * row_bytes, row_bytes),
            0
        ) << "row "
          << at << " of " << width << " columns";
      }
      std::vector<int64_t> with_bad(ids.begin(), ids.begin() + 300);
      with_bad[200] = kRows;
      with_bad[250] = -1;
      EXPECT_EQ(
          must(gatherer.gather(
              {.rows = {.hot = hot.data(), .hot_rows = 0, .num_ids = kRows},
               .row_bytes = row_bytes,
               .out = out.data()},
              with_bad,
              {}
          )),
          200
      );
    }
  }
}

TEST_F(GatherOnGpu, CopiesNothingWhereNothingIsAsked) {
  EXPECT_TRUE(gather_rows({.row_bytes = 16}, nullptr));
  EXPECT_TRUE(gather_rows({.size = 4}, nullptr));
}

}  // namespace
}  // namespace gnn::gpu
