#include "worker/data/readers/behavior_rows.h"

#include "common/hash.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <mutex>
#include <set>
#include <utility>

namespace gnn::data {
namespace {

constexpr size_t kBuckets = 1024;
constexpr size_t kPending = size_t{1} << 20U;

struct HashedRow {
  uint64_t hash;
  int64_t position;

  friend auto operator<=>(const HashedRow&, const HashedRow&) = default;
};

uint64_t hash_of(const BehaviorRow& row) {
  const uint64_t ids = splitmix64(static_cast<uint64_t>(row.user), static_cast<uint64_t>(row.item));
  return splitmix64(ids ^ static_cast<uint64_t>(row.category), static_cast<uint64_t>(row.stamp));
}

// The rows of one part of the hashes, by buckets.
struct Buckets {
  std::vector<HashedRow> rows;
  std::vector<size_t> starts;  // [kBuckets + 1]
};

Buckets fill_buckets(
    const BehaviorRows& rows, uint64_t part, uint64_t num_parts, ThreadPool& pool
) {
  // Where each piece puts its rows of each bucket: first how many, then from where on.
  std::vector<std::array<size_t, kBuckets>> places(rows.num_pieces());
  const auto for_each_hash = [&](size_t piece, const auto& visit) {
    rows.for_each_of_piece(piece, [&](int64_t position, const BehaviorRow& row) {
      const uint64_t hash = hash_of(row);
      if (((hash >> 32U) * num_parts) >> 32U == part) {
        visit(hash, position);
      }
    });
  };
  const auto pieces = static_cast<int64_t>(rows.num_pieces());
  pool.parallel_for(pieces, 1, [&](int64_t piece, int64_t) {
    std::array<size_t, kBuckets>& counts = places[static_cast<size_t>(piece)];
    for_each_hash(static_cast<size_t>(piece), [&](uint64_t hash, int64_t) {
      ++counts[hash % kBuckets];
    });
  });
  Buckets buckets;
  size_t total = 0;
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    buckets.starts.push_back(total);
    for (std::array<size_t, kBuckets>& of_piece : places) {
      total += std::exchange(of_piece[bucket], total);
    }
  }
  buckets.starts.push_back(total);
  buckets.rows.resize(total);
  pool.parallel_for(pieces, 1, [&](int64_t piece, int64_t) {
    std::array<size_t, kBuckets>& next = places[static_cast<size_t>(piece)];
    for_each_hash(static_cast<size_t>(piece), [&](uint64_t hash, int64_t position) {
      buckets.rows[next[hash % kBuckets]++] = {.hash = hash, .position = position};
    });
  });
  return buckets;
}

// Adds the repeats among rows of one hash, given by ascending position. Of equal rows, which may be
// most of a file, one is kept in memory.
void add_repeats(
    const BehaviorRows& rows, std::span<const HashedRow> equal_hash, std::vector<int64_t>& repeats
) {
  std::set<BehaviorRow> seen;
  for (const HashedRow& hashed : equal_hash) {
    if (!seen.insert(rows.at(hashed.position)).second) {
      repeats.push_back(hashed.position);
    }
  }
}

}  // namespace

Status BehaviorRows::add(std::span<const BehaviorRow> rows) {
  if (rows.empty()) {
    return {};
  }
  const bool narrow = std::all_of(rows.begin(), rows.end(), [](const BehaviorRow& row) {
    return (row.user | row.item | row.category) <= std::numeric_limits<int32_t>::max();
  });
  const auto count = static_cast<int64_t>(rows.size());
  GNN_ASSIGN_OR_RETURN(
      Array piece, storage_.scratch(narrow ? DType::Int32 : DType::Int64, {count, 4})
  );
  const auto fill = [&]<class Value>(Value* out) {
    for (const BehaviorRow& row : rows) {
      for (const int64_t value : {row.user, row.item, row.category, row.stamp}) {
        *out++ = static_cast<Value>(value);
      }
    }
  };
  if (narrow) {
    fill(piece.mutable_view<int32_t>().data());
  } else {
    fill(piece.mutable_view<int64_t>().data());
  }
  pieces_.push_back(std::move(piece));
  starts_.push_back(starts_.back() + count);
  return {};
}

