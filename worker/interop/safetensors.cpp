#include "worker/interop/safetensors.h"

#include "common/printable.h"
#include "worker/data/digest.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <utility>

namespace gnn::interop {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the data lies there as in memory");

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = uint64_t{16} << 20U;
constexpr size_t kMaxDimensions = 64;
constexpr size_t kAlignment = 8;  // of the data, in the file
constexpr const char* kMetadataKey = "__metadata__";
constexpr size_t kMaxNameInMessages = 200;

struct DtypeFacts {
  Dtype dtype;
  std::string_view name;
  int64_t bytes;
};
constexpr std::array kDtypes = {
    DtypeFacts{Dtype::Bool, "BOOL", 1},
    DtypeFacts{Dtype::U8, "U8", 1},
    DtypeFacts{Dtype::I8, "I8", 1},
    DtypeFacts{Dtype::I16, "I16", 2},
    DtypeFacts{Dtype::I32, "I32", 4},
    DtypeFacts{Dtype::I64, "I64", 8},
    DtypeFacts{Dtype::F16, "F16", 2},
    DtypeFacts{Dtype::BF16, "BF16", 2},
    DtypeFacts{Dtype::F32, "F32", 4},
    DtypeFacts{Dtype::F64, "F64", 8},
};

const DtypeFacts& facts_of(Dtype dtype) {
  const auto* const found = std::ranges::find(kDtypes, dtype, &DtypeFacts::dtype);
  GNN_ASSERT(found != kDtypes.end(), "the table has every Dtype");
  return *found;
}

std::optional<Dtype> dtype_of(std::string_view name) {
  const auto* const found = std::ranges::find(kDtypes, name, &DtypeFacts::name);
  return found == kDtypes.end() ? std::nullopt : std::optional(found->dtype);
}

// Nothing if no memory could hold that many.
std::optional<int64_t> checked_bytes_of(const TensorEntry& entry) {
  int64_t bytes = facts_of(entry.dtype).bytes;
  for (const int64_t dimension : entry.shape) {
    if (__builtin_mul_overflow(bytes, dimension, &bytes)) return std::nullopt;
  }
  return bytes;
}

std::string shown(std::string_view name) {
  return printable_line(name, kMaxNameInMessages);
}

tl::unexpected<Error> bad(std::string what) {
  return fail(ErrorKind::Data, std::move(what));
}

// Where a tensor of a header lies in the data.
struct PlacedTensor {
  TensorEntry entry;
  int64_t begin = 0;
  int64_t end = 0;
};

// Reads a header from start to end, without ever holding more of the JSON than the value it is at.
class HeaderParser final : public Json::json_sax_t {
 public:
  // Errors: Data, without the name of the file.
  [[nodiscard]] Status parse(std::string_view text) {
    try {
      if (Json::sax_parse(text.begin(), text.end(), this)) return {};
    } catch (const Json::exception& error) {
      problem_ = printable_line(error.what(), kMaxNameInMessages);
    }
    return bad("header: " + problem_);
  }

