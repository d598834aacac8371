#pragma once

#include "common/result.h"
#include "worker/data/array.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gnn::data {

/// Writes a .npz archive of stored members of any size (zip64), element after element.
class NpzWriter {
 public:
  /// Errors: Io, also if the file exists.
  static Result<NpzWriter> create(const std::string& path);
  NpzWriter(NpzWriter&&) noexcept;
  NpzWriter& operator=(NpzWriter&&) noexcept;
  ~NpzWriter();

  /// Begins the array `name`. The one before must be complete (GNN_ASSERT).
  /// Errors: Io.
  Status begin(const std::string& name, DType dtype, const std::vector<int64_t>& shape);
  /// The next elements, in row-major order.
  /// Errors: Io.
  Status write(std::span<const std::byte> elements);
  template <class T>
  Status write(std::span<const T> elements) {
    return write(std::as_bytes(elements));
  }
  /// Writes the directory and syncs the file to the disk. Without it, the file is no archive.
  /// Errors: Io.
  Status finish();

 private:
  class Output;
  struct Member {
    std::string name;
    int64_t offset = 0;  // of its header
    int64_t bytes = 0;
    int64_t bytes_left = 0;
    uint32_t crc32 = 0;
  };

  explicit NpzWriter(std::unique_ptr<Output> output);
  Status end_member();

  std::unique_ptr<Output> output_;
  std::vector<Member> members_;
};

}  // namespace gnn::data
