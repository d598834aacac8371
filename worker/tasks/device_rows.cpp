#include "worker/tasks/device_rows.h"

#include "worker/loader/device_rows.h"
#include "worker/tasks/node_row_device.h"

#include <ATen/Functions.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

namespace gnn::tasks {
namespace {

constexpr const char* kField = "spec.features.memory: ";

tl::unexpected<Error> naming_field(Error error) {
  error.message = kField + error.message;
  return tl::unexpected<Error>(std::move(error));
}

// By type, those that lie on the device.
Result<std::vector<at::Tensor>> hot_ids(
    const std::vector<int64_t>& num_nodes,
    const std::vector<int64_t>& rows,
    const TrainingBatches& batches,
    const DeviceFeatures& features,
    const comm::RankGroups& groups
) {
  bool is_choice = false;
  std::vector<at::Tensor> ids;
  for (size_t type = 0; type < rows.size(); ++type) {
    is_choice = is_choice || (rows[type] > 0 && rows[type] < num_nodes[type]);
    ids.push_back(at::arange(rows[type], at::kLong));
  }
  if (!is_choice) return ids;
  return hottest_nodes(num_nodes, rows, batches, features.finding, groups);
}

}  // namespace

int64_t num_device_rows(const api::Features& features, int64_t rows) {
  if (features.memory != api::FeatureMemory::ZeroCopy)
    return features.memory == api::FeatureMemory::Device ? rows : 0;
  const double share = features.device_rows ? features.device_rows->value() : 0;
  return static_cast<int64_t>(std::floor(share * static_cast<double>(rows)));
}

Result<std::optional<DeviceFeatures>> device_features(
    const api::GnnJobSpec& spec, TaskContext& context
) {
  if (!spec.features || spec.features->memory == api::FeatureMemory::Host)
    return std::optional<DeviceFeatures>();
  if (!context.device.is_cuda()) {
    return fail(
        ErrorKind::Configuration,
        kField + std::string("ZeroCopy and Device expect a rank on CUDA, found one on ") +
            context.device.str()
    );
  }
  auto device = loader::gpu_row_device(context.device);
  if (!device) return naming_field(std::move(device).error());
  return DeviceFeatures{
      .device = node_row_device(*std::move(device), context.groups, context.loading),
      .features = *spec.features,
      .finding =
          {.num_cpus = context.num_cpus,
           .memory_bytes = context.memory_bytes,
           .progress = context.loading}
  };
}

Result<std::vector<std::shared_ptr<loader::FeatureFetcher>>> device_fetchers(
    const graph::Dataset& dataset,
    const std::vector<bool>& read,
    const TrainingBatches& batches,
    const DeviceFeatures& features,
    loader::RowType type,
    const comm::RankGroups& groups
) {
  const size_t types = dataset.node_types.size();
  std::vector<int64_t> num_nodes(types);
  std::vector<int64_t> rows(types);
  for (size_t i = 0; i < types; ++i) {
    num_nodes[i] = dataset.node_types[i].num_nodes;
    if (read.at(i) && dataset.node_types[i].features)
      rows[i] = num_device_rows(features.features, num_nodes[i]);
  }
  GNN_ASSIGN_OR_RETURN(
      const std::vector<at::Tensor> hot, hot_ids(num_nodes, rows, batches, features, groups)
  );
  std::vector<std::shared_ptr<loader::FeatureFetcher>> fetchers(types);
  for (size_t i = 0; i < types; ++i) {
    if (!read[i] || !dataset.node_types[i].features) continue;
    auto made = loader::DeviceRows::create(
        features.device,
        {.rows = dataset.node_types[i].features->rows(),
         .num_nodes = num_nodes[i],
         .type = type,
         .hot_ids = hot[i]},
        features.finding.progress
    );
    if (!made) return naming_field(std::move(made).error());
    fetchers[i] = std::make_shared<loader::DeviceFeatureFetcher>(*std::move(made));
  }
  return fetchers;
}

}  // namespace gnn::tasks