  std::vector<PlacedTensor> tensors;
  Metadata metadata;

  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("a boolean"); }
  bool number_integer(number_integer_t) override { return refuse("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return refuse("a number that is no integer, or too large");
  }
  bool binary(binary_t&) override { return refuse("binary data"); }

  bool number_unsigned(number_unsigned_t number) override {
    if (place_ != Place::Shape && place_ != Place::Offsets) return refuse("a number");
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return refuse("a number above 2^63 - 1");
    std::vector<int64_t>& into = place_ == Place::Shape ? tensor_.entry.shape : offsets_;
    if (into.size() == (place_ == Place::Shape ? kMaxDimensions : 2))
      return refuse("a longer list");
    into.push_back(static_cast<int64_t>(number));
    return true;
  }

  bool string(string_t& text) override {
    if (place_ == Place::Metadata) {
      metadata[key_] = std::move(text);
      return true;
    }
    if (place_ != Place::Tensor || key_ != "dtype") return refuse("a text");
    const std::optional<Dtype> dtype = dtype_of(text);
    if (!dtype) return refuse("the dtype " + shown(text));
    tensor_.entry.dtype = *dtype;
    return true;
  }

  bool key(string_t& name) override {
    key_ = std::move(name);
    if (place_ == Place::Header) {
      tensor_ = {};
      tensor_.entry.name = key_;
      fields_.clear();
      offsets_.clear();
      if (!names_.insert(key_).second) return refuse("the key twice");
      return true;
    }
    if (place_ == Place::Metadata) {
      if (metadata.contains(key_)) return refuse("the key " + shown(key_) + " twice");
      return true;
    }
    if (key_ != "dtype" && key_ != "shape" && key_ != "data_offsets")
      return refuse("the key " + shown(key_));
    if (!fields_.insert(key_).second) return refuse("the key " + shown(key_) + " twice");
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::Outside) {
      place_ = Place::Header;
      return true;
    }
    if (place_ != Place::Header) return refuse("an object");
    place_ = tensor_.entry.name == kMetadataKey ? Place::Metadata : Place::Tensor;
    return true;
  }

  bool end_object() override {
    if (place_ == Place::Tensor) {
      if (fields_.size() != 3 || offsets_.size() != 2)
        return refuse("no dtype, no shape or no two data_offsets");
      tensor_.begin = offsets_[0];
      tensor_.end = offsets_[1];
      tensors.push_back(std::move(tensor_));
    }
    place_ = place_ == Place::Header ? Place::Outside : Place::Header;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::Tensor || (key_ != "shape" && key_ != "data_offsets"))
      return refuse("a list");
    place_ = key_ == "shape" ? Place::Shape : Place::Offsets;
    return true;
  }

  bool end_array() override {
    place_ = Place::Tensor;
    return true;
  }

  bool parse_error(size_t, const std::string&, const Json::exception& error) override {
    problem_ = "not valid JSON: " + printable_line(error.what(), kMaxNameInMessages);
    return false;
  }

 private:
  // The object or list that the parser is in: nothing nests deeper than these.
  enum class Place { Outside, Header, Metadata, Tensor, Shape, Offsets };

  bool refuse(const std::string& found) {
    std::string where;
    std::string expected = "an object of tensors";
    if (place_ != Place::Outside) {
      where = tensor_.entry.name == kMetadataKey ? std::string(kMetadataKey) + ": "
                                                 : "tensor " + shown(tensor_.entry.name) + ": ";
      expected = tensor_.entry.name == kMetadataKey
                     ? "an object of texts, each key once"
                     : "an object of dtype, shape and data_offsets, each key once";
    }
    problem_ = where + "expected " + expected + ", found " + found;
    return false;
  }

  Place place_ = Place::Outside;
  std::string key_;      // the last of this object
  PlacedTensor tensor_;  // the present one; its name is the last key of the header
  std::vector<int64_t> offsets_;
  std::set<std::string> fields_;  // of the present tensor
  std::set<std::string> names_;
  std::string problem_ = "not valid JSON";
};

// Errors: Data, without the name of the file.
Status check_places(const std::vector<PlacedTensor>& tensors, int64_t data_bytes) {
  int64_t end = 0;
  for (const PlacedTensor& tensor : tensors) {
    const std::string where = "tensor " + shown(tensor.entry.name) + ": ";
    if (tensor.begin != end || tensor.end < tensor.begin || tensor.end > data_bytes) {
      return bad(
          where + "expected data from offset " + std::to_string(end) + " up to at most " +
          std::to_string(data_bytes) + ", where the file ends, found " +
          std::to_string(tensor.begin) + " to " + std::to_string(tensor.end)
      );
    }
    end = tensor.end;
    const std::optional<int64_t> bytes = checked_bytes_of(tensor.entry);
    if (bytes == tensor.end - tensor.begin) continue;
    return bad(
        where + "expected " + (bytes ? std::to_string(*bytes) : "more than 2^63") +
        " bytes of data for " + describe(tensor.entry) + ", found " +
        std::to_string(tensor.end - tensor.begin)
    );
  }
  if (end == data_bytes) return {};
  return bad(
      "expected the tensors' data to end at offset " + std::to_string(data_bytes) +
      ", where the file ends, found " + std::to_string(end)
  );
}

