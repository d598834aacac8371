#pragma once

#include <cstdint>

namespace gnn::loader {

/// Where the time of an epoch went so far. Busy seconds are summed over batches, and hold what these
/// wait for other nodes.
struct LoaderStats {
  int64_t batches = 0;
  int64_t sampled_edges = 0;
  int64_t gathered_bytes = 0;
  int64_t false_negatives = 0;  ///< LinkMiniBatch::false_negatives, summed
  double sample_seconds = 0;    ///< busy: sampling, or joining graphs
  double fetch_seconds = 0;     ///< busy: features and labels
  double copy_seconds = 0;      ///< busy: copies to the device
  /// The caller of next() waited for a batch: the loader is the bottleneck.
  double training_stall_seconds = 0;
  /// Loading threads, summed, had no room for another batch: the model is the bottleneck.
  double sample_stall_seconds = 0;
  /// Loading threads, summed, waited for other nodes: these, or the network, are the bottleneck.
  double reply_stall_seconds = 0;
  double copy_stall_seconds = 0;  ///< the copy to a device waited for a batch
  int64_t sampler_bytes = 0;      ///< state of the sampler's threads, as of now
};

}  // namespace gnn::loader
