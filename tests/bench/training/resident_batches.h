#pragma once

#include "worker/loader/batch_source.h"
#include "worker/loader/mini_batch.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace gnn::bench {

/// Batches that are there already, in turn, as many as an epoch has.
class ResidentBatches final : public loader::BatchSource<loader::MiniBatch> {
 public:
  ResidentBatches(std::vector<loader::MiniBatch> batches, int64_t per_epoch)
      : batches_(std::move(batches)), per_epoch_(per_epoch) {}

  [[nodiscard]] int64_t num_batches() const override { return per_epoch_; }
  Status start_epoch(int64_t /*epoch*/, int64_t first_batch) override {
    next_ = first_batch;
    return {};
  }
  [[nodiscard]] Result<std::optional<loader::MiniBatch>> next() override {
    if (next_ == per_epoch_) return std::optional<loader::MiniBatch>();
    return std::optional<loader::MiniBatch>(batches_[static_cast<size_t>(next_++) % batches_.size()]
    );
  }
  void stop() override {}
  [[nodiscard]] loader::LoaderStats stats() const override { return {}; }

 private:
  std::vector<loader::MiniBatch> batches_;
  int64_t per_epoch_;
  int64_t next_ = 0;
};

}  // namespace gnn::bench
