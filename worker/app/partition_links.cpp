#include "worker/app/partition_links.h"

#include "worker/data/memory_plan.h"
#include "worker/data/number_text.h"
#include "worker/partition/order.h"
#include "worker/partition/seeds.h"
#include "worker/tasks/link_graph.h"
#include "worker/tasks/link_split.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace gnn::app {
namespace {

// Commits `values`, unless an earlier run has committed them as `array`.
Status keep(
    const char* name, const at::Tensor& values, data::ArrayStorage& storage, data::Array& array
) {
  if (array.defined()) return {};
  GNN_ASSIGN_OR_RETURN(array, storage.create(name, data::DType::Int64, values.sizes().vec()));
  const at::Tensor whole = values.contiguous();
  if (array.num_bytes() > 0) {
    std::memcpy(
        array.mutable_bytes(), whole.const_data_ptr(), static_cast<size_t>(array.num_bytes())
    );
  }
  GNN_ASSIGN_OR_RETURN(array, storage.commit(std::move(array)));
  return {};
}

// Memory to give the negatives of a split, which is held, the new ids of their nodes.
int64_t renumbering_bytes(const graph::Dataset& original, const data::LinkSplitOptions& options) {
  constexpr int64_t kBytesPerLink = sizeof(int64_t) + 1;
  constexpr int64_t kBytesPerNegative = 2 * sizeof(int64_t);
  const int64_t links = original.links->pairs.size(0);
  const data::LinkSplitCounts counts = data::count_links(options, links);
  int64_t bytes = links * kBytesPerLink +
                  (counts.validation_negatives + counts.test_negatives) * kBytesPerNegative;
  for (const graph::NodeTypeData& type : original.node_types) {
    bytes += type.num_nodes * static_cast<int64_t>(sizeof(int64_t));
  }
  return bytes;
}

// Gives pairs of nodes their new ids.
class Renumbering {
 public:
  explicit Renumbering(const data::DatasetArrays& parts)
      : ids_(partition::new_ids_of(*parts.partitions)) {
    const data::LinkTable& links = *parts.links;
    const data::EdgeTable& table = parts.edge_tables[links.edge_table];
    source_ = partition::node_table_index(parts, table.source);
    destination_ = partition::node_table_index(parts, table.destination);
    is_undirected_ = links.reverse_edge_table == links.edge_table;
  }

  void apply_to(const at::Tensor& pairs) const {
    auto* const ends = pairs.mutable_data_ptr<int64_t>();
    for (int64_t i = 0; i < pairs.numel(); i += 2) {
      ends[i] = ids_[source_][static_cast<size_t>(ends[i])];
      ends[i + 1] = ids_[destination_][static_cast<size_t>(ends[i + 1])];
      if (is_undirected_ && ends[i] > ends[i + 1]) std::swap(ends[i], ends[i + 1]);
    }
  }

 private:
  std::vector<std::vector<int64_t>> ids_;
  size_t source_ = 0;
  size_t destination_ = 0;
  bool is_undirected_ = false;
};

}  // namespace

Status check_link_split(
    const graph::Dataset& original,
    const data::LinkSplitOptions& options,
    const data::ArrayStorage& storage
) {
  if (!original.links) {
    return fail(
        ErrorKind::Configuration,
        "--validation, --test: " + original.name +
            " has no links to split; import it with --link, or leave the options out"
    );
  }
  for (const double share : {options.validation, options.test, options.disjoint_train}) {
    if (data::is_share(share)) continue;
    return fail(
        ErrorKind::Configuration,
        "--validation, --test, --disjoint-train: expected shares from 0 to 1, found " +
            data::number_text(share)
    );
  }
  if (!data::is_negative_ratio(options.negative_ratio)) {
    return fail(
        ErrorKind::Configuration,
        "--negative-ratio: expected 0 to " + data::number_text(data::kMostNegativesOfLink) +
            ", found " + data::number_text(options.negative_ratio)
    );
  }
  // The manifest has no others.
  if (options.seed > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return fail(
        ErrorKind::Configuration,
        "--split-seed: expected less than 2^63, found " + std::to_string(options.seed)
    );
  }
  GNN_RETURN_IF_ERROR(tasks::check_link_split(original.links->pairs.size(0), options));
  const int64_t need = std::max(
      tasks::split_links_bytes(tasks::links_of(original), options),
      renumbering_bytes(original, options)
  );
  if (need <= storage.memory_bytes()) return {};
  return fail(
      ErrorKind::Configuration,
      "--memory: splitting " + std::to_string(original.links->pairs.size(0)) + " links takes " +
          data::bytes_text(need) + ", more than the " + data::bytes_text(storage.memory_bytes()) +
          " that a step may take; allow more"
  );
}

Status keep_link_split(
    data::DatasetArrays& parts,
    const graph::Dataset& original,
    const data::LinkSplitOptions& options,
    data::ArrayStorage& storage,
    ProgressBar& progress
) {
  data::StoredLinkSplit kept{.options = options};
  GNN_ASSIGN_OR_RETURN(kept.order, storage.find(data::kLinkOrderName));
  GNN_ASSIGN_OR_RETURN(kept.validation_negatives, storage.find(data::kValidationNegativesName));
  GNN_ASSIGN_OR_RETURN(kept.test_negatives, storage.find(data::kTestNegativesName));
  if (!kept.order.defined() || !kept.validation_negatives.defined() ||
      !kept.test_negatives.defined()) {
    progress.begin("splitting links", 1, "split");
    const auto split = tasks::split_links(tasks::links_of(original), options);
    if (!split) return tl::make_unexpected(with_context(split.error(), original.name));
    const Renumbering renumbering(parts);
    renumbering.apply_to(split->validation_negatives);
    renumbering.apply_to(split->test_negatives);
    GNN_RETURN_IF_ERROR(keep(data::kLinkOrderName, split->order, storage, kept.order));
    GNN_RETURN_IF_ERROR(keep(
        data::kValidationNegativesName,
        split->validation_negatives,
        storage,
        kept.validation_negatives
    ));
    GNN_RETURN_IF_ERROR(
        keep(data::kTestNegativesName, split->test_negatives, storage, kept.test_negatives)
    );
    progress.end();
  }
  parts.partitions->link_split = std::move(kept);
  parts.origin.options += data::text_of_split(options);
  return {};
}

}  // namespace gnn::app
