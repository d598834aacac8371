#pragma once

#include "common/result.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace gnn::graph {

/// A stream of bytes that knows where it is, so that every error can say so.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills as much of `out` as there is; 0 only at the end.
  /// Errors: Io when reading fails, Data when the stream is damaged or cut short.
  virtual Result<size_t> read(std::span<std::byte> out) = 0;
  /// What is being read, for messages: "raw/edge.csv.gz" or "raw/data.npz(edge_index.npy)".
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// Bytes of the underlying file taken so far, and in all: what a progress bar counts.
  [[nodiscard]] virtual int64_t file_bytes_read() const = 0;
  [[nodiscard]] virtual int64_t file_bytes_total() const = 0;
  /// Bytes that a reader may still expect, if the container says so; -1 when unknown (gzip).
  [[nodiscard]] virtual int64_t bytes_left() const = 0;

  /// Fills all of `out`. Errors: also Data when the stream ends before that.
  Status read_exactly(std::span<std::byte> out);
};

/// The whole file as it is. Errors: NotFound, Io.
Result<std::unique_ptr<ByteSource>> open_file(const std::string& path);
/// The unpacked bytes of a gzip file (any number of members). Errors: NotFound, Io; reading
/// reports a damaged or cut stream with the offset in the packed file.
Result<std::unique_ptr<ByteSource>> open_gzip(const std::string& path);
/// open_gzip() if `path` ends in ".gz", else open_file().
Result<std::unique_ptr<ByteSource>> open_by_suffix(const std::string& path);
/// Bytes in memory, copied; for tests and fuzzing.
std::unique_ptr<ByteSource> from_memory(std::string name, std::string bytes);
/// The `length` bytes of `path` from `offset` on.
Result<std::unique_ptr<ByteSource>> open_file_range(
    const std::string& path, std::string name, int64_t offset, int64_t length
);
/// Unpacks raw deflate data of `inner`, which must give exactly `unpacked_bytes`.
std::unique_ptr<ByteSource> inflate_raw(std::unique_ptr<ByteSource> inner, int64_t unpacked_bytes);
/// Passes `inner` through and fails at its end when the CRC-32 of all bytes differs.
std::unique_ptr<ByteSource> check_crc32(std::unique_ptr<ByteSource> inner, uint32_t expected);

/// Lines of a text, without their '\n' or "\r\n".
class LineReader {
 public:
  explicit LineReader(std::unique_ptr<ByteSource> source, size_t max_line_bytes = size_t{1} << 26U);

  struct Line {
    std::string_view text;  // valid until the next call
    bool at_end = false;    // true: there was no further line
  };
  /// Errors: those of the source, and Data for a line over the limit.
  Result<Line> next();

  /// "FILE: line 12", of the line given last; the first is 1.
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

}  // namespace gnn::graph
