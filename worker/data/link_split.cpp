#include "worker/data/link_split.h"

#include "worker/data/dataset_arrays.h"
#include "worker/data/number_text.h"

#include <cstddef>
#include <vector>

namespace gnn::data {
namespace {

tl::unexpected<Error> wrong_split(std::string_view where, const std::string& what) {
  return fail(ErrorKind::Data, std::string(where) + ": partitions: linkSplit: " + what);
}

int64_t nodes_of(const DatasetArrays& dataset, const std::string& type) {
  const NodeTable* const table = find_node_table(dataset, type);
  GNN_ASSERT(table != nullptr, "edge types join node types of the data set");
  return table->num_nodes;
}

Status check_shape(
    const Array& array, const std::vector<int64_t>& expected, std::string_view where
) {
  if (array.defined() && array.shape() == expected) return {};
  return wrong_split(
      where,
      "expected " + array.name() + " of shape " + shape_text(expected) + ", found " +
          (array.defined() ? shape_text(array.shape()) : "none")
  );
}

Status check_pairs(
    const Array& pairs, int64_t num_sources, int64_t num_destinations, std::string_view where
) {
  const auto ends = pairs.view<int64_t>();
  for (size_t i = 0; i < ends.size(); ++i) {
    const int64_t nodes = i % 2 == 0 ? num_sources : num_destinations;
    if (ends[i] >= 0 && ends[i] < nodes) continue;
    return wrong_split(
        where,
        pairs.name() + "[" + std::to_string(i / 2) + "]: expected a node in [0, " +
            std::to_string(nodes) + "), found " + std::to_string(ends[i])
    );
  }
  return {};
}

}  // namespace

std::string describe(const LinkSplitOptions& options) {
  return "seed=" + std::to_string(options.seed) +
         ", validation=" + number_text(options.validation) + ", test=" + number_text(options.test) +
         ", disjointTrain=" + number_text(options.disjoint_train) +
         ", negativeRatio=" + number_text(options.negative_ratio);
}

std::string text_of_split(const LinkSplitOptions& options) {
  return ", linkSplit=(" + describe(options) + ")";
}

LinkSplitCounts count_links(const LinkSplitOptions& options, int64_t links) {
  LinkSplitCounts counts;
  counts.validation = share_of(options.validation, links);
  counts.test = share_of(options.test, links);
  counts.train = links - counts.validation - counts.test;
  counts.supervision = share_of(options.disjoint_train, counts.train);
  counts.validation_negatives = share_of(options.negative_ratio, counts.validation);
  counts.test_negatives = share_of(options.negative_ratio, counts.test);
  return counts;
}

Status check_link_split_form(const DatasetArrays& dataset, std::string_view where) {
  if (!dataset.partitions || !dataset.partitions->link_split) return {};
  const StoredLinkSplit& split = *dataset.partitions->link_split;
  const LinkSplitOptions& options = split.options;
  if (!dataset.links) return wrong_split(where, "expected a data set with links");
  if (!is_share(options.validation) || !is_share(options.test) ||
      !is_share(options.disjoint_train)) {
    return wrong_split(where, "expected shares from 0 to 1, found " + describe(options));
  }
  if (!is_negative_ratio(options.negative_ratio)) {
    return wrong_split(
        where,
        "expected a negativeRatio from 0 to " + number_text(kMostNegativesOfLink) + ", found " +
            number_text(options.negative_ratio)
    );
  }
  const int64_t links = dataset.links->pairs.size(0);
  const LinkSplitCounts counts = count_links(options, links);
  if (counts.train <= 0 || counts.supervision >= counts.train) {
    return wrong_split(where, describe(options) + " leave no link to train on");
  }
  GNN_RETURN_IF_ERROR(check_shape(split.order, {links}, where));
  GNN_RETURN_IF_ERROR(
      check_shape(split.validation_negatives, {counts.validation_negatives, 2}, where)
  );
  return check_shape(split.test_negatives, {counts.test_negatives, 2}, where);
}

Status check_link_split(const DatasetArrays& dataset, std::string_view where) {
  if (!dataset.partitions || !dataset.partitions->link_split) return {};
  const StoredLinkSplit& split = *dataset.partitions->link_split;
  const auto order = split.order.view<int64_t>();
  std::vector<bool> taken(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const bool in_range = order[i] >= 0 && order[i] < static_cast<int64_t>(order.size());
    if (in_range && !taken[static_cast<size_t>(order[i])]) {
      taken[static_cast<size_t>(order[i])] = true;
      continue;
    }
    return wrong_split(
        where,
        split.order.name() + "[" + std::to_string(i) + "]: expected links in [0, " +
            std::to_string(order.size()) + "), each once, found " + std::to_string(order[i]) +
            (in_range ? " again" : "")
    );
  }
  const EdgeTable& table = dataset.edge_tables[dataset.links->edge_table];
  const int64_t sources = nodes_of(dataset, table.source);
  const int64_t destinations = nodes_of(dataset, table.destination);
  GNN_RETURN_IF_ERROR(check_pairs(split.validation_negatives, sources, destinations, where));
  return check_pairs(split.test_negatives, sources, destinations, where);
}

}  // namespace gnn::data
