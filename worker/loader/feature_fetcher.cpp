#include "worker/loader/feature_fetcher.h"

#include "worker/data/gather.h"

#include <ATen/Functions.h>

#include <span>
#include <string>
#include <utility>

namespace gnn::loader {

Result<LocalFeatureFetcher> LocalFeatureFetcher::create(at::Tensor rows) {
  if (!rows.defined() || rows.dim() < 1 || !rows.is_cpu() || !rows.is_contiguous()) {
    const std::string found =
        rows.defined() ? rows.toString() + " with " + std::to_string(rows.dim()) + " dimensions"
                       : std::string("none");
    return fail(
        ErrorKind::Configuration,
        "feature rows: expected a contiguous CPU tensor of rows, found " + found
    );
  }
  return LocalFeatureFetcher(std::move(rows));
}

LocalFeatureFetcher::LocalFeatureFetcher(at::Tensor rows)
    : rows_(std::move(rows)), buffers_([] { return std::make_unique<PageBuffer>(); }) {}

LocalFeatureFetcher::LocalFeatureFetcher(LocalFeatureFetcher&&) noexcept = default;
LocalFeatureFetcher& LocalFeatureFetcher::operator=(LocalFeatureFetcher&&) noexcept = default;
LocalFeatureFetcher::~LocalFeatureFetcher() = default;

Result<at::Tensor> LocalFeatureFetcher::fetch(const at::Tensor& global_ids) const {
  TORCH_CHECK(
      global_ids.dim() == 1 && global_ids.scalar_type() == at::kLong &&
          global_ids.is_contiguous() && global_ids.is_cpu(),
      "ids must be a contiguous int64 vector on the CPU, found ",
      global_ids.toString(),
      " of shape ",
      global_ids.sizes()
  );
  const std::span ids(
      global_ids.const_data_ptr<int64_t>(), static_cast<size_t>(global_ids.numel())
  );
  const int64_t bad = data::first_out_of_range(ids, rows_.size(0));
  if (bad >= 0) {
    return fail(
        ErrorKind::Data,
        "feature row " + std::to_string(bad) + " of the batch: expected an id in [0, " +
            std::to_string(rows_.size(0)) + "), found " +
            std::to_string(ids[static_cast<size_t>(bad)])
    );
  }
  std::vector<int64_t> shape = rows_.sizes().vec();
  shape[0] = global_ids.numel();
  const auto row_bytes = static_cast<size_t>(rows_.strides()[0]) * rows_.element_size();
  if (ids.empty() || row_bytes == 0) return at::empty(shape, rows_.options());
  // The page faults of a fresh tensor of hundreds of megabytes would cost more than the copy itself.
  auto buffer = buffers_.borrow();
  buffer->reserve(ids.size() * row_bytes);
  data::gather_rows(
      static_cast<const std::byte*>(rows_.const_data_ptr()),
      row_bytes,
      ids,
      static_cast<std::byte*>(buffer->data())
  );
  void* const data = buffer->data();
  return at::from_blob(data, shape, [buffer = std::move(buffer)](void*) {}, rows_.options());
}

std::future<Result<at::Tensor>> LocalFeatureFetcher::submit(at::Tensor global_ids) {
  std::promise<Result<at::Tensor>> promise;
  promise.set_value(fetch(global_ids));
  return promise.get_future();
}

}  // namespace gnn::loader
