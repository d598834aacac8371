#pragma once

#include "common/result.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace gnn::data {

/// A stream of bytes whose errors say where they occurred.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Reads up to out.size() bytes and returns how many; 0 only at the end.
  /// Errors: Io if reading fails, Data if the stream is damaged or truncated.
  virtual Result<size_t> read(std::span<std::byte> out) = 0;
  /// What is being read, for messages: "raw/edge.csv.gz" or "raw/data.npz(edge_index.npy)".
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// Bytes of the underlying file read so far, and its size, for a progress bar.
  [[nodiscard]] virtual int64_t file_bytes_read() const = 0;
  [[nodiscard]] virtual int64_t file_bytes_total() const = 0;
  /// Bytes left to read, if the container says so; -1 if unknown (gzip).
  [[nodiscard]] virtual int64_t bytes_left() const = 0;

  /// Fills all of `out`.
  /// Errors: those of read(), and Data if the stream ends before that.
  Status read_exactly(std::span<std::byte> out);
};

/// The file's bytes.
/// Errors: NotFound, Io.
Result<std::unique_ptr<ByteSource>> open_file(const std::string& path);
/// The unpacked bytes of a gzip file (any number of members).
/// Errors: NotFound, Io; when read, Data with the offset in the packed file.
Result<std::unique_ptr<ByteSource>> open_gzip(const std::string& path);
/// open_gzip() if `path` ends in ".gz", else open_file().
Result<std::unique_ptr<ByteSource>> open_by_suffix(const std::string& path);
/// Bytes in memory; for tests.
std::unique_ptr<ByteSource> from_memory(std::string name, std::string bytes);
/// The `length` bytes of `path` from `offset` on.
Result<std::unique_ptr<ByteSource>> open_file_range(
    const std::string& path, std::string name, int64_t offset, int64_t length
);
/// Unpacks raw deflate data, which must give exactly `unpacked_bytes`.
std::unique_ptr<ByteSource> inflate_raw(std::unique_ptr<ByteSource> inner, int64_t unpacked_bytes);
/// The bytes of `inner`; fails at their end unless their CRC-32 is `expected`.
std::unique_ptr<ByteSource> check_crc32(std::unique_ptr<ByteSource> inner, uint32_t expected);

/// Errors: Data, naming `file`, if `start`, its first bytes, begin with UTF-8's byte order mark. Some
/// editors write it, and as a part of the first value it can't be seen.
Status check_no_byte_order_mark(std::string_view start, const std::string& file);

/// The lines of a text, without "\n" or "\r\n".
class LineReader {
 public:
  explicit LineReader(std::unique_ptr<ByteSource> source, size_t max_line_bytes = size_t{1} << 26U);

  struct Line {
    std::string_view text;  ///< valid until the next call
    bool at_end = false;    ///< there was no further line
  };
  /// Errors: those of the source, and Data for a line over the limit and for a byte order mark.
  Result<Line> next();

  /// "FILE: line 12": the line returned last, counted from 1.
  [[nodiscard]] std::string where() const;
  [[nodiscard]] const ByteSource& source() const { return *source_; }

 private:
  Result<bool> fill();

  std::unique_ptr<ByteSource> source_;
  size_t max_line_bytes_;
  std::string buffer_;
  size_t begin_ = 0;
  bool ended_ = false;
  int64_t line_number_ = 0;
};

}  // namespace gnn::data
