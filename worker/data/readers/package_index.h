#pragma once

#include "worker/data/io/byte_source.h"
#include "worker/data/readers/reader.h"

#include <cstdint>
#include <memory>
#include <string>

namespace gnn::data {

struct PackageIndexOptions {
  int64_t num_features = 512;  ///< columns that words are hashed into
  double train = 0.6;          ///< fraction of the random split; the test part is the rest
  double validation = 0.2;
  uint32_t seed = 0;  ///< of the split
  bool to_undirected = false;
  DType feature_dtype = DType::Float32;
};

/// Makes a graph of a Debian package index as `apt-cache dumpavail` prints it: a paragraph of
/// "Field: value" lines per package.
/// - Nodes: packages, sorted by name; of several paragraphs for one name the first counts.
/// - Edges: from a package to those named in its Pre-Depends, Depends, Recommends and Suggests,
///   including all alternatives. A virtual package stands for all packages that provide it; names
///   that no package provides are left out. Duplicates are merged.
/// - Features: words of the description (its first line, and the long text if the index has it),
///   lower-cased, counted in the column that their hash selects; each row is divided by its sum.
///   Section, tags, file name and package name are left out: they would reveal the label.
/// - Label: the section without its area ("contrib/net" is net), classes sorted by name; packages
///   without a section have no label.
/// Origin::facts records the SHA-256 of the index, the counts of edges by kind and what was left
/// out.
/// Errors: Data, with the line, for a text that is not a package index.
Result<DatasetArrays> read_package_index(
    std::unique_ptr<ByteSource> index,
    const PackageIndexOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
);

}  // namespace gnn::data
