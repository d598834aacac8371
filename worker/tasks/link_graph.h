#pragma once

#include "common/api/gnn_job.h"
#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/graph/dataset.h"
#include "worker/sampling/neighbor.h"
#include "worker/tasks/link_split.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace gnn::tasks {

/// The links of a data set that was loaded with some (graph::Dataset::links).
[[nodiscard]] Links links_of(const graph::Dataset& dataset);

/// What spec.dataset.split says, with its defaults.
[[nodiscard]] LinkSplitOptions link_split_options(const api::GnnJobSpec& spec);

/// Whether a split by these options is kept with the data set.
[[nodiscard]] bool has_split(const graph::Dataset& dataset, const LinkSplitOptions& options);

/// Splits the links of a data set as spec.dataset.split says: as it was split when it was partitioned, if
/// that was by the same options, else anew. The links of each part are the same either way. Negatives are
/// not: they are drawn by the numbers of nodes, which partitioning changes.
/// Errors: those of split_links().
[[nodiscard]] Result<LinkSplit> split_links_of(
    const graph::Dataset& dataset, const api::GnnJobSpec& spec
);

struct CoOccurrenceLimits {
  int64_t num_threads = 1;
  int64_t memory_bytes = std::numeric_limits<int64_t>::max();  ///< for scratch and the result
};

/// Adds the edge type (destination, "to", destination) between destinations of links that share
/// sources, as `options` says, behind all other edge types.
/// Errors: Configuration naming spec.dataset.coOccurrence if the data set has that edge type, the
/// links do not join these node types, or memory has no room for it.
[[nodiscard]] Status add_co_occurrence(
    graph::Dataset& dataset,
    const api::CoOccurrence& options,
    const LinkSplit& split,
    const CoOccurrenceLimits& limits,
    ProgressBar& progress
);

/// The relations that a model of links reads, as a sampler takes them.
struct LinkGraph {
  /// The edge types that LinkModel::reads() names, in that order; all of their edges are visible.
  std::vector<sampling::Relation> relations;
  /// Of each relation: ends[p] cuts it behind the edges of LinkPart p and before; empty for one that
  /// holds no links.
  std::vector<std::vector<at::Tensor>> ends;
  /// Places of the links themselves and of the same links reversed; -1 where the model does not read
  /// them. The same place where links are undirected.
  int64_t forward = -1;
  int64_t backward = -1;
};

/// Errors: those of graph::order_by_part().
[[nodiscard]] Result<LinkGraph> make_link_graph(
    const graph::Dataset& dataset, const std::vector<int64_t>& reads, const LinkSplit& split
);

/// The relations as whoever predicts links of `part` may see them: without the links of that part and
/// of later ones; in training, with those alone that pass messages.
[[nodiscard]] std::vector<sampling::Relation> visible_for(const LinkGraph& graph, api::Part part);

}  // namespace gnn::tasks
