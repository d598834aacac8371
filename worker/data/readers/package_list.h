#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/data/array.h"
#include "worker/data/io/byte_source.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::data {

/// The fields of a package that name others, in the order in which their counts are recorded.
inline constexpr std::array<std::string_view, 4> kPackageRelations{
    "Pre-Depends", "Depends", "Recommends", "Suggests"
};

/// The fields of a Debian package that readers use; a folded field is one line.
struct Package {
  std::string name;
  std::string section;
  std::string description;  ///< its first line, and the long text if the index has it
  std::string provides;
  std::string tags;
  std::array<std::string, kPackageRelations.size()> relations;
};

struct PackageList {
  std::map<std::string, Package> packages;  ///< by name; of several the first
  int64_t num_duplicates = 0;               ///< paragraphs that were left out
  std::string digest;                       ///< "sha256:…" of the text
};

/// Reads a Debian package index as `apt-cache dumpavail` prints it: a paragraph of "Field: value"
/// lines for each package.
/// Errors: Data, with the line, for a text that is not a package index.
Result<PackageList> read_packages(std::unique_ptr<ByteSource> source, ProgressBar& progress);

/// `text` without blanks at its ends.
std::string_view trim_blanks(std::string_view text);

struct WordFeatures {
  std::string name;            ///< of the array
  int64_t num_features = 512;  ///< columns that words are hashed into, in [1, 65536]
  DType dtype = DType::Float32;
};

/// The words of each text, lower-cased, counted in the column that their hash (XXH64) selects; each
/// row is divided by its sum. Commits an array [number of texts, num_features].
/// Errors: Configuration for the number of columns or the type.
Result<Array> store_word_features(
    std::span<const std::string_view> texts, const WordFeatures& options, ArrayStorage& storage
);

/// The output of `apt-cache dumpavail`, run without a shell.
/// Errors: NotFound without an apt-cache, Io if it fails.
Result<std::string> run_dumpavail();

}  // namespace gnn::data
