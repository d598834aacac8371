#pragma once

#include "common/result.h"
#include "common/thread_pool.h"
#include "worker/data/array.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gnn::data {

/// What a user did to an item.
struct BehaviorRow {
  int64_t user;
  int64_t item;
  int64_t category;
  int64_t stamp;  ///< time and behavior in one number of at most 31 bits

  friend auto operator<=>(const BehaviorRow&, const BehaviorRow&) = default;
};

/// Rows in the order of their file, in scratch memory: four int32 a row where the ids of its piece
/// allow, else four int64.
class BehaviorRows {
 public:
  /// `storage` must outlive it.
  explicit BehaviorRows(ArrayStorage& storage) : storage_(storage) {}

  /// Appends a piece.
  /// Errors: those of ArrayStorage::scratch().
  Status add(std::span<const BehaviorRow> rows);

  [[nodiscard]] int64_t num_rows() const { return starts_.back(); }
  [[nodiscard]] size_t num_pieces() const { return pieces_.size(); }
  [[nodiscard]] BehaviorRow at(int64_t position) const;

  /// Calls visit(position, row) for the rows of a piece.
  template <class Visit>
  void for_each_of_piece(size_t piece, const Visit& visit) const {
    const Array& array = pieces_[piece];
    if (array.dtype() == DType::Int32) {
      visit_values(array.view<int32_t>(), starts_[piece], visit);
    } else {
      visit_values(array.view<int64_t>(), starts_[piece], visit);
    }
  }
  /// Calls visit(position, row) for all rows.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (size_t piece = 0; piece < pieces_.size(); ++piece) for_each_of_piece(piece, visit);
  }

 private:
  template <class Value>
  static BehaviorRow row_of(const Value* values) {
    return {.user = values[0], .item = values[1], .category = values[2], .stamp = values[3]};
  }
  template <class Value, class Visit>
  static void visit_values(std::span<const Value> values, int64_t position, const Visit& visit) {
    for (size_t at = 0; at < values.size(); at += 4) visit(position++, row_of(&values[at]));
  }

  ArrayStorage& storage_;
  std::vector<Array> pieces_;
  std::vector<int64_t> starts_{0};  // position of each piece's first row, and of the end
};

/// The positions of rows that are equal to an earlier one, ascending. Takes up to `memory_bytes`, and
/// a pass over the rows for each such part of 16 bytes a row.
std::vector<int64_t> find_repeats(const BehaviorRows& rows, int64_t memory_bytes, ThreadPool& pool);

/// Numbers ids that are not negative by their order: the smallest becomes 0.
class IdNumbers {
 public:
  /// The distinct ids among those that `visit` calls its argument with. `largest` is the largest of
  /// them, `count` how often it does: a bit for each possible id if that takes less memory than the
  /// ids would, else a sorted list.
  template <class ForEachId>
  static IdNumbers of(int64_t largest, int64_t count, const ForEachId& for_each_id) {
    IdNumbers numbers;
    if (largest / 64 <= count / 8 + 1024) {
      numbers.words_.resize(static_cast<size_t>(largest / 64 + 1));
      for_each_id([&](int64_t id) {
        numbers.words_[static_cast<size_t>(id / 64)] |= uint64_t{1}
                                                        << (static_cast<uint64_t>(id) % 64);
      });
    } else {
      for_each_id([&](int64_t id) { numbers.collect(id); });
    }
    numbers.finish();
    return numbers;
  }

  [[nodiscard]] int64_t size() const { return size_; }
  /// The number of one of the ids.
  [[nodiscard]] int64_t number_of(int64_t id) const;

 private:
  void collect(int64_t id);
  void merge();
  void finish();

  std::vector<uint64_t> words_;   // a bit for each id
  std::vector<int64_t> before_;   // ids before each word
  std::vector<int64_t> sorted_;   // without words_: the ids
  std::vector<int64_t> pending_;  // to be merged into sorted_
  int64_t size_ = 0;
};

}  // namespace gnn::data
