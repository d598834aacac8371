#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/tasks/data_description.h"
#include "worker/tasks/link_batches.h"
#include "worker/tasks/task.h"

#include <cstdint>
#include <string>
#include <vector>

namespace gnn::tasks {

/// Loads the data set of a job that predicts links and splits it, with the edge types that are made of
/// the training links. Collective.
/// Errors: those of load_dataset(), split_links() and add_co_occurrence().
[[nodiscard]] Result<SplitDataset> open_link_data(
    const api::GnnJobSpec& spec, TaskContext& context
);

/// "taobao: 10 nodes of type user, ..., 20 training, 3 validation and 3 test links". Of
/// a partitioned data set it has the number of partitions, and none of edges.
[[nodiscard]] std::string describe(const SplitDataset& data);

[[nodiscard]] uint64_t split_seed_of(const api::GnnJobSpec& spec);

/// What a model of links reads of each node type.
struct LinkWidths {
  std::vector<int64_t> of_inputs;  ///< columns
  /// As LinkInputs::tables: BipartiteSAGE trains embeddings, GraphSAGE reads features.
  std::vector<int64_t> tables;
};

/// Errors: Data if a type has no features and the model reads them.
[[nodiscard]] Result<LinkWidths> link_widths_of(
    const DataDescription& data, const api::Model& model
);

}  // namespace gnn::tasks
