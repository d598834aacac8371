#pragma once

#include "worker/loader/loader_stats.h"
#include "worker/progress/progress_sink.h"

#include <c10/core/Device.h>

#include <algorithm>
#include <cstdint>

namespace gnn::tasks {

/// Threads that load batches for a model on `device`. On the CPU the model's own threads use every
/// core; a quarter of them for loading keeps both busy. On a GPU one core queues what it computes and
/// another the copies, and all others load.
[[nodiscard]] inline int64_t loading_threads(int64_t num_cpus, c10::Device device) {
  return std::max<int64_t>(1, device.is_cpu() ? num_cpus / 4 : num_cpus - 2);
}

/// The most of them where batches are sampled, and their rows gathered, on the GPU: threads that wait for
/// it, and make what it samples around.
inline constexpr int64_t kWaitingThreads = 4;

/// What loading has cost in past epochs and in the one that `stats` are of.
[[nodiscard]] inline progress::DataPath data_path_of(
    progress::DataPath past_epochs, const loader::LoaderStats& stats
) {
  past_epochs.feature_bytes += stats.gathered_bytes;
  past_epochs.sample_stall_seconds += stats.sample_stall_seconds;
  past_epochs.copy_stall_seconds += stats.copy_stall_seconds;
  past_epochs.training_stall_seconds += stats.training_stall_seconds;
  return past_epochs;
}

}  // namespace gnn::tasks