std::string header_text(const SafetensorsHeader& header) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) json[kMetadataKey] = header.metadata;
  int64_t begin = 0;
  for (const TensorEntry& entry : header.tensors) {
    const int64_t end = begin + bytes_of(entry);
    json[entry.name] = {
        {"dtype", name_of(entry.dtype)}, {"shape", entry.shape}, {"data_offsets", {begin, end}}
    };
    begin = end;
  }
  return json.dump();
}

// What kChecksumKey holds: of what the header says, not of how it is written.
class Checksum {
 public:
  explicit Checksum(SafetensorsHeader header) : digester_(data::DigestKind::Xxh64) {
    header.metadata.erase(kChecksumKey);
    const std::string text = header_text(header);
    add(std::as_bytes(std::span(text)));
  }
  void add(std::span<const std::byte> bytes) { digester_.add(bytes); }
  std::string finish() { return digester_.finish(); }

 private:
  data::Digester digester_;
};

bool is_ours(const Metadata& metadata) {
  return std::ranges::any_of(metadata, [](const auto& entry) {
    return entry.first.starts_with(kOwnKeys);
  });
}

Status check_to_write(const std::vector<TensorBytes>& tensors) {
  std::set<std::string_view> names;
  for (const TensorBytes& tensor : tensors) {
    const TensorEntry& entry = tensor.entry;
    const std::string where = "safetensors: " + shown(entry.name) + ": ";
    if (!names.insert(entry.name).second || entry.name == kMetadataKey)
      return fail(ErrorKind::Internal, where + "expected a name of one tensor");
    const std::optional<int64_t> bytes = checked_bytes_of(entry);
    if (!bytes || *bytes != static_cast<int64_t>(tensor.data.size()))
      return fail(ErrorKind::Internal, where + "expected as many bytes as its shape says");
  }
  return {};
}

std::string little_endian(uint64_t number) {
  std::string text(kLengthBytes, '\0');
  std::memcpy(text.data(), &number, kLengthBytes);
  return text;
}

}  // namespace

std::string_view name_of(Dtype dtype) {
  return facts_of(dtype).name;
}

int64_t bytes_of(const TensorEntry& entry) {
  const std::optional<int64_t> bytes = checked_bytes_of(entry);
  GNN_ASSERT(bytes.has_value(), "a file is never taken whose tensors have more");
  return *bytes;
}

