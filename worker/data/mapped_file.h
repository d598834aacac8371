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

/// How a mapped file will be read.
enum class Access {
  Kept,     ///< in any order, and all of it stays in memory
  InOrder,  ///< from its begin to its end, and little of it stays in memory
  AnyOrder  ///< in any order, and little of it stays in memory
};

/// Maps the whole file read-only and shared: all processes of a machine use one copy.
/// Errors: NotFound, Io, Data for an empty file.
Result<Mapping> map_file(const std::string& path);

/// Tells the kernel how the mapping will be read from now on, so that it reads a fitting number of
/// pages where one is missing: for Kept some megabytes, for AnyOrder that page alone. A hint.
void advise(const Mapping& mapping, Access access);

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
