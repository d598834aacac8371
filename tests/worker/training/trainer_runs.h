#pragma once

#include "tests/support/temporary_folder.h"
#include "worker/training/trainer.h"

#include <ATen/Functions.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gnn::training {

inline TrainerOptions options_for(int64_t epochs) {
  TrainerOptions options;
  options.training.epochs = epochs;
  options.training.batch_size = 4;
  options.training.seed = 3;
  return options;
}

inline api::Checkpoint checkpoints_in(const testing::TemporaryFolder& folder) {
  api::Checkpoint checkpoint;
  checkpoint.path = folder.path() + "/job";
  return checkpoint;
}

inline bool same_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i) same = at::equal(a[i], b[i]);
  return same;
}

}  // namespace gnn::training
