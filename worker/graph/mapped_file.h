#pragma once

#include "common/result.h"

#include <cstdint>
#include <memory>
#include <string>

namespace gnn::graph {

/// Bytes of a file in memory, unmapped with the last copy.
struct Mapping {
  std::shared_ptr<void> address;
  int64_t bytes = 0;
};

struct MapOptions {
  /// Read the file ahead in the background.
  bool will_need = false;
  /// Ask for huge pages, where the file system has them. Only a hint.
  bool huge_pages = true;
};

/// Maps the whole file read-only and shared: all processes of a machine use the same memory.
/// Errors: NotFound, Io, Data for an empty file.
Result<Mapping> map_file(const std::string& path, const MapOptions& options);

/// Creates `path` with `bytes` bytes of disk space reserved (a full disk shows here, not as a
/// signal later) and maps it for writing.
Result<Mapping> create_mapped_file(const std::string& path, int64_t bytes);

/// Cuts the file, writes it to the disk.
Status truncate_and_sync(const std::string& path, int64_t bytes);
Status sync_directory(const std::string& path);
/// Creates the file with that content and writes it to the disk. Errors: also Io when it exists.
Status write_and_sync(const std::string& path, const std::string& content);

}  // namespace gnn::graph
