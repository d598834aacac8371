#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/data/array.h"
#include "worker/data/dataset_arrays.h"

#include <cstdint>
#include <string_view>

namespace gnn::data {

/// The data set whose size, feature width, number of classes and split the generated one copies.
enum class Shape { Arxiv, Products, Reddit, FakeDataset, Taobao, Papers100M };

/// "ogbn-arxiv", "ogbn-products", "reddit", "fake-dataset", "taobao", "ogbn-papers100M".
std::string_view shape_name(Shape shape);
/// Errors: Configuration for another name, listing the known ones.
Result<Shape> parse_shape(std::string_view name);

struct GenerateOptions {
  Shape shape = Shape::Arxiv;
  double scale = 1.0;  ///< of nodes, edges and split, in (0, 100]
  uint64_t seed = 0;
  /// Fraction f of labels redrawn from all classes, in [0, 1]; 0 for Taobao, which has none.
  double flipped_labels = 0.0;
  DType feature_dtype = DType::Float32;  ///< or Float16
};

/// Generates a graph. Equal options give equal bits on every machine.
///
/// Arxiv, Products, Reddit: every class is a community.
/// - Edges: the first end is any node; the second is in the same community with probability
///   kHomophily, otherwise any node. Within a community nodes are picked by a power law (density of
///   degrees ~ degree^-2.5). There are no self-loops and no duplicates, and every edge has its
///   reverse. The number of edges is the original's times `scale`, or less where the communities
///   are too small for it.
/// - Features: the community's mean (a random sign per column, times kSignal) plus unit noise.
/// - Labels: the community, except for the fraction f. No classifier does better than
///   1 - f (C - 1) / C.
///
/// FakeDataset, as PyG's FakeDataset(avg_num_nodes=100000): 75,000 to 125,000 nodes with ten random
/// edges each, made undirected; random labels; features are unit noise plus the label in all 64
/// columns.
///
/// Papers100M, as the first three, but edges are directed and may occur several times, and only the
/// nodes of the split, 1.4 % of all, have a label. It takes no memory for nodes.
///
/// Taobao: links from users to items, without features. See PlantedLinks.
///
/// Errors: Configuration for values out of range, or more nodes than the storage has memory for; those
/// of `storage`.
Result<DatasetArrays> generate(
    const GenerateOptions& options, ArrayStorage& storage, ProgressBar& progress
);

/// The best accuracy that a classifier can reach: 1 - f (C - 1) / C.
double accuracy_ceiling(double flipped_labels, int64_t num_classes);

inline constexpr double kHomophily = 0.8;
inline constexpr float kSignal = 3.0F;

}  // namespace gnn::data
