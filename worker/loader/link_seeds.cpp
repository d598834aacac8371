#include "worker/loader/link_seeds.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace gnn::loader {

LinkSeeds index_ends(std::span<const int64_t> ends) {
  std::vector<std::pair<int64_t, int64_t>> sorted;  // id, place
  sorted.reserve(ends.size());
  for (const int64_t id : ends) sorted.emplace_back(id, static_cast<int64_t>(sorted.size()));
  std::sort(sorted.begin(), sorted.end());
  LinkSeeds seeds;
  seeds.rows = at::empty({static_cast<int64_t>(ends.size())}, at::kLong);
  auto* const rows = seeds.rows.mutable_data_ptr<int64_t>();
  std::vector<int64_t> ids;
  ids.reserve(ends.size());
  for (const auto& [id, place] : sorted) {
    if (ids.empty() || ids.back() != id) ids.push_back(id);
    rows[place] = static_cast<int64_t>(ids.size()) - 1;
  }
  seeds.ids = at::empty({static_cast<int64_t>(ids.size())}, at::kLong);
  std::copy(ids.begin(), ids.end(), seeds.ids.mutable_data_ptr<int64_t>());
  return seeds;
}

}  // namespace gnn::loader
