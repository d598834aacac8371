#pragma once

#include "common/guarded.h"
#include "common/result.h"
#include "worker/data/partitions.h"
#include "worker/graph/csc_graph.h"
#include "worker/graph/dataset.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace gnn::shards {

/// How much of a kind of data a node reads itself.
enum class Held {
  Whole,  ///< all of it
  Own,    ///< that of its part's nodes; others are asked for the rest
};

struct PartOptions {
  int64_t part = 0;
  Held topology = Held::Own;
  Held features = Held::Own;
};

/// The in-neighbour lists of some nodes by one edge type.
struct PartLists {
  data::IdRange nodes;  ///< that have a list: row i is that of node nodes.begin + i
  at::Tensor indptr;    ///< int64 [nodes + 1]: positions in `indices`, the first need not be 0
  at::Tensor indices;   ///< int32 or int64: source ids in the whole data set
  at::Tensor edge_ids;  ///< int64, parallel to indices; undefined: an edge's id is its position
  int64_t num_sources = 0;
  /// Whether edge_ids, or positions, are those of the whole data set.
  bool has_edge_ids = true;

  /// Those of a graph that has lists of `nodes`.
  [[nodiscard]] static PartLists of(const graph::CscGraph& graph, const data::IdRange& nodes);
  /// The lists of some of these nodes, as a graph that has no others; without `with_edge_ids` an edge's
  /// id is its position there.
  /// Errors: those of CscGraph::create_unchecked().
  [[nodiscard]] Result<graph::CscGraph> graph_of(const data::IdRange& some, bool with_edge_ids)
      const;
};

/// The rows of some nodes.
struct PartRows {
  data::IdRange nodes;  ///< that have a row
  at::Tensor rows;      ///< [nodes, ...], CPU, contiguous; undefined if the type has none
};

/// What one node reads itself of a partitioned data set, whole or extracted part. Of a whole set
/// nothing else is touched: of mapped files, other parts' pages are not read.
/// Threads: safe from any thread.
class Part {
 public:
  /// Errors: Configuration if the data set has no partitions, or not that part, or does not hold what
  /// the options say.
  [[nodiscard]] static Result<std::shared_ptr<const Part>> create(
      const graph::Dataset& dataset, const PartOptions& options
  );

  [[nodiscard]] int64_t index() const { return options_.part; }
  [[nodiscard]] const PartOptions& options() const { return options_; }
  [[nodiscard]] const data::PartitionBook& book() const { return book_; }
  [[nodiscard]] const std::vector<int64_t>& num_nodes() const { return num_nodes_; }
  /// The nodes of a type that this part owns.
  [[nodiscard]] data::IdRange own(int64_t node_type) const {
    return book_.range_of(static_cast<size_t>(node_type), options_.part);
  }

  [[nodiscard]] const PartLists& lists(int64_t edge_type) const {
    return lists_.at(static_cast<size_t>(edge_type));
  }
  [[nodiscard]] const PartRows& features(int64_t node_type) const {
    return features_.at(static_cast<size_t>(node_type));
  }
  /// PartLists::graph_of() the nodes of a type that this part owns. Its offsets, which are a copy where
  /// the lists begin behind others, are the same for all that ask for it with these lists.
  /// Errors: those of PartLists::graph_of().
  [[nodiscard]] Result<graph::CscGraph> own_graph(
      const PartLists& lists, int64_t node_type, bool with_edge_ids
  ) const;
  /// Whole where the data set has all of them.
  [[nodiscard]] const PartRows& labels(int64_t node_type) const {
    return labels_.at(static_cast<size_t>(node_type));
  }

 private:
  // By the address of the lists' offsets, which keeps them from being another array's.
  struct OwnGraph {
    at::Tensor indptr;
    graph::CscGraph graph;
  };
  using OwnGraphs = std::map<std::pair<const void*, bool>, OwnGraph>;

  Part() = default;

  PartOptions options_;
  data::PartitionBook book_;
  std::vector<int64_t> num_nodes_;
  std::vector<PartLists> lists_;
  std::vector<PartRows> features_;
  std::vector<PartRows> labels_;
  mutable Guarded<OwnGraphs> own_graphs_;
};

}  // namespace gnn::shards
