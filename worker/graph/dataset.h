#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/data/partitions.h"
#include "worker/graph/csc_graph.h"
#include "worker/graph/feature_store.h"
#include "worker/graph/share.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::graph {

/// A feature matrix that a node type has beside its main one.
struct NamedFeatures {
  std::string name;
  FeatureStore rows;
};

/// A node type and its data.
struct NodeTypeData {
  std::string name;  ///< "node" in a homogeneous data set
  int64_t num_nodes = 0;
  std::optional<FeatureStore> features;        ///< one row per node held
  at::Tensor labels;                           ///< int64 [nodes held], or undefined; -1 = no label
  std::string features_name{};                 ///< of `features`, as the data set calls it
  std::vector<NamedFeatures> more_features{};  ///< of one row per node held each
};

/// An edge type: edges from nodes of `source` to nodes of `destination`.
struct EdgeTypeData {
  std::string source;             ///< name of a node type
  std::string relation;           ///< "to" in a homogeneous data set
  std::string destination;        ///< name of a node type
  int64_t source_index = 0;       ///< index of `source` in Dataset::node_types
  int64_t destination_index = 0;  ///< index of `destination` in Dataset::node_types
  CscGraph graph;
  std::optional<FeatureStore> features;  ///< one row per edge id, if the data set has them
};

/// "(user, buys, item)"
[[nodiscard]] std::string text_of(const EdgeTypeData& type);

/// Ids of the items to train, validate and test on: nodes of the target type, or graphs.
struct DataSplit {
  at::Tensor train;       ///< int64 [T]
  at::Tensor validation;  ///< int64 [V], may be empty
  at::Tensor test;        ///< int64 [S], may be empty
};

/// Many small graphs as one block-diagonal graph: graph g owns the nodes
/// [node_offsets[g], node_offsets[g + 1]) of node type 0, and no edge joins two graphs.
struct GraphCollection {
  at::Tensor node_offsets;  ///< int64 [num_graphs + 1]
  at::Tensor labels;        ///< int64 [num_graphs], in [0, num_classes)

  [[nodiscard]] int64_t num_graphs() const { return labels.size(0); }
};

/// The edge type whose edges are to be predicted.
struct LinkData {
  int64_t edge_type = 0;  ///< index in Dataset::edge_types
  /// The edge type of the same edges, with the same ids, from destination to source. `edge_type`
  /// itself if that is undirected: each edge is in it twice, once from either end.
  std::optional<int64_t> reverse_edge_type{};
  /// int64 [E, 2]: source and destination of each edge, by edge id: 0 to E - 1. Of undirected edges
  /// the smaller id comes first.
  at::Tensor pairs{};
};

/// What the batches of one part read of one node type (see data::HotRows).
struct HotRowsData {
  at::Tensor ids;          ///< int64 [H] of other parts, hottest first; undefined if not kept
  at::Tensor hotness;      ///< float64 [H]
  double local_reads = 0;  ///< expected rows of a batch that the part owns
  double remote_reads = 0;
};

/// A split of the links that was kept with the parts (see data::StoredLinkSplit).
struct LinkSplitData {
  data::LinkSplitOptions options;
  at::Tensor order;                 ///< int64 [E]
  at::Tensor validation_negatives;  ///< int64 [V, 2]
  at::Tensor test_negatives;        ///< int64 [S, 2]
};

/// How the nodes of a data set are dealt to parts (see data::Partitions).
struct PartitionData {
  data::PartitionBook book;
  std::optional<int64_t> only;                ///< the part that an extracted part holds
  std::vector<at::Tensor> original_ids;       ///< by node type: int64 [nodes held]
  std::vector<std::vector<HotRowsData>> hot;  ///< by node type and part
  std::optional<LinkSplitData> link_split{};
};

/// A checked data set, ready to be sampled and trained on. Homogeneous graphs have one node type
/// and one edge type. Cheap to copy: tensors share storage.
/// Threads: safe to read from any thread.
struct Dataset {
  std::string name;
  std::vector<NodeTypeData> node_types;
  std::vector<EdgeTypeData> edge_types;
  int64_t target_node_type = 0;  ///< the type whose nodes are classified
  int64_t num_classes = 0;
  DataSplit split;
  std::optional<GraphCollection> graphs;    ///< set for graph classification only
  std::optional<LinkData> links;            ///< set where links are to be predicted
  std::optional<PartitionData> partitions;  ///< set where nodes are dealt to parts
  /// Of what was read or generated, before transforms: a native set's is made of its arrays' digests.
  /// An extracted part has that of the whole data set, so that all parts have the same.
  /// "xxh64:…", or empty if nothing was read.
  std::string digest;
  /// data::NativeDataset::version of the files whose contents were found right; empty if they changed
  /// meanwhile, or if the data set is not one of mapped files as they are.
  std::string checked_version;

  [[nodiscard]] bool is_homogeneous() const {
    return node_types.size() == 1 && edge_types.size() == 1;
  }
  [[nodiscard]] const NodeTypeData& target() const {
    return node_types[static_cast<size_t>(target_node_type)];
  }
  /// The nodes of a type whose lists, feature rows and labels are here, of which row i is that of node
  /// held().begin + i: all nodes, except in an extracted part.
  [[nodiscard]] data::IdRange held(int64_t node_type) const;
  /// Which of these rows are those of the nodes of `part`, if it is given and the data set has it; else
  /// all.
  [[nodiscard]] data::IdRange rows_of(int64_t node_type, std::optional<int64_t> part) const;
  /// The graph of a homogeneous data set (GNN_ASSERT).
  [[nodiscard]] const CscGraph& graph() const;
  /// The features of a homogeneous data set that has some (GNN_ASSERT).
  [[nodiscard]] const FeatureStore& features() const;
};

/// Which part of a partitioned data set a process reads, and so has to check; by default it reads all.
struct PartCheck {
  std::optional<int64_t> lists{};     ///< the part whose nodes' lists alone it reads
  std::optional<int64_t> features{};  ///< the part whose nodes' feature rows alone it reads
};

/// Checks what costs no pass over features or edges, and returns the first problem: sizes agree
/// across types, no type is there twice, there is at least one node, the offsets of graphs ascend, and
/// links are as many as the edges of their types. Labels and split are
/// data::check_items()'s. `where` names the data set in messages.
/// Errors: Data.
Status check_form(const Dataset& dataset, std::string_view where);

/// Checks the part `share` of every feature matrix and graph, and returns the first problem:
/// - features are finite;
/// - neighbour lists are what CscGraph promises;
/// - the edges of a collection of graphs stay within their graph;
/// - links and their edge types have the same edges by the same ids.
/// What `part` excludes is not touched. The data set must have passed check_form().
/// Errors: Data.
Status check_contents(
    const Dataset& dataset,
    std::string_view where,
    Share share,
    ProgressBar& progress,
    const PartCheck& part = {}
);

/// check_form(), then check_contents() of all shares.
Status check_dataset(const Dataset& dataset, std::string_view where);

}  // namespace gnn::graph
