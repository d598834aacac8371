#pragma once

#include "common/page_buffer.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

namespace gnn::sampling::core {

/// Global id to local id by direct look-up. Each node of the graph has 4 bytes of (batch stamp,
/// local id), so that nothing is cleared between batches; only when the stamps run out, every 2^(32
/// - bits of a local id) batches.
class DirectIdMap {
 public:
  explicit DirectIdMap(int64_t num_nodes) : num_nodes_(num_nodes) { slots_.reserve(num_nodes); }

  /// Forgets all ids. `max_local` bounds the local ids of the coming batch.
  void begin_batch(int64_t max_local) {
    const int bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(max_local)));
    const uint32_t last_stamp = bits_ == 0 ? 0 : std::numeric_limits<uint32_t>::max() >> bits_;
    if (bits > bits_ || stamp_ == last_stamp) {
      bits_ = bits > bits_ ? bits : bits_;
      std::fill_n(slots_.data(), num_nodes_, uint32_t{0});
      stamp_ = 0;
    }
    tag_ = ++stamp_ << bits_;
    mask_ = (uint32_t{1} << bits_) - 1;
  }

  /// As in HashIdMap; here there is always room.
  void make_room(int64_t /*num_local*/, int64_t /*count*/, const int64_t* /*nodes*/) {}

  void prefetch(int64_t id) const { __builtin_prefetch(slots_.data() + id, 1); }

  /// The local id of `id`. A new id gets `num_local`, is written to nodes[num_local], and num_local
  /// grows by one. nodes[num_local] must be writable in either case: the code is branch-free, since
  /// whether an id is new cannot be predicted.
  uint32_t find_or_insert(int64_t id, int64_t& num_local, int64_t* nodes) {
    uint32_t& slot = slots_[id];
    const bool known = ((slot ^ tag_) & ~mask_) == 0;
    const uint32_t local = known ? slot & mask_ : static_cast<uint32_t>(num_local);
    nodes[num_local] = id;
    slot = tag_ | local;
    num_local += known ? 0 : 1;
    return local;
  }

  /// Gives `id` the local id `local` unless it has one.
  void insert_first(int64_t id, int64_t local) {
    uint32_t& slot = slots_[id];
    if (((slot ^ tag_) & ~mask_) != 0) slot = tag_ | static_cast<uint32_t>(local);
  }

  [[nodiscard]] size_t bytes() const { return slots_.bytes(); }
  /// The largest local id: at least one bit of a slot is left for the stamp.
  static constexpr int64_t kMaxLocal = (int64_t{1} << 30) - 1;

 private:
  int64_t num_nodes_;
  int bits_ = 0;
  uint32_t stamp_ = 0;
  uint32_t tag_ = 0;
  uint32_t mask_ = 0;
  Buffer<uint32_t> slots_;
};

/// Global id to local id by an open-addressed table whose slots carry the batch's stamp. Its memory
/// grows with the batch, not the graph, and nothing is cleared between batches. `Key` is uint32_t
/// (8 bytes per slot) or uint64_t (16 bytes per slot).
template <class Key>
class HashIdMap {
 public:
  explicit HashIdMap(int64_t expected_nodes) {
    resize(std::bit_ceil(static_cast<uint64_t>(expected_nodes) * 2 + 1024));
  }

  void begin_batch(int64_t /*max_local*/) { next_stamp(); }

  /// Makes room for `count` more ids at a load of at most one half. `nodes` holds the num_local ids
  /// that the table has.
  void make_room(int64_t num_local, int64_t count, const int64_t* nodes) {
    if (static_cast<uint64_t>(num_local + count) * 2 <= capacity_) return;
    resize(std::bit_ceil(static_cast<uint64_t>(num_local + count) * 3));
    next_stamp();
    for (int64_t local = 0; local < num_local; ++local) insert_first(nodes[local], local);
  }

  /// Gives `id` the local id `local` unless it has one.
  void insert_first(int64_t id, int64_t local) {
    Slot& slot = locate(id);
    if (slot.tag < tag_)
      slot = {static_cast<Key>(id), static_cast<Key>(tag_ | static_cast<Key>(local))};
  }

  void prefetch(int64_t id) const { __builtin_prefetch(slots_.data() + home(id), 1); }

  uint32_t find_or_insert(int64_t id, int64_t& num_local, int64_t* nodes) {
    Slot& slot = locate(id);
    if (slot.tag >= tag_) return static_cast<uint32_t>(slot.tag & mask_);
    const auto local = static_cast<uint32_t>(num_local);
    slot = {static_cast<Key>(id), static_cast<Key>(tag_ | static_cast<Key>(local))};
    nodes[num_local++] = id;
    return local;
  }

  [[nodiscard]] size_t bytes() const { return slots_.bytes(); }

 private:
  // Stamps only grow between clears, so a slot belongs to this batch if and only if its tag is at
  // least the batch's.
  struct Slot {
    Key key;
    Key tag;
  };

  [[nodiscard]] uint64_t home(int64_t id) const {
    return (static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15U) >> shift_;
  }

  [[nodiscard]] Slot& locate(int64_t id) {
    uint64_t at = home(id);
    while (slots_.data()[at].tag >= tag_ && slots_.data()[at].key != static_cast<Key>(id))
      at = (at + 1) & (capacity_ - 1);
    return slots_.data()[at];
  }

  void next_stamp() {
    if (stamp_ == last_stamp_) {
      std::memset(static_cast<void*>(slots_.data()), 0, capacity_ * sizeof(Slot));
      stamp_ = 0;
    }
    tag_ = static_cast<Key>(++stamp_ << bits_);
  }

  void resize(uint64_t capacity) {
    slots_ = Buffer<Slot>();
    slots_.reserve(static_cast<int64_t>(capacity));
    capacity_ = capacity;
    shift_ = 64 - std::countr_zero(capacity);
    bits_ = std::countr_zero(capacity) - 1;  // local ids stay below half the capacity
    mask_ = static_cast<Key>((Key{1} << bits_) - 1);
    last_stamp_ = static_cast<Key>(std::numeric_limits<Key>::max() >> bits_);
    stamp_ = 0;
  }

  uint64_t capacity_ = 0;
  int shift_ = 0;
  int bits_ = 0;
  Key stamp_ = 0;
  Key last_stamp_ = 0;
  Key tag_ = 0;
  Key mask_ = 0;
  Buffer<Slot> slots_;
};

}  // namespace gnn::sampling::core
