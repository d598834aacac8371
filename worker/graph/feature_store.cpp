#include "worker/graph/feature_store.h"

#include <ATen/Functions.h>

#include <cstring>
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
  const auto* id = wanted.const_data_ptr<int64_t>();
  const int64_t count = wanted.numel();
  at::Tensor out = at::empty({count, width()}, rows_.options());
  auto* to = static_cast<std::byte*>(out.mutable_data_ptr());
  for (int64_t i = 0; i < count; ++i) {
    TORCH_CHECK(
        id[i] >= 0 && id[i] < num_rows(),
        "ids[",
        i,
        "]: expected a row in [0, ",
        num_rows(),
        "), found ",
        id[i]
    );
    std::memcpy(to + i * row_bytes_, row(id[i]), static_cast<size_t>(row_bytes_));
  }
  return out;
}

}  // namespace gnn::graph
