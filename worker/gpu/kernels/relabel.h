#pragma once

#include "worker/gpu/kernels/batch_counters.h"
#include "worker/gpu/kernels/block_scan.h"
#include "worker/gpu/kernels/draw_edges.h"
#include "worker/gpu/kernels/host_device.h"
#include "worker/gpu/kernels/id_slots.h"

#include <cstdint>

namespace gnn::gpu {

/// Gives the ids that are known their places as local ids: the first, to one that is there twice.
struct InsertKnown {
  IdSlots slots{};
  const int64_t* ids = nullptr;
  const int64_t* size = nullptr;

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    for_each_of(thread, *size, [&](int64_t i) {
      thread.atomic_min(slots.words + slots.slot_of(thread, ids[i]), static_cast<uint32_t>(i));
    });
  }
};

/// Begins the counters of a batch with its seeds of a type.
struct CountSeeds {
  int64_t* counters = nullptr;
  CounterLayout layout{};
  int64_t type = 0;
  int64_t size = 0;

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    if (thread.index() != 0) return;
    counters[layout.nodes_up_to(type, 0)] = size;
    counters[layout.num_local(type)] = size;
  }
};

/// Reads the sources of a hop's edges, and lets each put its place into its slot.
struct ReadSources {
  HopView hop{};
  ListsView lists{};
  IdSlots slots{};  ///< of the source type
  const int64_t* positions = nullptr;
  uint32_t* edge_slots = nullptr;  ///< [edges of the hop]
  int64_t* edge_ids = nullptr;     ///< of the relation; null: nobody wants them

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    int64_t* const ids = edge_ids != nullptr ? edge_ids + hop.first_edge() : nullptr;
    for_each_of(thread, hop.num_edges(), [&](int64_t edge) {
      const int64_t position = positions[edge];
      const uint32_t slot = slots.slot_of(thread, lists.source(position));
      thread.atomic_min(slots.words + slot, IdSlots::kPlace | static_cast<uint32_t>(edge));
      edge_slots[edge] = slot;
      if (ids != nullptr) ids[edge] = lists.edge_id(position);
    });
  }
};

/// Sums the edges whose source is new and theirs, a tile of a thread each.
struct CountNew {
  HopView hop{};
  IdSlots slots{};
  const uint32_t* edge_slots = nullptr;
  int64_t* tile_sums = nullptr;

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    const int64_t size = hop.num_edges();
    for (int64_t tile = thread.block(); tile * thread.block_size() < size;
         tile += thread.num_blocks()) {
      const int64_t edge = tile * thread.block_size() + thread.index();
      const bool first = edge < size && slots.words[edge_slots[edge]] ==
                                            (IdSlots::kPlace | static_cast<uint32_t>(edge));
      const int64_t total = block_scan(thread, first ? 1 : 0).total;
      if (thread.index() == 0) tile_sums[tile] = total;
    }
  }
};

/// Turns the tiles' sums into what is new before each, and counts the new nodes.
struct ScanNew {
  HopView hop{};
  int64_t* tile_sums = nullptr;
  int64_t tile = 0;  ///< edges of each

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    scan_tile_sums(thread, tile_sums, (hop.num_edges() + tile - 1) / tile, [this](int64_t total) {
      int64_t& num_local = hop.counters[hop.layout.num_local(hop.source_type)];
      hop.counters[hop.layout.first_new()] = num_local;
      num_local += total;
    });
  }
};

/// Gives the new sources their local ids, in the order of the edges that have them first.
struct AssignLocal {
  HopView hop{};
  IdSlots slots{};
  const uint32_t* edge_slots = nullptr;
  const int64_t* tile_sums = nullptr;
  int64_t* ids = nullptr;  ///< of the source type

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    const int64_t size = hop.num_edges();
    const int64_t first_new = hop.counters[hop.layout.first_new()];
    for (int64_t tile = thread.block(); tile * thread.block_size() < size;
         tile += thread.num_blocks()) {
      const int64_t edge = tile * thread.block_size() + thread.index();
      const uint32_t slot = edge < size ? edge_slots[edge] : 0;
      // Another thread may have put the local id there by now: that is no place of this edge either.
      const bool first = edge < size && thread.load(slots.words + slot) ==
                                            (IdSlots::kPlace | static_cast<uint32_t>(edge));
      const int64_t local = first_new + tile_sums[tile] + block_scan(thread, first ? 1 : 0).before;
      if (!first) continue;
      ids[local] = slots.id_at(slot);
      thread.store(slots.words + slot, static_cast<uint32_t>(local));
    }
  }
};

/// Writes the edges' sources as local ids.
struct WriteIndices {
  HopView hop{};
  IdSlots slots{};
  const uint32_t* edge_slots = nullptr;
  int32_t* indices = nullptr;  ///< of the relation

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    int32_t* const out = indices + hop.first_edge();
    for_each_of(thread, hop.num_edges(), [&](int64_t edge) {
      out[edge] = static_cast<int32_t>(slots.words[edge_slots[edge]]);
    });
  }
};

/// Ends a hop of all relations.
struct EndHop {
  int64_t* counters = nullptr;
  CounterLayout layout{};
  int64_t hop = 0;

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    for_each_of(thread, layout.types, [&](int64_t type) {
      counters[layout.nodes_up_to(type, hop + 1)] = counters[layout.num_local(type)];
    });
  }
};

/// Makes the slots of a batch's nodes unused, where the slot of an id is the id.
struct ForgetIds {
  IdSlots slots{};
  const int64_t* ids = nullptr;
  const int64_t* size = nullptr;

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    for_each_of(thread, *size, [&](int64_t i) { slots.words[ids[i]] = IdSlots::kUnused; });
  }
};

}  // namespace gnn::gpu
