#pragma once

#include "worker/data/array.h"
#include "worker/data/partitions.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gnn::data {

/// A file that a data set was made from.
struct InputFile {
  std::string path;
  int64_t bytes = 0;
  std::string digest;
};

/// How a data set came to be.
struct Origin {
  /// "OGB", "TU", "GIN", "EdgeList", "Reddit", "Taobao", "PackageIndex", "PackageTags" or "Synthetic"
  std::string source;
  std::string path;     ///< the input; empty for generated data
  std::string options;  ///< the options that shaped it, one line
  std::vector<InputFile> inputs;
  /// Name and value of what the reader found out.
  std::vector<std::pair<std::string, std::string>> facts;
};

/// The name of a node type's main feature matrix where its source has no other.
inline constexpr const char* kMainFeatures = "features";

/// A feature matrix that a node type has beside its main one.
struct NamedFeatures {
  std::string name;  ///< another than those of the type's other matrices
  Array rows;        ///< [num_nodes, width]
};

struct NodeTable {
  std::string name;
  int64_t num_nodes = 0;
  Array features;  ///< the main matrix: [num_nodes, width] or undefined
  Array labels;    ///< int64 [num_nodes] or undefined
  std::string features_name = kMainFeatures;
  std::vector<NamedFeatures> more_features{};  ///< empty where `features` is undefined
};

struct EdgeTable {
  std::string source;
  std::string relation;
  std::string destination;
  Array indptr;    ///< int64 [num_nodes of destination + 1]
  Array indices;   ///< int32 or int64 [E]
  Array edge_ids;  ///< int64 [E] or undefined
  Array features;  ///< [number of edge ids, width] or undefined
};

/// Names an edge type of a data set.
struct EdgeTypeName {
  std::string source;
  std::string relation;
  std::string destination;

  friend bool operator==(const EdgeTypeName&, const EdgeTypeName&) = default;
};

/// "(user, to, item)"
std::string text_of(const EdgeTypeName& name);
/// "edges.user.to.item": begins the names of an edge type's arrays.
std::string array_prefix(const EdgeTypeName& name);
EdgeTypeName name_of(const EdgeTable& table);

/// The edge type whose edges are to be predicted. Its edges have the ids 0 to E - 1.
struct LinkTable {
  size_t edge_table = 0;  ///< index in DatasetArrays::edge_tables
  /// The edge type of the same edges, with the same ids, from destination to source. `edge_table`
  /// itself if that is undirected: each edge is in it twice, once from either end.
  std::optional<size_t> reverse_edge_table{};
  /// int64 [E, 2]: source and destination of each edge, by edge id. Of undirected edges the smaller
  /// id comes first.
  Array pairs{};
};

/// A data set as plain arrays: what readers and generators make, what the on-disk form holds and
/// what a graph::Dataset is made of, which checks it.
struct DatasetArrays {
  std::string name;
  std::vector<NodeTable> node_tables;
  std::vector<EdgeTable> edge_tables;
  std::string target_node_type;
  int64_t num_classes = 0;               ///< 0 without labels
  std::vector<std::string> class_names;  ///< empty, or one for each class
  Array train;  ///< int64 ids, as validation and test; all three undefined without a split
  Array validation;
  Array test;
  Array graph_offsets;  ///< int64 [G + 1], with graph_labels int64 [G]: graph classification
  Array graph_labels;
  std::optional<LinkTable> links;  ///< set where links are to be predicted
  /// Set where nodes are dealt to parts. In an extracted part (Partitions::only) the arrays of nodes
  /// and lists have elements of its nodes alone.
  std::optional<Partitions> partitions;
  /// The files of arrays, by the arrays' names: at least those of labels and split that were read
  /// from files. For messages.
  std::map<std::string, std::string> read_from;
  Origin origin;
};

/// The index of an edge type, or nothing.
std::optional<size_t> find_edge_table(const DatasetArrays& dataset, const EdgeTypeName& name);
/// The node type of that name, or nullptr.
const NodeTable* find_node_table(const DatasetArrays& dataset, const std::string& name);

}  // namespace gnn::data
