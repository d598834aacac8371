#pragma once

#include "worker/checkpoint/history.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gnn::checkpoint {

/// A tensor under the name that finds it again.
struct CheckpointTensor {
  std::string name;
  /// On the CPU when loaded; on any device and with any strides when saved.
  at::Tensor tensor;
};

/// All that a resumed run needs to go on as if it had never stopped. No generator states: what is
/// drawn follows from the seed and the position.
struct CheckpointState {
  int64_t epoch = 0;            ///< epochs finished
  int64_t step = 0;             ///< steps done in the epoch after those
  int64_t steps_per_epoch = 0;  ///< what `step` counts towards; other batches count otherwise
  int64_t global_step = 0;      ///< steps done since the start of training; names the checkpoint
  int64_t world_size = 1;
  /// Of what the numbers depend on: model, data, sampling, optimizer, seed.
  std::string config_hash;
  /// Of the gradient buckets (DistributedDataParallel::layout_hash).
  std::string bucket_layout_hash;
  /// What else explains a difference in bits, by name: thread counts, instruction set, device.
  std::map<std::string, std::string> environment;
  History history;
  std::vector<CheckpointTensor> model;      ///< parameters and buffers
  std::vector<CheckpointTensor> optimizer;  ///< state tensors and step counts
  /// Tables of trained rows with their optimizer state; a job without any has none.
  std::vector<CheckpointTensor> embeddings = {};
};

}  // namespace gnn::checkpoint
