#pragma once

#include "common/result.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace gnn::training {

/// The system calls that checkpoints are made of, each of which may fail: the real ones, or a
/// test's simulated disk that fails, writes short or stops at any of them. Errors: Io with the
/// path and the system's reason; NotFound where the name is not there.
class FileOps {
 public:
  virtual ~FileOps() = default;
  /// Creates `path` empty, or empties it, and opens it for writing.
  [[nodiscard]] virtual Result<int> create(const std::filesystem::path& path) = 0;
  /// Writes at most `size` bytes at the end of the file; like write(2) it may write fewer, at least
  /// one.
  [[nodiscard]] virtual Result<size_t> write(int file, const void* data, size_t size) = 0;
  [[nodiscard]] virtual Status sync(int file) = 0;
  [[nodiscard]] virtual Status close(int file) = 0;
  /// Replaces `to` at once, as rename(2).
  [[nodiscard]] virtual Status rename(
      const std::filesystem::path& from, const std::filesystem::path& to
  ) = 0;
  /// Makes renames and removals in the directory durable.
  [[nodiscard]] virtual Status sync_directory(const std::filesystem::path& path) = 0;
  /// Makes one directory; one that is there already is fine.
  [[nodiscard]] virtual Status make_directory(const std::filesystem::path& path) = 0;
  [[nodiscard]] virtual Status remove_file(const std::filesystem::path& path) = 0;
  /// Removes a directory that is empty.
  [[nodiscard]] virtual Status remove_directory(const std::filesystem::path& path) = 0;
  /// Names (not paths) of the entries, in ascending order.
  [[nodiscard]] virtual Result<std::vector<std::string>> list(const std::filesystem::path& directory
  ) = 0;
  /// The whole file; `max_bytes` bounds what is read: a larger file is Data.
  [[nodiscard]] virtual Result<std::string> read(
      const std::filesystem::path& path, int64_t max_bytes
  ) = 0;
};

/// The real calls; EINTR is retried.
class PosixFileOps final : public FileOps {
 public:
  [[nodiscard]] Result<int> create(const std::filesystem::path& path) override;
  [[nodiscard]] Result<size_t> write(int file, const void* data, size_t size) override;
  [[nodiscard]] Status sync(int file) override;
  [[nodiscard]] Status close(int file) override;
  [[nodiscard]] Status rename(const std::filesystem::path& from, const std::filesystem::path& to)
      override;
  [[nodiscard]] Status sync_directory(const std::filesystem::path& path) override;
  [[nodiscard]] Status make_directory(const std::filesystem::path& path) override;
  [[nodiscard]] Status remove_file(const std::filesystem::path& path) override;
  [[nodiscard]] Status remove_directory(const std::filesystem::path& path) override;
  [[nodiscard]] Result<std::vector<std::string>> list(const std::filesystem::path& directory
  ) override;
  [[nodiscard]] Result<std::string> read(const std::filesystem::path& path, int64_t max_bytes)
      override;
};

}  // namespace gnn::training
