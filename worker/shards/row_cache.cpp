#include "worker/shards/row_cache.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <tuple>
#include <utility>

namespace gnn::shards {
namespace {

// How many entries of the lists of the part's own nodes name each source.
void count_names_in_lists(
    const Part& part, int64_t edge_type, const data::IdRange& own, std::vector<uint32_t>& counts
) {
  const PartLists& lists = part.lists(edge_type);
  const auto* const indptr = lists.indptr.const_data_ptr<int64_t>() - lists.nodes.begin;
  const int64_t begin = indptr[own.begin];
  const auto size = static_cast<size_t>(indptr[own.end] - begin);
  if (lists.indices.scalar_type() == at::kInt) {
    count_names(std::span(lists.indices.const_data_ptr<int32_t>() + begin, size), counts);
  } else {
    count_names(std::span(lists.indices.const_data_ptr<int64_t>() + begin, size), counts);
  }
}

}  // namespace

graph::HotRowsData hot_rows(std::span<const double> reads, const data::IdRange& own, int64_t rows) {
  graph::HotRowsData hot;
  std::vector<int64_t> ids;
  for (int64_t id = 0; id < static_cast<int64_t>(reads.size()); ++id) {
    const double of_node = reads[static_cast<size_t>(id)];
    (own.contains(id) ? hot.local_reads : hot.remote_reads) += of_node;
    if (!own.contains(id) && of_node > 0) ids.push_back(id);
  }
  keep_largest(ids, reads, rows);
  std::vector<double> hotness;
  hotness.reserve(ids.size());
  for (const int64_t id : ids) hotness.push_back(reads[static_cast<size_t>(id)]);
  hot.ids = at::tensor(ids, at::kLong);
  hot.hotness = at::tensor(hotness, at::kDouble);
  return hot;
}

CachedIds hottest(const graph::HotRowsData& hot, int64_t rows) {
  if (!hot.ids.defined()) return {.ids = at::empty({0}, at::kLong)};
  const int64_t count = std::min(rows, hot.ids.numel());
  CachedIds cached{.ids = hot.ids.narrow(0, 0, count)};
  if (!hot.hotness.defined()) return cached;
  const auto* const reads = hot.hotness.const_data_ptr<double>();
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += reads[i];
  cached.expected_hit_rate = hot.remote_reads > 0 ? std::min(1.0, sum / hot.remote_reads) : 1.0;
  return cached;
}

CachedIds most_named(
    const Part& part,
    const std::vector<int64_t>& source_types,
    const std::vector<int64_t>& destination_types,
    int64_t node_type,
    int64_t rows
) {
  const int64_t nodes = part.num_nodes()[static_cast<size_t>(node_type)];
  std::vector<uint32_t> counts(static_cast<size_t>(nodes));
  for (size_t type = 0; type < source_types.size(); ++type) {
    if (source_types[type] == node_type)
      count_names_in_lists(
          part, static_cast<int64_t>(type), part.own(destination_types[type]), counts
      );
  }
  const data::IdRange own = part.own(node_type);
  std::vector<int64_t> ids;
  for (int64_t id = 0; id < nodes; ++id) {
    if (!own.contains(id) && counts[static_cast<size_t>(id)] > 0) ids.push_back(id);
  }
  keep_largest(ids, counts, rows);
  return {.ids = at::tensor(ids, at::kLong)};
}

RowCache::RowCache(const at::Tensor& ids, at::Tensor rows, std::optional<double> expected_hit_rate)
    : ids_(ids), rows_(std::move(rows)), expected_hit_rate_(expected_hit_rate) {
  const std::span all(ids.const_data_ptr<int64_t>(), static_cast<size_t>(ids.numel()));
  if (all.empty()) return;
  bits_.resize(static_cast<size_t>(all.back()) / 64 + 1);
  before_.resize(bits_.size());
  for (const int64_t id : all)
    bits_[static_cast<size_t>(id) / 64] |= uint64_t{1} << (static_cast<uint64_t>(id) % 64);
  for (size_t word = 1; word < bits_.size(); ++word)
    before_[word] = before_[word - 1] + std::popcount(bits_[word - 1]);
}

Result<RowCache> fill_cache(
    const CachedIds& cached, loader::FeatureFetcher& fetcher, ProgressBar& progress
) {
  constexpr int64_t kPiece = 65536;
  const int64_t count = cached.ids.numel();
  const at::Tensor ids = std::get<0>(at::sort(cached.ids.contiguous()));
  at::Tensor rows;
  progress.begin("filling the cache", count, "rows");
  // Also without any: the first piece tells the rows' shape.
  for (int64_t begin = 0; begin == 0 || begin < count; begin += kPiece) {
    const int64_t size = std::min(kPiece, count - begin);
    GNN_ASSIGN_OR_RETURN(const at::Tensor piece, fetcher.submit(ids.narrow(0, begin, size)).get());
    if (begin == 0) {
      std::vector<int64_t> shape = piece.sizes().vec();
      shape[0] = count;
      rows = at::empty(shape, piece.options());
    }
    rows.narrow(0, begin, size).copy_(piece);
    progress.advance_to(begin + size);
  }
  progress.end();
  return RowCache(ids, rows, cached.expected_hit_rate);
}

}  // namespace gnn::shards
