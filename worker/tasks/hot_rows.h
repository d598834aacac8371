#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/comm/rank_groups.h"
#include "worker/data/partitions.h"
#include "worker/graph/dataset.h"
#include "worker/shards/part.h"
#include "worker/shards/part_sampler.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace gnn::tasks {

/// What each batch of links has beside them.
struct LinkDraws {
  int64_t source_type = 0;
  double negatives = 1;  ///< pairs for each link of a batch
  /// Of sources and destinations float64 [num_nodes], by which the ends of negatives are drawn;
  /// undefined: all nodes alike.
  std::array<at::Tensor, 2> weights{};
};

/// What training batches start from.
struct TrainingItems {
  /// Of nodes int64 [T]; of links int64 [T, 2], source and destination. Those of all parts.
  at::Tensor ids;
  int64_t node_type = 0;             ///< of nodes, or of links' destinations
  std::optional<LinkDraws> links{};  ///< of links alone
  int64_t batch_size = 1;
  /// Whether these are the items, and the lists those, that the data set was partitioned with.
  bool as_partitioned = false;
};

/// The training batches of a job.
struct TrainingBatches {
  const shards::SamplerSpec& sampler;  ///< that draws them
  const TrainingItems& items;
};

struct HotRowsOptions {
  double rows = 0.1;     ///< to find, as a share of the rows of a node type
  int64_t num_cpus = 1;  ///< that one rank may keep busy
  int64_t memory_bytes = std::numeric_limits<int64_t>::max();  ///< that this process may use
  ProgressBar& progress;
  /// No other process takes part. Of lists that lie apart it has too few to find anything: the rows are
  /// then those of the data set, without their hotness.
  bool alone = false;
};

/// The rows of other parts that training batches read most, by node type; nothing where the data set's
/// own are right. Those are of the batches that `data partition` was told of. If the job draws its
/// batches in another way, or its cache has room for more rows than were kept, the hotness is computed
/// anew. Where the part has the lists of all nodes, local rank 0 of each node does so alone; else one
/// node of each part takes its own lists, and sums go round once a part, hop and node type. It takes 32
/// bytes a node, and by AllSeen 8 more a list; if that is more than half of the memory, the rows are those of the data set, without
/// their hotness.
/// Collective.
/// Errors: PeerLost.
[[nodiscard]] Result<std::vector<graph::HotRowsData>> hot_rows_of_job(
    const graph::Dataset& dataset,
    const shards::Part& part,
    const TrainingBatches& batches,
    const HotRowsOptions& options,
    const comm::RankGroups& groups
);

/// The `rows` nodes of each type, fewer if it has fewer, that training batches on all lists read most:
/// int64, hottest first. Where to find that takes more than half of the memory, those that most
/// entries of the lists name; the log says which. Local rank 0 of each node finds them.
/// Collective.
/// Errors: PeerLost.
[[nodiscard]] Result<std::vector<at::Tensor>> hottest_nodes(
    const std::vector<int64_t>& num_nodes,
    const std::vector<int64_t>& rows,
    const TrainingBatches& batches,
    const HotRowsOptions& options,
    const comm::RankGroups& groups
);

}  // namespace gnn::tasks
