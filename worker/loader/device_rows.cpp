#include "worker/loader/device_rows.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace gnn::loader {
namespace {

constexpr int64_t kPiece = 65'536;  // rows that are copied at a time

int64_t count_of(const at::Tensor& ids) {
  return ids.defined() ? ids.numel() : 0;
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

// Whether these are 0, 1, 2, ...
bool are_the_first(const at::Tensor& ids) {
  const int64_t count = count_of(ids);
  const auto* const each = count == 0 ? nullptr : ids.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    if (each[i] != i) return false;
  }
  return true;
}

Status check(const DeviceRowsOptions& options) {
  const at::Tensor& rows = options.rows;
  if (!rows.defined() || rows.dim() < 1 || !rows.is_cpu() || !rows.is_contiguous() ||
      options.first < 0 || options.first + rows.size(0) > options.num_nodes) {
    return fail(
        ErrorKind::Configuration,
        "feature rows for a device: expected contiguous rows on the CPU, of nodes below " +
            std::to_string(options.num_nodes)
    );
  }
  const int64_t hot = count_of(options.hot_ids) + count_of(options.cached_ids);
  if (hot <= std::numeric_limits<int32_t>::max()) return {};
  return fail(
      ErrorKind::Configuration,
      "feature rows on a device: expected fewer than 2^31, found " + std::to_string(hot)
  );
}

}  // namespace

DeviceRows::DeviceRows(std::shared_ptr<RowDevice> device, const DeviceRowsOptions& options)
    : device_(std::move(device)),
      options_(options),
      type_(gathered_type(options.rows.scalar_type(), options.type)) {
  view_.num_ids = options_.num_nodes;
  view_.first = options_.first;
  view_.end = options_.first + options_.rows.size(0);
}

Result<std::shared_ptr<const DeviceRows>> DeviceRows::create(
    std::shared_ptr<RowDevice> device, const DeviceRowsOptions& options, ProgressBar& progress
) {
  GNN_RETURN_IF_ERROR(check(options));
  std::shared_ptr<DeviceRows> made(new DeviceRows(std::move(device), options));
  const at::Tensor& rows = made->options_.rows;
  GNN_RETURN_IF_ERROR(made->copy_hot(progress));
  GNN_RETURN_IF_ERROR(made->map_hot());
  if (count_of(options.hot_ids) < rows.size(0) && rows.nbytes() > 0) {
    GNN_ASSIGN_OR_RETURN(made->pinned_, made->device_->pin(bytes_of(rows)));
    made->view_.all = made->pinned_.get();
  }
  return std::shared_ptr<const DeviceRows>(std::move(made));
}

size_t DeviceRows::row_bytes() const {
  return static_cast<size_t>(options_.rows.stride(0)) * c10::elementSize(type_);
}

// Own rows in the order of hot_ids, then the cached ones.
Status DeviceRows::copy_hot(ProgressBar& progress) {
  const int64_t own = count_of(options_.hot_ids);
  const int64_t cached = count_of(options_.cached_ids);
  const auto bytes = static_cast<size_t>(own + cached) * row_bytes();
  if (bytes == 0) return {};
  GNN_ASSIGN_OR_RETURN(hot_, device_->allocate(bytes));
  view_.hot = hot_.get();
  GNN_ASSIGN_OR_RETURN(
      const LocalFeatureFetcher fetcher,
      LocalFeatureFetcher::create(options_.rows, HostMemory::Pageable, options_.type)
  );
  progress.begin("copying rows to the GPU", own + cached, "rows");
  for (int64_t begin = 0; begin < own; begin += kPiece) {
    const at::Tensor ids =
        options_.hot_ids.narrow(0, begin, std::min(kPiece, own - begin)).sub(options_.first);
    GNN_ASSIGN_OR_RETURN(const at::Tensor rows, fetcher.fetch(ids));
    GNN_RETURN_IF_ERROR(
        device_->upload(hot_.get() + static_cast<size_t>(begin) * row_bytes(), bytes_of(rows))
    );
    progress.advance_to(begin + ids.numel());
  }
  if (cached > 0) {
    GNN_RETURN_IF_ERROR(device_->upload(
        hot_.get() + static_cast<size_t>(own) * row_bytes(),
        bytes_of(options_.cached_rows.to(type_).contiguous())
    ));
  }
  progress.end();
  options_.cached_rows.reset();
  return {};
}

// Ids that are 0, 1, 2, ... need no map.
Status DeviceRows::map_hot() {
  const int64_t own = count_of(options_.hot_ids);
  const int64_t cached = count_of(options_.cached_ids);
  if (cached == 0 && are_the_first(options_.hot_ids)) {
    view_.hot_rows = own;
    return {};
  }
  std::vector<int32_t> places(static_cast<size_t>(options_.num_nodes), -1);
  int32_t next = 0;
  for (const at::Tensor& ids : {options_.hot_ids, options_.cached_ids}) {
    const auto* const each = count_of(ids) == 0 ? nullptr : ids.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < count_of(ids); ++i) places.at(static_cast<size_t>(each[i])) = next++;
  }
  const auto bytes = std::as_bytes(std::span<const int32_t>(places));
  GNN_ASSIGN_OR_RETURN(places_, device_->allocate(bytes.size()));
  GNN_RETURN_IF_ERROR(device_->upload(places_.get(), bytes));
  // reinterpret_cast: what was copied has its type still.
  view_.places = reinterpret_cast<const int32_t*>(places_.get());
  return {};
}

Result<at::Tensor> DeviceRows::gather(const at::Tensor& ids, const ArrivedRows& arrived) const {
  TORCH_CHECK(
      ids.dim() == 1 && ids.scalar_type() == at::kLong && ids.is_contiguous(),
      "ids must be a contiguous int64 vector, found ",
      ids.toString(),
      " of shape ",
      ids.sizes()
  );
  std::vector<int64_t> shape = options_.rows.sizes().vec();
  shape[0] = ids.numel();
  GatherRequest request{
      .task =
          {.rows = view_,
           .row_bytes = row_bytes(),
           .stored = type_ == options_.rows.scalar_type() ? gpu::StoredRows::AsGathered
                                                          : gpu::StoredRows::Floats,
           .most_reading_threads = pinned_ == nullptr ? 0 : options_.most_reading_threads},
      .ids = ids,
      .shape = shape,
      .type = type_,
      .received = arrived.rows,
      .places = arrived.places
  };
  GNN_ASSIGN_OR_RETURN(GatheredRows gathered, device_->gather(request));
  if (gathered.first_bad < 0) return std::move(gathered.rows);
  GNN_ASSIGN_OR_RETURN(const at::Tensor found, device_->on_host(ids));
  return no_such_row(
      gathered.first_bad, options_.num_nodes, found[gathered.first_bad].item<int64_t>()
  );
}

}  // namespace gnn::loader
