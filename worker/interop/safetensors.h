#pragma once

#include "common/result.h"
#include "worker/data/io/byte_source.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Files in the format safetensors: the length of a JSON header (8 bytes, little-endian), the
/// header, and the tensors' bytes, little-endian and in row-major order.
/// Source: https://github.com/huggingface/safetensors, "Format".
namespace gnn::interop {

/// Types of elements; bool takes a byte.
enum class Dtype { Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64 };

/// As in the header: "F32".
[[nodiscard]] std::string_view name_of(Dtype dtype);

struct TensorEntry {
  std::string name;
  Dtype dtype = Dtype::F32;
  std::vector<int64_t> shape;

  friend bool operator==(const TensorEntry&, const TensorEntry&) = default;
};

/// Of the tensor's elements in a file.
/// Precondition: no dimension is negative, and memory could hold that many.
[[nodiscard]] int64_t bytes_of(const TensorEntry& entry);

/// "F32 [3, 5]"
[[nodiscard]] std::string describe(const TensorEntry& entry);

using Metadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  ///< in the order of their bytes
  Metadata metadata;
};

/// Keys of the metadata that start so are ours. A file that has any has kChecksumKey, too.
inline constexpr std::string_view kOwnKeys = "gnn.";
/// The XXH64 of all that the file says: header (without this key) and data.
inline constexpr const char* kChecksumKey = "gnn.checksum";

/// A tensor to be written.
struct TensorBytes {
  TensorEntry entry;
  std::span<const std::byte> data;
};

/// A file, piece by piece.
struct SafetensorsFile {
  std::string head;                              ///< length and header
  std::vector<std::span<const std::byte>> data;  ///< what follows it, in this order
};

/// The same bytes for the same tensors and metadata, in whatever order the tensors come. Adds the
/// checksum to the metadata. Each tensor's bytes are aligned to its element size.
/// Errors: Internal naming the tensor if a name occurs twice or is not UTF-8, or if its bytes are not
/// as many as its shape says.
[[nodiscard]] Result<SafetensorsFile> encode_safetensors(
    std::vector<TensorBytes> tensors, Metadata metadata
);

/// A file that is being read; nothing in it is trusted.
class SafetensorsReader {
 public:
  /// Reads the header, which takes a few times its own length in memory, and at most 16 MiB.
  /// Errors: Data naming the file, and the tensor if it is about one, unless the header is at most
  /// 16 MiB and no longer than the file; is JSON without a key twice, with names of tensors and, for
  /// each, nothing but a known dtype, a shape and data_offsets; the tensors fill the rest of the file
  /// without gap or overlap; and each has as many bytes as its shape and dtype say. Those of `source`.
  [[nodiscard]] static Result<SafetensorsReader> open(std::unique_ptr<data::ByteSource> source);

  [[nodiscard]] const SafetensorsHeader& header() const { return header_; }

  /// Errors: Data naming the file and the first tensor, unless the file has exactly the `expected`
  /// ones, in any order, with their dtypes and shapes.
  [[nodiscard]] Status check_tensors(const std::vector<TensorEntry>& expected) const;

  /// Reads all data, once: the bytes of each tensor to the place that `place` gives, which has
  /// exactly as many.
  /// Errors: Data naming the file if it was changed meanwhile, or was written by us and its checksum
  /// is missing or not that of its contents; then what was read is not to be used.
  [[nodiscard]] Status read(
      const std::function<std::span<std::byte>(const TensorEntry& entry)>& place
  );

 private:
  SafetensorsReader(std::unique_ptr<data::ByteSource> source, SafetensorsHeader header);

  std::unique_ptr<data::ByteSource> source_;
  SafetensorsHeader header_;
};

}  // namespace gnn::interop
