#pragma once

#include "common/result.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace gnn::checkpoint {

/// The system calls that checkpoints need: the real ones, or those of a simulated disk that fails,
/// writes short or stops at any of them.
/// Errors: Io with the path and the system's reason; NotFound if the name does not exist.
class FileOps {
 public:
  virtual ~FileOps() = default;
  /// Opens `path` for writing, created or emptied.
  [[nodiscard]] virtual Result<int> create(const std::filesystem::path& path) = 0;
  /// Appends at most `size` bytes; like write(2) it may write fewer, but at least one.
  [[nodiscard]] virtual Result<size_t> write(int file, const void* data, size_t size) = 0;
  /// Takes the room of a file that will have `size` bytes, so that writes up to there find the disk not
  /// full. A file system that can't do so beforehand gives no error.
  [[nodiscard]] virtual Status reserve(int /*file*/, int64_t /*size*/) { return {}; }
  [[nodiscard]] virtual Status sync(int file) = 0;
  [[nodiscard]] virtual Status close(int file) = 0;
  /// Replaces `to` atomically, as rename(2) does.
  [[nodiscard]] virtual Status rename(
      const std::filesystem::path& from, const std::filesystem::path& to
  ) = 0;
  /// Makes renames and removals in the directory durable.
  [[nodiscard]] virtual Status sync_directory(const std::filesystem::path& path) = 0;
  /// Makes one directory; it may exist already.
  [[nodiscard]] virtual Status make_directory(const std::filesystem::path& path) = 0;
  [[nodiscard]] virtual Status remove_file(const std::filesystem::path& path) = 0;
  /// Removes a directory that is empty.
  [[nodiscard]] virtual Status remove_directory(const std::filesystem::path& path) = 0;
  /// Names (not paths) of the entries, in ascending order.
  [[nodiscard]] virtual Result<std::vector<std::string>> list(const std::filesystem::path& directory
  ) = 0;
  /// The whole file.
  /// Errors: Data if it is larger than `max_bytes`.
  [[nodiscard]] virtual Result<std::string> read(
      const std::filesystem::path& path, int64_t max_bytes
  ) = 0;
};

/// The real calls; EINTR is retried.
class PosixFileOps final : public FileOps {
 public:
  [[nodiscard]] Result<int> create(const std::filesystem::path& path) override;
  [[nodiscard]] Result<size_t> write(int file, const void* data, size_t size) override;
  [[nodiscard]] Status reserve(int file, int64_t size) override;
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

}  // namespace gnn::checkpoint
