#include "worker/loader/feature_fetcher.h"

#include "common/guarded.h"
#include "worker/data/gather.h"
#include "worker/loader/on_host.h"

#include <ATen/Functions.h>

#include <optional>
#include <span>
#include <string>
#include <utility>

namespace gnn::loader {

std::future<Result<at::Tensor>> FeatureFetcher::submit(at::Tensor global_ids) {
  const auto promise = std::make_shared<std::promise<Result<at::Tensor>>>();
  start(std::move(global_ids), run_at_once(), [promise](Result<at::Tensor> rows) {
    promise->set_value(std::move(rows));
  });
  return promise->get_future();
}

void fetch_all(
    const std::vector<std::shared_ptr<FeatureFetcher>>& fetchers,
    const std::vector<at::Tensor>& global_ids,
    const Executor& executor,
    std::function<void(Result<std::vector<at::Tensor>>)> done
) {
  struct Fetching {
    explicit Fetching(size_t types) : rows(types) {}

    std::vector<at::Tensor> rows;
    size_t left = 1;  // one for the loop below, so that nothing is complete before all is asked
    std::optional<Error> error;
  };
  const auto fetching = std::make_shared<Guarded<Fetching>>(Fetching(fetchers.size()));
  const auto arrived = [fetching, done = std::move(done)](const auto& take) {
    std::optional<Result<std::vector<at::Tensor>>> all;
    {
      const auto state = fetching->lock();
      take(*state);
      if (--state->left > 0) return;
      if (state->error) {
        all.emplace(tl::unexpected<Error>(*state->error));
      } else {
        all.emplace(std::move(state->rows));
      }
    }
    done(std::move(*all));
  };
  for (size_t type = 0; type < fetchers.size(); ++type) {
    if (fetchers[type] == nullptr) continue;
    ++fetching->lock()->left;
    fetchers[type]->start(global_ids[type], executor, [arrived, type](Result<at::Tensor> rows) {
      arrived([&](Fetching& state) {
        if (rows) {
          state.rows[type] = std::move(*rows);
        } else if (!state.error) {
          state.error = std::move(rows).error();
        }
      });
    });
  }
  arrived([](Fetching&) {});
}

tl::unexpected<Error> no_such_row(int64_t position, int64_t num_nodes, int64_t found) {
  return fail(
      ErrorKind::Data,
      "feature row " + std::to_string(position) + " of the batch: expected an id in [0, " +
          std::to_string(num_nodes) + "), found " + std::to_string(found)
  );
}

Result<LocalFeatureFetcher> LocalFeatureFetcher::create(
    at::Tensor rows, HostMemory memory, RowType type
) {
  if (!rows.defined() || rows.dim() < 1 || !rows.is_cpu() || !rows.is_contiguous()) {
    const std::string found =
        rows.defined() ? rows.toString() + " with " + std::to_string(rows.dim()) + " dimensions"
                       : std::string("none");
    return fail(
        ErrorKind::Configuration,
        "feature rows: expected a contiguous CPU tensor of rows, found " + found
    );
  }
  return LocalFeatureFetcher(std::move(rows), memory, type);
}

LocalFeatureFetcher::LocalFeatureFetcher(at::Tensor rows, HostMemory memory, RowType type)
    : rows_(std::move(rows)),
      memory_(memory),
      type_(gathered_type(rows_.scalar_type(), type)),
      buffers_([] { return std::make_unique<PageBuffer>(); }) {}

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
  if (bad >= 0) return no_such_row(bad, rows_.size(0), ids[static_cast<size_t>(bad)]);
  std::vector<int64_t> shape = rows_.sizes().vec();
  shape[0] = global_ids.numel();
  const auto width = static_cast<size_t>(rows_.strides()[0]);
  if (ids.empty() || width == 0) return at::empty(shape, rows_.options().dtype(type_));
  at::Tensor gathered = room_for(shape);
  if (type_ != rows_.scalar_type()) {
    data::gather_rows_as_bfloat16(
        rows_.const_data_ptr<float>(),
        width,
        ids,
        static_cast<uint16_t*>(gathered.mutable_data_ptr())
    );
    return gathered;
  }
  data::gather_rows(
      static_cast<const std::byte*>(rows_.const_data_ptr()),
      width * rows_.element_size(),
      ids,
      static_cast<std::byte*>(gathered.mutable_data_ptr())
  );
  return gathered;
}

at::Tensor LocalFeatureFetcher::room_for(at::IntArrayRef shape) const {
  const at::TensorOptions options = rows_.options().dtype(type_);
  // LibTorch gives a pinned block out again only when the copies from it have ended.
  if (memory_ == HostMemory::Pinned) return at::empty(shape, options.pinned_memory(true));
  // The page faults of a fresh tensor of hundreds of megabytes would cost more than the copy itself.
  auto buffer = buffers_.borrow();
  buffer->reserve(static_cast<size_t>(c10::multiply_integers(shape)) * c10::elementSize(type_));
  void* const data = buffer->data();
  return at::from_blob(data, shape, [buffer = std::move(buffer)](void*) {}, options);
}

void LocalFeatureFetcher::start(at::Tensor global_ids, const Executor& /*executor*/, Done done) {
  done(fetch(on_host(global_ids)));
}

}  // namespace gnn::loader
