#pragma once

#include "common/result.h"
#include "worker/graph/native.h"

#include <string>
#include <vector>

namespace gnn::graph {

/// The manifest's text for a data set whose arrays lie in `files`. Its last line is the digest of
/// all before it.
Result<std::string> encode_manifest(
    const DatasetArrays& dataset, const std::vector<ManifestArray>& files, const std::string& key
);

/// A manifest as read: `arrays` has names, counts and origin, and its Arrays carry their names in
/// the manifest but no data yet.
struct Manifest {
  std::string key;
  std::string digest;
  std::vector<ManifestArray> files;
  DatasetArrays dataset;
};
/// Errors: NotFound; Data with file, line and field; Configuration for another version.
Result<Manifest> read_manifest(const std::string& path);
Result<Manifest> parse_manifest(const std::string& text, const std::string& where);

/// The journal of a run: the key, then one entry for each array that is whole. Appending is atomic
/// in that read_journal() ignores a cut last entry.
std::string journal_head(const std::string& key);
Status append_journal(const std::string& path, const ManifestArray& entry);
/// Cuts a last entry that was never finished off the file.
/// Errors: NotFound; Conflict when it is another key's; Io.
Result<std::vector<ManifestArray>> read_journal(const std::string& path, const std::string& key);

}  // namespace gnn::graph