std::string describe(const TensorEntry& entry) {
  std::string text = std::string(name_of(entry.dtype)) + " [";
  for (size_t i = 0; i < entry.shape.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(entry.shape[i]);
  return text + "]";
}

Result<SafetensorsFile> encode_safetensors(std::vector<TensorBytes> tensors, Metadata metadata) {
  GNN_RETURN_IF_ERROR(check_to_write(tensors));
  // Wide elements first, as safetensors' own writer has them: so all are aligned.
  std::ranges::sort(tensors, {}, [](const TensorBytes& tensor) {
    return std::pair(-facts_of(tensor.entry.dtype).bytes, std::string_view(tensor.entry.name));
  });
  SafetensorsHeader header{.tensors = {}, .metadata = std::move(metadata)};
  SafetensorsFile file;
  for (TensorBytes& tensor : tensors) {
    header.tensors.push_back(std::move(tensor.entry));
    file.data.push_back(tensor.data);
  }
  std::string text;
  try {
    Checksum checksum(header);
    for (const std::span<const std::byte> bytes : file.data) checksum.add(bytes);
    header.metadata[kChecksumKey] = checksum.finish();
    text = header_text(header);
  } catch (const Json::exception& error) {
    return fail(
        ErrorKind::Internal,
        "safetensors: expected names in UTF-8: " + printable_line(error.what(), kMaxNameInMessages)
    );
  }
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  if (text.size() > kMaxHeaderBytes)
    return fail(ErrorKind::Internal, "safetensors: expected a header of at most 16 MiB");
  file.head = little_endian(text.size()) + text;
  return file;
}

SafetensorsReader::SafetensorsReader(
    std::unique_ptr<data::ByteSource> source, SafetensorsHeader header
)
    : source_(std::move(source)), header_(std::move(header)) {}

Result<SafetensorsReader> SafetensorsReader::open(std::unique_ptr<data::ByteSource> source) {
  const std::string file = source->name();
  const int64_t file_bytes = source->bytes_left();
  if (file_bytes < static_cast<int64_t>(kLengthBytes))
    return bad(
        file + ": expected a safetensors file, found " + std::to_string(file_bytes) + " bytes"
    );
  std::array<std::byte, kLengthBytes> length_bytes{};
  GNN_RETURN_IF_ERROR(source->read_exactly(length_bytes));
  uint64_t length = 0;
  std::memcpy(&length, length_bytes.data(), kLengthBytes);
  const uint64_t most = std::min(kMaxHeaderBytes, static_cast<uint64_t>(file_bytes) - kLengthBytes);
  if (length > most) {
    return bad(
        file + ": header: expected at most " + std::to_string(most) + " bytes, found " +
        std::to_string(length) + ": no safetensors file, or one that is cut off"
    );
  }
  std::string text(length, '\0');
  GNN_RETURN_IF_ERROR(source->read_exactly(std::as_writable_bytes(std::span(text))));
  if (!text.starts_with('{')) return bad(file + ": header: expected it to start with {");

  HeaderParser parser;
  if (Status parsed = parser.parse(text); !parsed)
    return tl::unexpected(with_context(std::move(parsed).error(), file));
  std::ranges::stable_sort(parser.tensors, {}, [](const PlacedTensor& tensor) {
    return std::pair(tensor.begin, tensor.end);
  });
  if (Status placed = check_places(parser.tensors, source->bytes_left()); !placed)
    return tl::unexpected(with_context(std::move(placed).error(), file));
  SafetensorsHeader header{.tensors = {}, .metadata = std::move(parser.metadata)};
  for (PlacedTensor& tensor : parser.tensors) header.tensors.push_back(std::move(tensor.entry));
  return SafetensorsReader(std::move(source), std::move(header));
}

Status SafetensorsReader::check_tensors(const std::vector<TensorEntry>& expected) const {
  std::map<std::string_view, const TensorEntry*> found;
  for (const TensorEntry& entry : header_.tensors) found.emplace(entry.name, &entry);
  for (const TensorEntry& entry : expected) {
    const std::string where = source_->name() + ": tensor " + shown(entry.name) + ": ";
    const auto own = found.find(entry.name);
    if (own == found.end()) return bad(where + "expected " + describe(entry) + ", found none");
    if (*own->second != entry) {
      return bad(where + "expected " + describe(entry) + ", found " + describe(*own->second));
    }
    found.erase(own);
  }
  if (found.empty()) return {};
  return bad(
      source_->name() + ": tensor " + shown(found.begin()->first) +
      ": the model has none of this name"
  );
}

Status SafetensorsReader::read(
    const std::function<std::span<std::byte>(const TensorEntry& entry)>& place
) {
  Checksum checksum(header_);
  for (const TensorEntry& entry : header_.tensors) {
    const std::span<std::byte> out = place(entry);
    GNN_ASSERT(
        static_cast<int64_t>(out.size()) == checked_bytes_of(entry),
        "the caller has compared the shapes"
    );
    GNN_RETURN_IF_ERROR(source_->read_exactly(out));
    checksum.add(out);
  }
  if (!is_ours(header_.metadata)) return {};
  const auto stated = header_.metadata.find(kChecksumKey);
  const std::string found = checksum.finish();
  if (stated != header_.metadata.end() && stated->second == found) return {};
  return bad(
      source_->name() + ": damaged: expected the checksum " +
      (stated == header_.metadata.end() ? "that its writer adds" : shown(stated->second)) +
      ", found " + (stated == header_.metadata.end() ? "none" : found)
  );
}

}  // namespace gnn::interop
