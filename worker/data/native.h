#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/data/array.h"
#include "worker/data/dataset_arrays.h"
#include "worker/data/mapped_file.h"
#include "worker/data/memory_plan.h"
#include "worker/data/output_lock.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gnn::data {

/// The on-disk form: a directory of .npy files with page-aligned elements, and a manifest.yaml with
/// their names, types and digests. See docs/data.md. Version 1, which has one feature matrix a node
/// type and no links, is still read.
inline constexpr int kNativeVersion = 2;
inline constexpr int kOldestNativeVersion = 1;
inline constexpr const char* kManifestFile = "manifest.yaml";
/// Begins the names of arrays that only a run that resumes an interrupted one needs.
inline constexpr const char* kWorkPrefix = "work.";

/// An array of the on-disk form, as the manifest describes it.
struct ManifestArray {
  std::string name;
  std::string file;
  DType dtype = DType::Float32;
  std::vector<int64_t> shape;
  int64_t file_bytes = 0;
  std::string digest;  ///< of the whole file, "xxh64:…"
};

struct NativeDataset {
  DatasetArrays arrays;
  std::vector<ManifestArray> files;
  std::string key;              ///< of inputs and options: equal keys mean equal contents
  std::string manifest_digest;  ///< "xxh64:…" of the manifest
  /// "sha256:…" of the manifest's digest and the version of each mapped file: changes with any write
  /// to them. Other copies of the same data have another one.
  std::string version;
  std::vector<Mapping> mappings;  ///< of the files, in no particular order
};

/// Maps a published data set. Checks the files against everything in the manifest except the
/// digests.
/// Errors: NotFound without a manifest; Data with file and field where a file does not match;
/// Configuration for an unknown version.
Result<NativeDataset> open_native(const std::string& directory);

/// The identity of the data: equal digests mean the same data, wherever it came from. Of an extracted
/// part, that of the whole data set.
std::string digest_of(const NativeDataset& native);

/// Reads every file and compares its digest with the manifest's.
/// Errors: Data naming the damaged file.
Status verify_digests(
    const std::string& directory, const NativeDataset& dataset, ProgressBar& progress
);

/// Writes the on-disk form. It is built in "<output>.partial", which an interrupted run leaves
/// behind with a journal of the completed arrays. Opening it again resumes if the key is the same,
/// otherwise starts over.
class NativeWriter final : public ArrayStorage {
 public:
  using ArrayStorage::commit;

  /// `key` identifies the inputs and options.
  /// Errors: Conflict while another process writes the same output, on whatever machine; Io.
  static Result<std::unique_ptr<NativeWriter>> open(
      const std::string& output, const std::string& key, const MemoryPlan& memory = {}
  );
  ~NativeWriter() override = default;
  NativeWriter(const NativeWriter&) = delete;
  NativeWriter& operator=(const NativeWriter&) = delete;

  Result<Array> create(std::string name, DType dtype, std::vector<int64_t> shape) override;
  Result<Array> scratch(DType dtype, std::vector<int64_t> shape) override;
  Result<Array> commit(Array array, int64_t length) override;
  Result<Array> find(const std::string& name) override;
  [[nodiscard]] int64_t memory_bytes() const override;
  Result<MemoryHold> hold(int64_t bytes, const std::string& what) override;

  /// Number of arrays that an earlier run completed.
  [[nodiscard]] int64_t num_resumed() const { return num_resumed_; }

  /// Removes what is there of the output, for a writer that is not needed after all.
  void discard();

  /// Writes the manifest, removes working arrays (kWorkPrefix) and renames the directory to `output` in
  /// one step. All arrays of `dataset` must have been committed here.
  /// Errors: Conflict if `output` exists, unless `replace`.
  Status publish(const DatasetArrays& dataset, bool replace);

  /// A folder for what is published instead of the arrays, not created yet.
  [[nodiscard]] std::string other_form() const { return path_of("other"); }
  /// Renames other_form() to `output` in one step and removes the arrays.
  /// Errors: as publish().
  Status publish_other_form(bool replace);

 private:
  NativeWriter(std::string output, std::string key, OutputLock lock, const MemoryPlan& memory);
  Status load_journal();
  Status move_to_output(const std::string& folder, bool replace);
  [[nodiscard]] std::string path_of(const std::string& file) const { return partial_ + "/" + file; }

  std::string output_;
  std::string partial_;
  std::string key_;
  OutputLock lock_;
  std::vector<ManifestArray> whole_;
  MemoryPlan memory_;
  // Bytes of memory in use, which arrays and holds may outlive: of scratch arrays, and held.
  std::shared_ptr<std::atomic<int64_t>> scratch_bytes_ = std::make_shared<std::atomic<int64_t>>(0);
  std::shared_ptr<std::atomic<int64_t>> held_bytes_ = std::make_shared<std::atomic<int64_t>>(0);
  int64_t num_resumed_ = 0;
};

/// Whether a data set can be published to `output` without replacing anything: nothing is there, or an
/// empty folder, such as a sub-folder of a mounted volume.
[[nodiscard]] bool is_vacant(const std::string& output);

/// Whether something that a data set was published to may be there, and nothing else: a folder of a
/// native data set, even a damaged one, or of generated OGB files; or a link.
[[nodiscard]] bool is_replaceable(const std::string& output);

/// The key of the published data set, or "" if `directory` holds none.
std::string published_key(const std::string& directory);

}  // namespace gnn::data
