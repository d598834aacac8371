#pragma once

#include "common/progress.h"
#include "common/result.h"
#include "worker/graph/array.h"
#include "worker/graph/dataset_arrays.h"

#include <cstdint>
#include <string_view>

namespace gnn::graph {

/// The data sets whose size, width, number of classes and split a generated one takes over.
enum class Shape { Arxiv, Products, Reddit, FakeDataset };

/// "ogbn-arxiv", "ogbn-products", "reddit", "fake-dataset".
std::string_view shape_name(Shape shape);
/// Errors: Configuration for another name, listing those there are.
Result<Shape> parse_shape(std::string_view name);

struct GenerateOptions {
  Shape shape = Shape::Arxiv;
  double scale = 1.0;  // factor on nodes, edges and split, in (0, 100]
  uint64_t seed = 0;
  double flipped_labels = 0.0;  // fraction f of labels drawn anew from all classes, in [0, 1]
};

/// A graph made from nothing but the options; equal options give equal bits on every machine.
///
/// Arxiv, Products, Reddit: every class is a community. An edge picks its first end among all
/// nodes and its second, for the fraction `kHomophily`, in the same community, otherwise among all;
/// inside a community nodes are picked by a power law (density of degrees ~ degree^-2.5). Self
/// loops and duplicates are left out, every edge has its reverse, and the number of edges is that
/// of the original times `scale`, unless the communities are too small to hold that many. Features
/// are the community's mean, a random sign per column, times `kSignal`, plus unit noise. Labels are
/// the community but for the fraction f: no classifier does better than 1 - f (C - 1) / C.
///
/// FakeDataset: as PyG's FakeDataset(avg_num_nodes=100000): between 75,000 and 125,000 nodes, ten
/// random edges each, made undirected; random labels; features are unit noise plus the label in all
/// 64 columns.
///
/// Errors: Configuration for values out of range; those of `storage`.
Result<DatasetArrays> generate(
    const GenerateOptions& options, ArrayStorage& storage, Progress& progress
);

/// 1 - f (C - 1) / C.
double accuracy_ceiling(double flipped_labels, int64_t num_classes);

inline constexpr double kHomophily = 0.8;
inline constexpr float kSignal = 3.0F;

}  // namespace gnn::graph