BehaviorRow BehaviorRows::at(int64_t position) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), position);
  const auto piece = static_cast<size_t>(after - starts_.begin() - 1);
  const auto first = static_cast<size_t>(position - starts_[piece]) * 4;
  const Array& array = pieces_[piece];
  return array.dtype() == DType::Int32 ? row_of(&array.view<int32_t>()[first])
                                       : row_of(&array.view<int64_t>()[first]);
}

std::vector<int64_t> find_repeats(
    const BehaviorRows& rows, int64_t memory_bytes, ThreadPool& pool
) {
  constexpr auto kRowBytes = static_cast<int64_t>(sizeof(HashedRow));
  const int64_t rows_at_once = std::max<int64_t>(memory_bytes / kRowBytes, 1);
  const auto parts = static_cast<uint64_t>(rows.num_rows() / rows_at_once + 1);
  std::mutex mutex;
  std::vector<int64_t> repeats;
  for (uint64_t part = 0; part < parts; ++part) {
    Buckets buckets = fill_buckets(rows, part, parts, pool);
    pool.parallel_for(static_cast<int64_t>(kBuckets), 1, [&](int64_t bucket, int64_t) {
      const size_t first = buckets.starts[static_cast<size_t>(bucket)];
      const size_t last = buckets.starts[static_cast<size_t>(bucket) + 1];
      const std::span<HashedRow> sorted = std::span(buckets.rows).subspan(first, last - first);
      std::sort(sorted.begin(), sorted.end());
      std::vector<int64_t> found;
      for (size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
        for (end = begin + 1; end < sorted.size() && sorted[end].hash == sorted[begin].hash;) {
          ++end;
        }
        if (end - begin > 1) {
          add_repeats(rows, sorted.subspan(begin, end - begin), found);
        }
      }
      const std::lock_guard lock(mutex);
      repeats.insert(repeats.end(), found.begin(), found.end());
    });
  }
  std::sort(repeats.begin(), repeats.end());
  return repeats;
}

int64_t IdNumbers::number_of(int64_t id) const {
  if (words_.empty()) {
    return std::lower_bound(sorted_.begin(), sorted_.end(), id) - sorted_.begin();
  }
  const auto word = static_cast<size_t>(id / 64);
  const uint64_t below = (uint64_t{1} << (static_cast<uint64_t>(id) % 64)) - 1;
  return before_[word] + std::popcount(words_[word] & below);
}

void IdNumbers::collect(int64_t id) {
  // Files list the rows of a user together.
  if (!pending_.empty() && pending_.back() == id) {
    return;
  }
  pending_.push_back(id);
  if (pending_.size() >= std::max(kPending, sorted_.size())) {
    merge();
  }
}

void IdNumbers::merge() {
  std::sort(pending_.begin(), pending_.end());
  std::vector<int64_t> merged;
  merged.reserve(sorted_.size() + pending_.size());
  std::merge(
      sorted_.begin(), sorted_.end(), pending_.begin(), pending_.end(), std::back_inserter(merged)
  );
  merged.erase(std::unique(merged.begin(), merged.end()), merged.end());
  sorted_ = std::move(merged);
  pending_.clear();
}

void IdNumbers::finish() {
  if (words_.empty()) {
    merge();
    pending_.shrink_to_fit();
    size_ = static_cast<int64_t>(sorted_.size());
    return;
  }
  before_.reserve(words_.size());
  for (const uint64_t word : words_) {
    before_.push_back(size_);
    size_ += std::popcount(word);
  }
}

}  // namespace gnn::data
