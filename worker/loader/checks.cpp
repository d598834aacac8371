#include "worker/loader/checks.h"

#include "worker/data/gather.h"

#include <span>
#include <string>

namespace gnn::loader {

Status check_ids(const at::Tensor& ids, const char* name, int64_t limit) {
  TORCH_CHECK(
      ids.defined() && ids.dim() == 1 && ids.scalar_type() == at::kLong && ids.is_contiguous() &&
          ids.is_cpu(),
      name,
      " must be a contiguous int64 vector on the CPU"
  );
  const std::span values(ids.const_data_ptr<int64_t>(), static_cast<size_t>(ids.numel()));
  const int64_t bad = data::first_out_of_range(values, limit);
  if (bad < 0) return {};
  return fail(
      ErrorKind::Data,
      std::string(name) + "[" + std::to_string(bad) + "]: expected an id in [0, " +
          std::to_string(limit) + "), found " + std::to_string(values[static_cast<size_t>(bad)])
  );
}

Status check_start(const sampling::core::ItemSampler& items, int64_t epoch, int64_t first_batch) {
  const int64_t num_batches = items.num_batches();
  if (epoch >= 0 && first_batch >= 0 && first_batch <= num_batches) return {};
  return fail(
      ErrorKind::Configuration,
      "expected an epoch >= 0 that starts at a batch in [0, " + std::to_string(num_batches) +
          "], found batch " + std::to_string(first_batch) + " of epoch " + std::to_string(epoch)
  );
}

}  // namespace gnn::loader
