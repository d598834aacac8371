#pragma once

#include "common/result.h"
#include "worker/loader/batch_pipeline.h"
#include "worker/loader/batch_source.h"
#include "worker/loader/link_batch_maker.h"
#include "worker/loader/loader_stats.h"
#include "worker/loader/mini_batch.h"
#include "worker/servers/batch_request.h"
#include "worker/servers/holders.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace gnn::servers {

struct ServedBatchesOptions {
  int64_t num_batches = 0;  ///< of this rank in each epoch
  /// Batch `index` of this rank in `epoch`; called on any thread.
  std::function<BatchRequest(int64_t epoch, int64_t index)> request_of;
  /// Batches that are asked for at a time.
  int64_t under_way = 4;
  /// Batches that have come, or are asked for, beyond those.
  int64_t prefetch = 2;
  std::optional<int64_t> channel_bytes = {};  ///< as loader::PipelineOptions::channel_bytes
  /// The most bytes of answers that are on their way at a time, by the size of the largest so far; one
  /// batch always is.
  int64_t max_bytes_in_flight = int64_t{128} << 20;
  at::Device device = at::kCPU;  ///< where next() delivers
};

/// A rank's batches, made by servers. Batch b of rank r goes to the (r + b)-th live holder of its part,
/// and to another one when that is lost; whoever makes it, it has the same bits. Batches come in
/// order.
/// Threads: one reader.
template <class Batch>
class ServedBatches final : public loader::BatchSource<Batch> {
 public:
  /// Errors: Configuration naming the option.
  [[nodiscard]] static Result<std::unique_ptr<ServedBatches>> create(
      const ServedBatchesOptions& options, std::shared_ptr<Holders> holders
  );
  ~ServedBatches() override;

  [[nodiscard]] int64_t num_batches() const override { return options_.num_batches; }
  Status start_epoch(int64_t epoch, int64_t first_batch = 0) override;
  /// Errors: those of Holders::ask(); Data for an answer that is no batch, naming the server;
  /// Cancelled after stop().
  [[nodiscard]] Result<std::optional<Batch>> next() override;
  void stop() override { pipeline_.end_epoch(); }
  /// Seconds of sampling and of rows are the servers'.
  [[nodiscard]] loader::LoaderStats stats() const override { return pipeline_.stats(); }

 private:
  class Asking;
  ServedBatches(const ServedBatchesOptions& options, std::shared_ptr<Holders> holders);

  const ServedBatchesOptions options_;
  const std::shared_ptr<Holders> holders_;
  const std::shared_ptr<Asking> asking_;
  loader::BatchPipeline<Batch> pipeline_;
};

extern template class ServedBatches<loader::MiniBatch>;
extern template class ServedBatches<loader::LinkMiniBatch>;

}  // namespace gnn::servers
