#include "worker/gpu/kernels/id_slots.h"

#include "tests/support/gpu_emulator.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace gnn::gpu {
namespace {

struct FindSlots {
  IdSlots slots;
  const int64_t* ids;
  uint32_t* found;
  template <class Thread>
  void operator()(Thread& thread) const {
    found[thread.index()] = slots.slot_of(thread, ids[thread.index()]);
  }
};

// 64 threads ask for 32 ids in a table of 64, so that many begin at one slot at the same time.
TEST(IdSlots, GiveEachIdOneSlotOfItsOwnInAnyOrderOfThreads) {
  std::vector<int64_t> ids(64);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i % 32) * 1'000'003;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    std::vector<uint64_t> keys(64, IdSlots::kNoKey);
    std::vector<uint32_t> found(ids.size());
    const IdSlots slots = {.keys = keys.data(), .mask = 63, .shift = 64 - 6};
    testing::GpuEmulator({.seed = seed})
        .launch(FindSlots{slots, ids.data(), found.data()}, {.blocks = 1, .threads = 64});
    std::map<uint32_t, int64_t> owners;
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto [owner, is_new] = owners.emplace(found[i], ids[i]);
      ASSERT_EQ(owner->second, ids[i]) << "slot " << found[i] << " has two ids, seed " << seed;
      ASSERT_EQ(slots.id_at(found[i]), ids[i]);
    }
    ASSERT_EQ(owners.size(), 32U) << "an id has two slots, seed " << seed;
  }
}

}  // namespace
}  // namespace gnn::gpu
