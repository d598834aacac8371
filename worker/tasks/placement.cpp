#include "worker/tasks/placement.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gnn::tasks {
namespace {

// What a node has found wrong with its data; no text: nothing.
struct Problem {
  ErrorKind kind = ErrorKind::Data;
  std::string text = {};
};

Problem problem_of(const api::Placement& placement, const graph::Dataset& dataset, int64_t node) {
  const std::string expected = "expected " + std::to_string(placement.partitions) +
                               " partitions (spec.placement.partitions), as gnn-worker data "
                               "partition writes them, found ";
  if (!dataset.partitions) return {ErrorKind::Configuration, expected + "data without partitions"};
  const graph::PartitionData& partitions = *dataset.partitions;
  if (partitions.book.parts != placement.partitions)
    return {ErrorKind::Configuration, expected + std::to_string(partitions.book.parts)};
  if (!partitions.only) return {};
  const int64_t mine = node % placement.partitions;
  const std::string found = ", found partition " + std::to_string(*partitions.only) + " alone";
  if (*partitions.only != mine) {
    return {
        ErrorKind::Data,
        "expected partition " + std::to_string(mine) + " or the whole data set" + found
    };
  }
  const bool needs_all = placement.topology == api::PlacementMode::Replicated ||
                         placement.features == api::PlacementMode::Replicated;
  if (!needs_all) return {};
  return {
      ErrorKind::Configuration,
      "expected the whole data set, since topology or features of spec.placement are Replicated" +
          found
  };
}

// One value for each node, of its first rank.
std::vector<std::string> first_of_nodes(
    const std::vector<std::string>& of_ranks, int64_t ranks_per_node
) {
  std::vector<std::string> of_nodes;
  for (size_t rank = 0; rank < of_ranks.size(); rank += static_cast<size_t>(ranks_per_node))
    of_nodes.push_back(of_ranks[rank]);
  return of_nodes;
}

}  // namespace

Status check_placement(
    const api::GnnJobSpec& spec,
    const graph::Dataset& dataset,
    const comm::RankGroups& groups,
    std::optional<int64_t> server
) {
  if (!spec.placement) return {};
  const std::string path = "spec.dataset.path " + spec.dataset.path.value_or("");
  const int64_t ranks_per_node = groups.node->world_size();
  const Problem mine =
      problem_of(*spec.placement, dataset, server.value_or(groups.all->rank() / ranks_per_node));
  const bool configuration = mine.kind == ErrorKind::Configuration;
  GNN_ASSIGN_OR_RETURN(
      const auto problems,
      comm::all_gather_bytes(
          *groups.all, mine.text.empty() ? "" : (configuration ? "C" : "D") + mine.text
      )
  );
  for (size_t rank = 0; rank < problems.size(); ++rank) {
    if (problems[rank].empty()) continue;
    return fail(
        problems[rank].front() == 'C' ? ErrorKind::Configuration : ErrorKind::Data,
        path + (server ? ", server " : ", node ") +
            std::to_string(server.value_or(static_cast<int64_t>(rank) / ranks_per_node)) + ": " +
            problems[rank].substr(1)
    );
  }
  GNN_ASSIGN_OR_RETURN(const auto digests, comm::all_gather_bytes(*groups.all, dataset.digest));
  const std::string differences =
      comm::describe_differences(first_of_nodes(digests, ranks_per_node), "node");
  if (differences.empty()) return {};
  return fail(
      ErrorKind::Data,
      path + ": expected partitions of one data set on all nodes, found the digest " + differences
  );
}

}  // namespace gnn::tasks
