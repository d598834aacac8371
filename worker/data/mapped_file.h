#pragma once

#include "common/result.h"

#include <cstdint>
#include <memory>
#include <string>

namespace gnn::data {

/// A file's bytes in memory, unmapped when the last copy goes.
struct Mapping {
  std::shared_ptr<void> address;
  int64_t bytes = 0;
  /// Device, inode, size and the times of the last changes to contents and status (nanoseconds), as
  /// they were when the file was opened: equal versions are the same file, unchanged.
  std::string version;
};

struct MapOptions {
  /// Asks the kernel to read the file ahead in the background.
  bool will_need = false;
  /// Asks for huge pages, where the file system has them; a hint.
  bool huge_pages = true;
};

/// Maps the whole file read-only and shared: all processes of a machine use one copy.
/// Errors: NotFound, Io, Data for an empty file.
Result<Mapping> map_file(const std::string& path, const MapOptions& options);

/// Creates `path`, reserves `bytes` of disk space (so that a full disk is an error here, not a
/// signal later) and maps it for writing.
Result<Mapping> create_mapped_file(const std::string& path, int64_t bytes);

/// Truncates the file and syncs it to the disk.
Status truncate_and_sync(const std::string& path, int64_t bytes);
Status sync_directory(const std::string& path);
/// Creates the file with this content and syncs it to the disk.
/// Errors: Io, also if the file exists.
Status write_and_sync(const std::string& path, const std::string& content);

}  // namespace gnn::data
