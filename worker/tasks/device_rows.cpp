#include "worker/tasks/device_rows.h"

#include "worker/data/memory_plan.h"
#include "worker/tasks/part_inputs.h"

#include <ATen/DeviceAccelerator.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace gnn::tasks {
namespace {

// One that the model reads, one that the next step takes, and what lies between the copies and it.
int64_t batches_on_device(const api::Sampling& sampling) {
  return sampling.prefetch.value_or(kDefaultPrefetch) + 2;
}

// A batch's seeds and all that they may draw; at most every node.
int64_t most_nodes(
    const std::vector<int64_t>& fanout, const api::GnnJobSpec& spec, int64_t num_nodes
) {
  const bool all_seen = spec.sampling->rule == api::SamplingRule::AllSeen;
  int64_t nodes = std::min(spec.training.batch_size, num_nodes);
  int64_t expanded = nodes;
  for (const int64_t draws : fanout) {
    if (draws < 0 || nodes == num_nodes) return num_nodes;
    const int64_t drawn = expanded * draws;
    nodes = std::min(nodes + drawn, num_nodes);
    expanded = all_seen ? nodes : drawn;
  }
  return nodes;
}

}  // namespace

DevicePlan plan_device_rows(const at::Tensor& rows, const api::GnnJobSpec& spec) {
  const int64_t num_nodes = rows.size(0);
  const auto row_bytes = rows.stride(0) * static_cast<int64_t>(rows.element_size());
  const api::Sampling& sampling = *spec.sampling;
  int64_t nodes = most_nodes(sampling.fanout, spec, num_nodes);
  if (const auto& evaluated = spec.training.evaluation.fanout)
    nodes = std::max(nodes, most_nodes(*evaluated, spec, num_nodes));
  return {
      .rows_bytes = num_nodes * row_bytes,
      .batch_bytes = nodes * row_bytes,
      .batches = batches_on_device(sampling),
  };
}

std::string text_of(const DevicePlan& plan) {
  return "feature rows on " + plan.device + ": " + data::bytes_text(plan.rows_bytes) + ", and " +
         std::to_string(plan.batches) + " batches of at most " +
         data::bytes_text(plan.batch_bytes) + "; of its memory " +
         data::bytes_text(plan.free_bytes) + " are free";
}

Status check(const DevicePlan& plan) {
  if (plan.bytes() <= plan.free_bytes) return {};
  return fail(
      ErrorKind::Configuration,
      "spec.features.memory: Device expects room for the " + text_of(plan) +
          "; set Host, a smaller sampling.fanout, batchSize or prefetch, or use a GPU with more "
          "memory"
  );
}

Result<at::Tensor> rows_on_device(
    const at::Tensor& rows, const api::GnnJobSpec& spec, TaskContext& context
) {
  if (!spec.features || spec.features->memory == api::FeatureMemory::Host) return at::Tensor();
  if (!context.device.is_cuda()) {
    return fail(
        ErrorKind::Configuration,
        "spec.features.memory: Device expects a rank on CUDA, found one on " + context.device.str()
    );
  }
  DevicePlan plan = plan_device_rows(rows, spec);
  plan.device = context.device.str();
  plan.free_bytes =
      static_cast<int64_t>(at::accelerator::getMemoryInfo(context.device.index()).first);
  context.progress.on_message(text_of(plan));
  GNN_RETURN_IF_ERROR(check(plan));
  return rows.to(context.device);
}

}  // namespace gnn::tasks
