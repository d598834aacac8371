#pragma once

#include "worker/data/dataset_arrays.h"
#include "worker/data/partitions.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace gnn::data::testing {

/// An int64 array with the values, committed to `storage`.
inline Array ids_in(
    ArrayStorage& storage, const std::string& name, const std::vector<int64_t>& values
) {
  const auto count = static_cast<int64_t>(values.size());
  Array array = storage.create(name, DType::Int64, {count}).value();
  std::copy(values.begin(), values.end(), array.mutable_view<int64_t>().begin());
  return storage.commit(std::move(array), count).value();
}

/// Every third node outside `own`, the last one first, each hotter than the next.
inline HotRows hot_rows_in(
    ArrayStorage& storage, const std::string& suffix, const IdRange& own, int64_t num_nodes
) {
  std::vector<int64_t> ids;
  for (int64_t id = num_nodes - 1; id >= 0; id -= 3) {
    if (!own.contains(id)) ids.push_back(id);
  }
  const auto count = static_cast<int64_t>(ids.size());
  HotRows hot{.ids = ids_in(storage, "partitions.hot." + suffix, ids)};
  Array hotness = storage.create("partitions.hotness." + suffix, DType::Float64, {count}).value();
  for (int64_t i = 0; i < count; ++i)
    hotness.mutable_view<double>()[static_cast<size_t>(i)] = 1.0 / static_cast<double>(i + 2);
  hot.hotness = storage.commit(std::move(hotness), count).value();
  hot.remote_reads = static_cast<double>(count);
  return hot;
}

/// Deals nodes by their numbers to parts that get larger from the first to the last.
inline void deal_to_parts(DatasetArrays& arrays, int64_t parts, ArrayStorage& storage) {
  Partitions& dealt = arrays.partitions.emplace();
  dealt.book.parts = parts;
  dealt.book.method = "random";
  for (const NodeTable& table : arrays.node_tables) {
    std::vector<int64_t> offsets{0};
    for (int64_t part = 1; part <= parts; ++part)
      offsets.push_back(table.num_nodes * part * (part + 1) / (parts * (parts + 1)));
    dealt.book.offsets.push_back(offsets);
    std::vector<int64_t> same(static_cast<size_t>(table.num_nodes));
    std::iota(same.begin(), same.end(), 0);
    dealt.original_ids.push_back(ids_in(storage, "partitions.originals." + table.name, same));
    dealt.hot.emplace_back();
    for (int64_t part = 0; part < parts; ++part) {
      dealt.hot.back().push_back(hot_rows_in(
          storage,
          std::to_string(part) + "." + table.name,
          dealt.book.range_of(dealt.hot.size() - 1, part),
          table.num_nodes
      ));
    }
  }
  dealt.book.draws = {
      .fanouts = std::vector<std::vector<int64_t>>(arrays.edge_tables.size(), {1}), .batch_size = 1
  };
}

}  // namespace gnn::data::testing
