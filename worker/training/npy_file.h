#pragma once

#include "common/result.h"
#include "worker/checkpoint/file_ops.h"
#include "worker/data/array.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace gnn::training {

/// A .npy file that is being written, under a temporary name beside its own. Unless it was published,
/// nothing is left of it.
/// Errors: Io with the path, e.g. a full disk.
class NpyFile {
 public:
  /// Takes the room of the whole file at once.
  [[nodiscard]] static Result<NpyFile> create(
      std::shared_ptr<checkpoint::FileOps> files,
      std::filesystem::path path,
      data::DType dtype,
      const std::vector<int64_t>& shape
  );
  NpyFile(NpyFile&& other) noexcept;
  NpyFile& operator=(NpyFile&&) = delete;
  ~NpyFile();

  /// The next elements.
  [[nodiscard]] Status append(std::span<const std::byte> elements);
  /// Syncs the file, which is whole.
  [[nodiscard]] Status finish();
  /// Gives it its own name, after finish(). The caller syncs the folder.
  [[nodiscard]] Status publish();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  NpyFile(std::shared_ptr<checkpoint::FileOps> files, std::filesystem::path path, int64_t bytes)
      : files_(std::move(files)), path_(std::move(path)), left_(bytes) {}

  [[nodiscard]] Status write(std::span<const std::byte> bytes);

  std::shared_ptr<checkpoint::FileOps> files_;
  std::filesystem::path path_;
  int64_t left_ = 0;  // bytes to come
  int file_ = -1;
  bool exists_ = false;  // under the temporary name
};

}  // namespace gnn::training
