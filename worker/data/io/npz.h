#pragma once

#include "common/result.h"
#include "worker/data/io/byte_source.h"
#include "worker/data/io/npy.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::data {

/// A zip file of .npy members, as numpy.savez (stored) and savez_compressed (deflate) write it,
/// zip64 included.
class NpzArchive {
 public:
  struct Member {
    std::string name;     ///< without ".npy"
    uint16_t method = 0;  ///< 0 stored, 8 deflate
    uint32_t crc32 = 0;
    int64_t packed_bytes = 0;
    int64_t unpacked_bytes = 0;
    int64_t header_offset = 0;
  };

  /// Reads the central directory and checks its offsets and lengths against the file's size.
  /// Errors: NotFound, Io, Data with file and offset.
  static Result<NpzArchive> open(std::string path);

  [[nodiscard]] const std::vector<Member>& members() const { return members_; }
  [[nodiscard]] bool contains(std::string_view name) const;

  /// A stream over the member's unpacked bytes whose CRC-32 is checked at its end.
  /// Errors: NotFound, listing the members; Data for a damaged local header, encryption or another
  /// compression method.
  [[nodiscard]] Result<std::unique_ptr<ByteSource>> open_member(std::string_view name) const;
  [[nodiscard]] Result<NpyReader> open_array(std::string_view name) const;

 private:
  NpzArchive(std::string path, std::vector<Member> members);

  std::string path_;
  std::vector<Member> members_;
};

}  // namespace gnn::data
