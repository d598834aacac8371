#pragma once

#include "common/progress.h"
#include "common/result.h"
#include "worker/graph/array.h"
#include "worker/graph/dataset_arrays.h"
#include "worker/graph/mapped_file.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gnn::graph {

/// The on-disk form: a directory of .npy files, elements page-aligned, and a manifest.yaml that
/// names, types and digests them. docs/data.md describes it.
inline constexpr int kNativeVersion = 1;
inline constexpr const char* kManifestFile = "manifest.yaml";

/// One array of the on-disk form as the manifest describes it.
struct ManifestArray {
  std::string name;
  std::string file;
  DType dtype = DType::Float32;
  std::vector<int64_t> shape;
  int64_t file_bytes = 0;
  std::string digest;  // of the whole file, "xxh64:…"
};

struct NativeDataset {
  DatasetArrays arrays;
  std::vector<ManifestArray> files;
  std::string key;              // names inputs and options: equal keys, equal contents
  std::string manifest_digest;  // "xxh64:…" of the manifest
};

/// Maps a published data set. Everything the manifest says is checked against the files but their
/// digests. Errors: NotFound without a manifest; Data with file and field for what doesn't fit;
/// Configuration for a version this program doesn't know.
Result<NativeDataset> open_native(const std::string& directory, const MapOptions& options);

/// Reads every file again and compares its digest with the manifest's. Errors: Data naming the
/// damaged file.
Status verify_digests(
    const std::string& directory, const NativeDataset& dataset, Progress& progress
);

/// Writes the on-disk form. Work goes to "<output>.partial", which an interrupted run leaves behind
/// with a journal of what is whole; opening it again with the same key goes on from there, another
/// key starts anew.
class NativeWriter final : public ArrayStorage {
 public:
  using ArrayStorage::commit;

  /// `key` names the inputs and options. Errors: Conflict when another process writes the same
  /// output; Io.
  static Result<std::unique_ptr<NativeWriter>> open(
      const std::string& output, const std::string& key
  );
  ~NativeWriter() override;
  NativeWriter(const NativeWriter&) = delete;
  NativeWriter& operator=(const NativeWriter&) = delete;

  Result<Array> create(std::string name, DType dtype, std::vector<int64_t> shape) override;
  Result<Array> scratch(DType dtype, std::vector<int64_t> shape) override;
  Result<Array> commit(Array array, int64_t length) override;
  Result<Array> find(const std::string& name) override;

  /// Number of arrays that an earlier run had left whole.
  [[nodiscard]] int64_t num_resumed() const { return num_resumed_; }

  /// Writes the manifest and renames the directory to `output` in one step. All arrays of `dataset`
  /// must have been committed here. `replace`: an existing output is exchanged, otherwise it is
  /// Conflict.
  Status publish(const DatasetArrays& dataset, bool replace);

 private:
  NativeWriter(std::string output, std::string key, int lock);
  Status load_journal();
  [[nodiscard]] std::string path_of(const std::string& file) const { return partial_ + "/" + file; }

  std::string output_;
  std::string partial_;
  std::string key_;
  int lock_;
  std::vector<ManifestArray> whole_;
  int64_t num_resumed_ = 0;
};

/// The key of a published data set, or "" when `directory` holds none.
std::string published_key(const std::string& directory);

}  // namespace gnn::graph
