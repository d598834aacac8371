#pragma once

#include "worker/graph/io/byte_source.h"
#include "worker/graph/readers/reader.h"

#include <cstdint>
#include <memory>
#include <string>

namespace gnn::graph {

struct PackageIndexOptions {
  int64_t num_features = 512;  // columns that words are hashed to
  double train = 0.6;          // fractions of the random split; the rest is for testing
  double validation = 0.2;
  uint32_t seed = 0;  // of the split
  bool to_undirected = false;
  DType feature_dtype = DType::Float32;
};

/// Makes a graph of a Debian package index as `apt-cache dumpavail` prints it: a paragraph of
/// "Field: value" for each package.
/// - Nodes: packages, in the order of their names; of several paragraphs for one name the first
/// counts.
/// - Edges: from a package to what its Pre-Depends, Depends, Recommends and Suggests name. Every
/// alternative
///   counts; a name that is no package stands for all packages that Provide it; names that nobody
///   provides are left out, and duplicates merged.
/// - Features: words of the description (its first line, and the long text where the index has it),
/// lower-cased,
///   counted in the column their hash picks, each row divided by its sum. Neither the section, nor
///   tags, file name or package name go in: they would give the label away.
/// - Label: the section without its area ("contrib/net" is net), classes in the order of their
/// names; packages
///   without one have none.
/// Origin::facts record the SHA-256 of the index, the counts of edges by kind and what was left
/// out. Errors: Data for a text that is no index, with its line.
Result<DatasetArrays> read_package_index(
    std::unique_ptr<ByteSource> index,
    const PackageIndexOptions& options,
    ArrayStorage& storage,
    Progress& progress
);

/// The output of `apt-cache dumpavail`, run without a shell. Errors: NotFound when there is no
/// apt-cache, Io when it fails.
Result<std::string> run_dumpavail();

}  // namespace gnn::graph
