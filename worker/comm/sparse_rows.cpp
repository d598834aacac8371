#include "worker/comm/sparse_rows.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <string>

namespace gnn::comm {
namespace {

// What each rank says of its rows before they travel.
constexpr int64_t kCount = 0;
constexpr int64_t kWidth = 1;
constexpr int64_t kIsDouble = 2;
constexpr int64_t kHeaderFields = 3;

std::span<const int64_t> ids_of(const SparseRows& rows) {
  return {rows.ids.const_data_ptr<int64_t>(), static_cast<size_t>(rows.ids.numel())};
}

void check_rows(const SparseRows& rows) {
  TORCH_CHECK(
      rows.ids.dim() == 1 && rows.ids.scalar_type() == at::kLong && rows.ids.is_cpu() &&
          rows.ids.is_contiguous(),
      "rows: expected ids int64 [K] on the CPU, found ",
      rows.ids.scalar_type(),
      ' ',
      rows.ids.sizes(),
      " on ",
      rows.ids.device()
  );
  TORCH_CHECK(
      rows.values.dim() == 2 && rows.values.size(0) == rows.ids.size(0) &&
          (rows.values.scalar_type() == at::kFloat || rows.values.scalar_type() == at::kDouble) &&
          rows.values.is_contiguous(),
      "rows: expected values float32 or float64 [",
      rows.ids.size(0),
      ", D], found ",
      rows.values.scalar_type(),
      ' ',
      rows.values.sizes()
  );
  const auto ids = ids_of(rows);
  TORCH_CHECK(
      std::ranges::adjacent_find(ids, std::ranges::greater_equal{}) == ids.end(),
      "rows: expected ids that ascend and are unique"
  );
}

// `tensor` with zeros after its rows, `count` in all.
at::Tensor pad_rows(const at::Tensor& tensor, int64_t count) {
  const int64_t missing = count - tensor.size(0);
  if (missing == 0) return tensor;
  auto shape = tensor.sizes().vec();
  shape[0] = missing;
  return at::cat({tensor, at::zeros(shape, tensor.options())});
}

std::string describe(const int64_t* header) {
  return std::string(header[kIsDouble] != 0 ? "float64" : "float32") + " rows of " +
         std::to_string(header[kWidth]);
}

Result<std::vector<int64_t>> gather_counts(Communicator& communicator, const SparseRows& mine) {
  auto header = at::zeros({kHeaderFields}, at::kLong);
  auto* fields = header.mutable_data_ptr<int64_t>();
  fields[kCount] = mine.ids.size(0);
  fields[kWidth] = mine.values.size(1);
  fields[kIsDouble] = mine.values.scalar_type() == at::kDouble ? 1 : 0;
  GNN_ASSIGN_OR_RETURN(const auto headers, communicator.all_gather(header));
  const auto* first = headers[0].const_data_ptr<int64_t>();
  std::vector<int64_t> counts;
  for (size_t r = 0; r < headers.size(); ++r) {
    const auto* found = headers[r].const_data_ptr<int64_t>();
    if (found[kWidth] != first[kWidth] || found[kIsDouble] != first[kIsDouble])
      return fail(
          ErrorKind::Internal,
          "exchange of rows: expected on rank " + std::to_string(r) + ", as on rank 0, " +
              describe(first) + ", found " + describe(found)
      );
    counts.push_back(found[kCount]);
  }
  return counts;
}

// The place of each id of `part` among `ids`, which has them all.
at::Tensor places_of(std::span<const int64_t> part, std::span<const int64_t> ids) {
  auto places = at::empty({static_cast<int64_t>(part.size())}, at::kLong);
  auto* out = places.mutable_data_ptr<int64_t>();
  size_t place = 0;
  for (size_t i = 0; i < part.size(); ++i) {
    while (ids[place] != part[i]) ++place;
    out[i] = static_cast<int64_t>(place);
  }
  return places;
}

// Adds each row of `values` to the row of `sums` that `places` has for it.
template <class T>
void add_rows(at::Tensor& sums, const at::Tensor& places, const at::Tensor& values) {
  const int64_t width = values.size(1);
  const auto* place = places.const_data_ptr<int64_t>();
  const T* value = values.const_data_ptr<T>();
  T* first = sums.mutable_data_ptr<T>();
  for (int64_t i = 0; i < values.size(0); ++i, value += width) {
    T* sum = first + place[i] * width;
    for (int64_t d = 0; d < width; ++d) sum[d] += value[d];
  }
}

at::Tensor union_of_ids(const std::vector<SparseRows>& parts) {
  std::vector<int64_t> all;
  std::vector<int64_t> next;
  for (const auto& part : parts) {
    next.clear();
    std::ranges::set_union(all, ids_of(part), std::back_inserter(next));
    all.swap(next);
  }
  auto ids = at::empty({static_cast<int64_t>(all.size())}, at::kLong);
  std::ranges::copy(all, ids.mutable_data_ptr<int64_t>());
  return ids;
}

}  // namespace

Result<std::vector<SparseRows>> all_gather_rows(
    Communicator& communicator, const SparseRows& mine
) {
  check_rows(mine);
  GNN_ASSIGN_OR_RETURN(const auto counts, gather_counts(communicator, mine));
  const int64_t most = std::ranges::max(counts);
  if (most == 0) return std::vector<SparseRows>(counts.size(), mine);
  GNN_ASSIGN_OR_RETURN(const auto ids, communicator.all_gather(pad_rows(mine.ids, most)));
  GNN_ASSIGN_OR_RETURN(const auto values, communicator.all_gather(pad_rows(mine.values, most)));
  std::vector<SparseRows> parts;
  parts.reserve(counts.size());
  for (size_t r = 0; r < counts.size(); ++r)
    parts.push_back({ids[r].narrow(0, 0, counts[r]), values[r].narrow(0, 0, counts[r])});
  return parts;
}

SparseRows sum_rows(const std::vector<SparseRows>& parts) {
  TORCH_CHECK(!parts.empty(), "sum_rows: expected at least one part, found none");
  for (const auto& part : parts) check_rows(part);
  if (parts.size() == 1) return parts[0];
  const int64_t width = parts[0].values.size(1);
  for (const auto& part : parts)
    TORCH_CHECK(
        part.values.size(1) == width &&
            part.values.scalar_type() == parts[0].values.scalar_type() &&
            part.values.device() == parts[0].values.device(),
        "sum_rows: expected parts of one width, dtype and device"
    );
  SparseRows sum{union_of_ids(parts), {}};
  sum.values = at::zeros({sum.ids.size(0), width}, parts[0].values.options());
  for (const auto& part : parts) {
    const auto places = places_of(ids_of(part), ids_of(sum));
    if (!part.values.is_cpu()) {
      // Each row of the sum is added to once, so that no order of threads shows in it.
      sum.values.index_add_(0, places.to(part.values.device()), part.values);
    } else if (part.values.scalar_type() == at::kFloat) {
      add_rows<float>(sum.values, places, part.values);
    } else {
      add_rows<double>(sum.values, places, part.values);
    }
  }
  return sum;
}

}  // namespace gnn::comm
