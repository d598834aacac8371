#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/comm/rank_groups.h"
#include "worker/graph/dataset.h"
#include "worker/loader/feature_fetcher.h"
#include "worker/loader/row_device.h"
#include "worker/tasks/hot_rows.h"
#include "worker/tasks/task.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace gnn::tasks {

/// Rows of so many that lie on the GPU.
[[nodiscard]] int64_t num_device_rows(const api::Features& features, int64_t rows);

/// A rank's GPU, where that gathers feature rows.
struct DeviceFeatures {
  std::shared_ptr<loader::RowDevice> device;
  api::Features features;
  /// How to find the rows that lie on it, of which `rows` counts for nothing.
  HotRowsOptions finding;
};

/// Nothing if the spec leaves the rows to the host.
/// Errors: Configuration naming spec.features.memory for a rank on a CPU, and in a build without CUDA
/// kernels.
[[nodiscard]] Result<std::optional<DeviceFeatures>> device_features(
    const api::GnnJobSpec& spec, TaskContext& context
);

/// The feature rows of the types for which `read` is true and that have some, of a data set that is
/// whole here; by node type, null: none. Those that training `batches` read most lie on the device.
/// Collective.
/// Errors: those of loader::DeviceRows::create(), naming spec.features.memory; PeerLost.
[[nodiscard]] Result<std::vector<std::shared_ptr<loader::FeatureFetcher>>> device_fetchers(
    const graph::Dataset& dataset,
    const std::vector<bool>& read,
    const TrainingBatches& batches,
    const DeviceFeatures& features,
    loader::RowType type,
    const comm::RankGroups& groups
);

}  // namespace gnn::tasks
