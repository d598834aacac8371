#include "worker/graph/feature_store.h"

#include "worker/data/gather.h"

#include <ATen/Functions.h>

#include <span>
#include <sstream>
#include <utility>

namespace gnn::graph {

FeatureStore::FeatureStore(at::Tensor rows)
    : rows_(std::move(rows)),
      data_(static_cast<const std::byte*>(rows_.const_data_ptr())),
      row_bytes_(rows_.size(1) * rows_.element_size()) {}

Result<FeatureStore> FeatureStore::create(const at::Tensor& rows) {
  if (!rows.defined()) {
    return fail(ErrorKind::Data, "features: expected a tensor, found none");
  }
  std::ostringstream found;
  found << rows.scalar_type() << " " << rows.sizes() << " on " << rows.device();
  if (rows.dim() != 2 || rows.layout() != at::kStrided || !rows.device().is_cpu() ||
      rows.is_complex() || rows.is_quantized()) {
    return fail(
        ErrorKind::Data,
        "features: expected a dense [rows, width] matrix of numbers on the CPU, found " +
            found.str()
    );
  }
  return FeatureStore(rows.contiguous());
}

at::Tensor FeatureStore::gather(const at::Tensor& ids) const {
  TORCH_CHECK(
      ids.scalar_type() == at::kLong && ids.dim() == 1 && ids.device().is_cpu(),
      "ids: expected int64 [K] on the CPU, found ",
      ids.scalar_type(),
      " ",
      ids.sizes()
  );
  const at::Tensor wanted = ids.contiguous();
  const std::span rows_wanted(
      wanted.const_data_ptr<int64_t>(), static_cast<size_t>(wanted.numel())
  );
  const int64_t bad = data::first_out_of_range(rows_wanted, num_rows());
  TORCH_CHECK(
      bad < 0,
      "ids[",
      bad,
      "]: expected a row in [0, ",
      num_rows(),
      "), found ",
      bad < 0 ? 0 : rows_wanted[static_cast<size_t>(bad)]
  );
  at::Tensor out = at::empty({wanted.numel(), width()}, rows_.options());
  data::gather_rows(
      data_,
      static_cast<size_t>(row_bytes_),
      rows_wanted,
      static_cast<std::byte*>(out.mutable_data_ptr())
  );
  return out;
}

}  // namespace gnn::graph
