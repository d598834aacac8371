#pragma once

#include "worker/data/io/byte_source.h"
#include "worker/data/readers/reader.h"

#include <cstdint>
#include <memory>

namespace gnn::data {

struct PackageTagsOptions {
  int64_t num_features = 512;  ///< columns that words are hashed into
  DType feature_dtype = DType::Float32;
};

/// Makes a bipartite graph of a Debian package index as `apt-cache dumpavail` prints it: packages and
/// the tags that people gave them (debtags), such as "role::program, implemented-in::{c,c++}".
/// - Nodes: the packages with a tag, and the tags, both sorted by name; of several paragraphs for one
///   package the first counts.
/// - Links: (package, has, tag), in the order of package and tag, without duplicates.
/// - Features: of packages the words of the description, as read_package_index() hashes them.
/// Origin::facts records the SHA-256 of the index and the numbers of packages.
/// Errors: Data, with the line, for a text that is not a package index; with the package, for a tag
/// of another form.
Result<DatasetArrays> read_package_tags(
    std::unique_ptr<ByteSource> index,
    const PackageTagsOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
);

}  // namespace gnn::data
