#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/graph/dataset.h"
#include "worker/loader/batch_pipeline.h"
#include "worker/tasks/task.h"

#include <c10/core/Device.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace gnn::tasks {

/// Something that takes memory.
struct PlannedMemory {
  std::string what;   ///< "feature rows"
  int64_t bytes = 0;  ///< at most
  /// The field of the spec that puts it there, as in "spec.features.memory"; empty: none alone.
  std::string field{};
};

/// What shall lie on a rank's GPU, and in pinned memory of its node.
struct DevicePlan {
  std::vector<PlannedMemory> on_device{};
  std::vector<PlannedMemory> pinned{};
  std::string device{};    ///< its name, as in "cuda:0"
  int64_t free_bytes = 0;  ///< of the GPU, before anything of the plan but the model is there
  /// That the processes of the node may use.
  int64_t host_bytes = std::numeric_limits<int64_t>::max();
};

/// Bytes of all of them.
[[nodiscard]] int64_t sum_of(const std::vector<PlannedMemory>& memory);

/// What a rank trains on, and how its batches are made.
struct DevicePlanInput {
  const api::GnnJobSpec& spec;
  const graph::Dataset& dataset;
  /// By node type: whether batches have its feature rows.
  std::vector<bool> features;
  /// Those that are sampled, in the order of the sampler's relations.
  std::vector<int64_t> edge_types{0};
  int64_t model_parameters = 0;  ///< numbers of 4 bytes
  loader::PipelineOptions pipeline{};
  int64_t part = 0;       ///< that the rank's node reads, of a data set that is partitioned
  bool evaluates = true;  ///< by sampling, some part of the split
};

/// The numbers of a model's parameters.
[[nodiscard]] int64_t num_parameters(const torch::nn::Module& model);

/// The plan of a rank by the shapes of its data: batches have as many nodes and edges as their seeds may
/// draw, which is more than they do. Samplers on the GPU take what memory_of_sampler() says, when they are
/// made; an evaluation has its own beside those of the training. The last item is an allowance for what
/// the model computes: the optimizer's three numbers a parameter, and for each layer three tensors of its
/// width for each node that it computes.
/// Errors: Configuration for a batch that no GPU samples.
[[nodiscard]] Result<DevicePlan> plan_device(const DevicePlanInput& input);

/// In words, for the log.
[[nodiscard]] std::string text_of(const DevicePlan& plan);

/// Errors: Configuration naming the field of what is largest, what is needed, what is free and what to
/// set, if it is too much.
[[nodiscard]] Status check(const DevicePlan& plan);

/// Bytes that are free on a device.
using FreeBytes = std::function<int64_t(c10::Device)>;
[[nodiscard]] int64_t free_bytes_of(c10::Device device);

/// Logs the plan of a rank whose GPU gathers rows or samples, and checks it; before anything is put
/// there but the model. Pipeline and part are those of the rank.
/// Errors: those of check().
[[nodiscard]] Status plan_for(
    DevicePlanInput input, TaskContext& context, const FreeBytes& free_bytes = &free_bytes_of
);

}  // namespace gnn::tasks
