#pragma once

#include "worker/gpu/kernels/host_device.h"

#include <cstdint>

namespace gnn::gpu {

/// Global id to local id in device memory: a slot per id, with a word for each. While a hop's edges
/// are relabelled, a new id's word says which edge has it first: the smallest of those that put their
/// place there, whatever the order in which they come. Known ids have a smaller word, so that the
/// smallest stays theirs.
struct IdSlots {
  static constexpr uint32_t kUnused = 0xFFFFFFFFU;
  /// Set in words that are the place of an edge, not a local id.
  static constexpr uint32_t kPlace = 0x80000000U;
  static constexpr uint64_t kNoKey = ~uint64_t{0};

  uint32_t* words = nullptr;
  uint64_t* keys = nullptr;  ///< [mask + 1], a power of two; null: the slot of an id is the id
  uint64_t mask = 0;
  int shift = 0;

  /// The slot of `id`, which is taken for it if it has none. At most half the slots may be taken.
  template <class Thread>
  GNN_HOST_DEVICE uint32_t slot_of(Thread& thread, int64_t id) const {
    const auto key = static_cast<uint64_t>(id);
    if (keys == nullptr) return static_cast<uint32_t>(key);
    uint64_t at = (key * 0x9E3779B97F4A7C15U) >> shift;
    while (true) {
      uint64_t found = thread.load(keys + at);
      if (found == kNoKey) found = thread.atomic_cas(keys + at, kNoKey, key);
      if (found == kNoKey || found == key) return static_cast<uint32_t>(at);
      at = (at + 1) & mask;
    }
  }
  [[nodiscard]] GNN_HOST_DEVICE int64_t id_at(uint32_t slot) const {
    return keys == nullptr ? int64_t{slot} : static_cast<int64_t>(keys[slot]);
  }
};

}  // namespace gnn::gpu
