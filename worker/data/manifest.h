#pragma once

#include "common/result.h"
#include "worker/data/native.h"

#include <string>
#include <vector>

namespace gnn::data {

/// The text of the manifest of a data set whose arrays are in `files`. The last line is the digest
/// of all lines before it.
Result<std::string> encode_manifest(
    const DatasetArrays& dataset, const std::vector<ManifestArray>& files, const std::string& key
);

/// A manifest that has been read. The arrays of `dataset` have their names but no data yet.
struct Manifest {
  std::string key;
  std::string digest;
  std::vector<ManifestArray> files;
  DatasetArrays dataset;
};
/// Errors: NotFound; Data with file, line and field; Configuration for another version.
Result<Manifest> read_manifest(const std::string& path);
Result<Manifest> parse_manifest(const std::string& text, const std::string& where);

/// The journal of a run: the key, then an entry for each completed array. A crash cannot corrupt
/// it: read_journal() ignores an unfinished last entry.
std::string journal_head(const std::string& key);
Status append_journal(const std::string& path, const ManifestArray& entry);
/// Also removes an unfinished last entry from the file.
/// Errors: NotFound; Conflict if the journal has another key; Io.
Result<std::vector<ManifestArray>> read_journal(const std::string& path, const std::string& key);

}  // namespace gnn::data
