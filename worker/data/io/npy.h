#pragma once

#include "common/result.h"
#include "worker/data/array.h"
#include "worker/data/io/byte_source.h"

#include <cstdint>
#include <string>
#include <vector>

namespace gnn::data {

/// The header of a .npy file.
struct NpyHeader {
  DType dtype = DType::Float32;
  bool fortran_order = false;
  std::vector<int64_t> shape;
  int64_t data_offset = 0;  ///< bytes from the start of the file to the first element

  [[nodiscard]] int64_t num_elements() const;
};

/// Reads the header of versions 1, 2 and 3 and leaves `source` at the first element.
/// Errors: Data with file and offset for anything but a plain little-endian array: wrong magic,
/// another version or byte order, a structured or object type, a negative or overflowing shape, a
/// header over 64 KiB, or more elements than the container has bytes left.
Result<NpyHeader> read_npy_header(ByteSource& source);

/// The one string of a .npy file whose elements are strings, which NpyReader does not read. Characters
/// that are not printable ASCII become '?'.
/// Errors: those of read_npy_header(); Data for more than one string, or over 256 characters.
Result<std::string> read_npy_string(ByteSource& source);

/// The header for `dtype` and `shape`, padded so that the elements of a mapped file are
/// page-aligned.
Result<std::string> make_npy_header(DType dtype, const std::vector<int64_t>& shape);

/// Reads the elements of a .npy stream in file order and converts them.
class NpyReader {
 public:
  /// Reads the header.
  /// Errors: those of read_npy_header().
  static Result<NpyReader> open(std::unique_ptr<ByteSource> source);

  [[nodiscard]] const NpyHeader& header() const { return header_; }
  [[nodiscard]] const std::string& name() const { return source_->name(); }
  [[nodiscard]] const ByteSource& source() const { return *source_; }

  /// The next out.size() elements as int64. Floating-point elements must be whole numbers; a
  /// NaN becomes *nan_value unless that is null.
  /// Errors: Data with the element's offset.
  Status read_integers(std::span<int64_t> out, const int64_t* nan_value = nullptr);
  /// The next out.size() elements as float32.
  /// Errors: Data for NaN or infinity, with the element's offset.
  Status read_floats(std::span<float> out);
  /// Fails unless the elements are the last bytes of the stream.
  Status finish();

 private:
  NpyReader(std::unique_ptr<ByteSource> source, NpyHeader header);
  Status read_raw(size_t count);
  [[nodiscard]] std::string where(size_t index_in_chunk) const;

  std::unique_ptr<ByteSource> source_;
  NpyHeader header_;
  int64_t elements_read_ = 0;
  std::vector<std::byte> raw_;
};

}  // namespace gnn::data
