#pragma once

#include "common/result.h"
#include "worker/graph/io/byte_source.h"
#include "worker/graph/io/npy.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::graph {

/// A zip file of .npy members, as numpy.savez (stored) and savez_compressed (deflate) write it,
/// zip64 included.
class NpzArchive {
 public:
  struct Member {
    std::string name;     // without ".npy"
    uint16_t method = 0;  // 0 stored, 8 deflate
    uint32_t crc32 = 0;
    int64_t packed_bytes = 0;
    int64_t unpacked_bytes = 0;
    int64_t header_offset = 0;
  };

  /// Reads the central directory and checks every offset and length in it against the size of the
  /// file. Errors: NotFound, Io, Data with file and offset.
  static Result<NpzArchive> open(std::string path);

  [[nodiscard]] const std::vector<Member>& members() const { return members_; }
  [[nodiscard]] bool contains(std::string_view name) const;

  /// A stream over the member's unpacked bytes whose CRC-32 is checked at its end.
  /// Errors: NotFound naming the members there are; Data for a damaged local header, encryption
  /// or another method of compression.
  [[nodiscard]] Result<std::unique_ptr<ByteSource>> open_member(std::string_view name) const;
  [[nodiscard]] Result<NpyReader> open_array(std::string_view name) const;

 private:
  NpzArchive(std::string path, std::vector<Member> members);

  std::string path_;
  std::vector<Member> members_;
};

}  // namespace gnn::graph
