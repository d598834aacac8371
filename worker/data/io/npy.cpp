#include "worker/data/io/npy.h"

#include "common/bfloat16.h"
#include "worker/data/half.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <type_traits>

namespace gnn::data {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kMaxHeaderBytes = size_t{1} << 16U;
constexpr size_t kMaxStringLength = 256;
constexpr size_t kPageBytes = 4096;
constexpr size_t kChunkElements = size_t{1} << 16U;

struct Descr {
  std::string_view text;
  DType dtype;
};
// '<' is little-endian, '|' has no byte order; NumPy never writes '=' (native). NumPy has no
// bfloat16: ml_dtypes writes it as two opaque bytes.
constexpr std::array<Descr, 13> kDescrs{{
    {"|b1", DType::Bool},
    {"|u1", DType::UInt8},
    {"|i1", DType::Int8},
    {"<i2", DType::Int16},
    {"<u2", DType::UInt16},
    {"<i4", DType::Int32},
    {"<u4", DType::UInt32},
    {"<i8", DType::Int64},
    {"<u8", DType::UInt64},
    {"<f2", DType::Float16},
    {"<V2", DType::BFloat16},
    {"<f4", DType::Float32},
    {"<f8", DType::Float64},
}};

// What stands before the elements of a .npy file.
struct Preamble {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
  int64_t data_offset = 0;
};

// The Python dict literal {'descr': …, 'fortran_order': …, 'shape': (…)}; keys in any order,
// nothing else.
class DictParser {
 public:
  DictParser(std::string_view text, std::string where) : text_(text), where_(std::move(where)) {}

  Result<Preamble> parse() {
    Preamble header;
    bool has_descr = false;
    bool has_order = false;
    bool has_shape = false;
    GNN_RETURN_IF_ERROR(expect('{'));
    while (!accept('}')) {
      GNN_ASSIGN_OR_RETURN(const std::string_view key, string());
      GNN_RETURN_IF_ERROR(expect(':'));
      if (key == "descr" && !has_descr) {
        has_descr = true;
        GNN_ASSIGN_OR_RETURN(header.descr, descr());
      } else if (key == "fortran_order" && !has_order) {
        has_order = true;
        GNN_ASSIGN_OR_RETURN(header.fortran_order, boolean());
      } else if (key == "shape" && !has_shape) {
        has_shape = true;
        GNN_ASSIGN_OR_RETURN(header.shape, shape());
      } else {
        return error("unexpected key '" + std::string(key) + "'");
      }
      if (!accept(',')) {
        GNN_RETURN_IF_ERROR(expect('}'));
        break;
      }
    }
    skip_blanks();
    if (at_ != text_.size()) {
      return error("text after the dictionary");
    }
    if (!has_descr || !has_order || !has_shape) {
      return error("expected the keys descr, fortran_order and shape");
    }
    return header;
  }

 private:
  tl::unexpected<Error> error(const std::string& what) const {
    return fail(
        ErrorKind::Data, where_ + ": header: " + what + " (character " + std::to_string(at_) + ")"
    );
  }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  bool accept(char wanted) {
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == wanted) {
      ++at_;
      return true;
    }
    return false;
  }
  Status expect(char wanted) {
    if (!accept(wanted)) {
      return error(std::string("expected '") + wanted + "'");
    }
    return {};
  }
  Result<std::string_view> string() {
    skip_blanks();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') {
      return error("expected a string");
    }
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) {
      return error("unterminated string");
    }
    const std::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return value;
  }
  Result<std::string> descr() {
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == '[') {
      return error("structured element types are not supported");
    }
    GNN_ASSIGN_OR_RETURN(const std::string_view value, string());
    return std::string(value);
  }
  Result<bool> boolean() {
    skip_blanks();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    return error("expected True or False");
  }
  Result<std::vector<int64_t>> shape() {
    std::vector<int64_t> sizes;
    GNN_RETURN_IF_ERROR(expect('('));
    while (!accept(')')) {
      skip_blanks();
      int64_t value = 0;
      const auto [end, code] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
      if (code != std::errc() || value < 0) {
        return error("expected a size that is not negative");
      }
      at_ = static_cast<size_t>(end - text_.data());
      if (at_ < text_.size() && text_[at_] == 'L') {  // Python 2 wrote long integers so
        ++at_;
      }
      sizes.push_back(value);
      if (sizes.size() > 8) {
        return error("more than 8 dimensions");
      }
      if (!accept(',')) {
        GNN_RETURN_IF_ERROR(expect(')'));
        break;
      }
    }
    return sizes;
  }

  std::string_view text_;
  std::string where_;
  size_t at_ = 0;
};

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

Result<Preamble> read_preamble(ByteSource& source) {
  std::array<std::byte, 12> start{};
  GNN_RETURN_IF_ERROR(source.read_exactly(std::span(start).first(10)));
  if (std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0) {
    return fail(ErrorKind::Data, source.name() + ": offset 0: expected a .npy file (\\x93NUMPY)");
  }
  const int version = std::to_integer<int>(start[6]);
  size_t length = load<uint16_t>(start.data() + 8);
  size_t offset = 10;
  if (version == 2 || version == 3) {
    GNN_RETURN_IF_ERROR(source.read_exactly(std::span(start).subspan(10, 2)));
    length = load<uint32_t>(start.data() + 8);
    offset = 12;
  } else if (version != 1) {
    return fail(
        ErrorKind::Data,
        source.name() + ": offset 6: expected .npy version 1, 2 or 3, found " +
            std::to_string(version)
    );
  }
  const int64_t left = source.bytes_left();
  if (length > kMaxHeaderBytes || (left >= 0 && static_cast<int64_t>(length) > left)) {
    return fail(
        ErrorKind::Data,
        source.name() + ": offset 8: header length " + std::to_string(length) +
            " exceeds the file or 64 KiB"
    );
  }
  std::string text(length, '\0');
  GNN_RETURN_IF_ERROR(source.read_exactly(std::as_writable_bytes(std::span(text))));
  DictParser parser(text, source.name() + ": offset " + std::to_string(offset));
  GNN_ASSIGN_OR_RETURN(Preamble preamble, parser.parse());
  preamble.data_offset = static_cast<int64_t>(offset + length);
  return preamble;
}

Result<DType> dtype_of(std::string_view descr, const std::string& where) {
  if (descr.starts_with('>')) {
    return fail(
        ErrorKind::Data,
        where + ": header: big-endian elements ('" + std::string(descr) +
            "') are not supported, save them as little-endian"
    );
  }
  for (const Descr& known : kDescrs) {
    // One-byte types carry any byte order, as old writers do.
    if (descr == known.text ||
        (descr.size() == 3 && known.text[0] == '|' && descr.substr(1) == known.text.substr(1)) ||
        (descr == "|V2" && known.dtype == DType::BFloat16)) {
      return known.dtype;
    }
  }
  return fail(
      ErrorKind::Data,
      where + ": header: element type '" + std::string(descr) + "' is not supported"
  );
}

Status expect_end(ByteSource& source) {
  std::byte extra{};
  GNN_ASSIGN_OR_RETURN(const size_t got, source.read({&extra, 1}));
  if (got != 0) {
    return fail(ErrorKind::Data, source.name() + ": has bytes after its last element");
  }
  return {};
}

// NumPy's types of strings: "|S3" has three characters of a byte, "<U3" three of UTF-32.
struct StringType {
  size_t length = 0;
  size_t width = 1;  // bytes of a character
};
// None for another type, or a long string.
std::optional<StringType> string_type(std::string_view descr) {
  const bool wide = descr.starts_with("<U");
  StringType type{.length = 0, .width = wide ? size_t{4} : size_t{1}};
  if (!wide && !descr.starts_with("|S")) {
    return std::nullopt;
  }
  const auto [end, code] =
      std::from_chars(descr.data() + 2, descr.data() + descr.size(), type.length);
  if (code != std::errc() || end != descr.data() + descr.size() || type.length > kMaxStringLength) {
    return std::nullopt;
  }
  return type;
}

// 16-bit floating-point elements, as stored.
struct Half {
  uint16_t bits;
  explicit operator float() const { return half_to_float(bits); }
};
struct BFloat16 {
  uint16_t bits;
  explicit operator float() const { return bfloat16_to_float(bits); }
};

// Calls `visit` with an element of the type that `dtype` names.
template <class Visitor>
auto with_element_type(DType dtype, const Visitor& visit) {
  switch (dtype) {
    case DType::Bool:
    case DType::UInt8:
      return visit(uint8_t{});
    case DType::Int8:
      return visit(int8_t{});
    case DType::Int16:
      return visit(int16_t{});
    case DType::UInt16:
      return visit(uint16_t{});
    case DType::Int32:
      return visit(int32_t{});
    case DType::UInt32:
      return visit(uint32_t{});
    case DType::Int64:
      return visit(int64_t{});
    case DType::UInt64:
      return visit(uint64_t{});
    case DType::Float16:
      return visit(Half{});
    case DType::BFloat16:
      return visit(BFloat16{});
    case DType::Float32:
      return visit(float{});
    case DType::Float64:
      break;
  }
  return visit(double{});
}

}  // namespace

int64_t NpyHeader::num_elements() const {
  int64_t elements = 1;
  for (const int64_t size : shape) {
    elements *= size;
  }
  return elements;
}

Result<NpyHeader> read_npy_header(ByteSource& source) {
  GNN_ASSIGN_OR_RETURN(Preamble preamble, read_preamble(source));
  GNN_ASSIGN_OR_RETURN(const DType dtype, dtype_of(preamble.descr, source.name()));
  NpyHeader header;
  header.dtype = dtype;
  header.shape = std::move(preamble.shape);
  header.fortran_order = preamble.fortran_order;
  header.data_offset = preamble.data_offset;
  auto elements = checked_elements(header.shape, dtype_size(header.dtype));
  if (!elements) {
    return tl::make_unexpected(with_context(elements.error(), source.name()));
  }
  const int64_t bytes = *elements * dtype_size(header.dtype);
  if (source.bytes_left() >= 0 && bytes > source.bytes_left()) {
    return fail(
        ErrorKind::Data,
        source.name() + ": offset " + std::to_string(header.data_offset) + ": expected " +
            std::to_string(bytes) + " bytes of " + std::string(dtype_name(header.dtype)) + " " +
            shape_text(header.shape) + ", found " + std::to_string(source.bytes_left()) +
            " (cut short?)"
    );
  }
  return header;
}

Result<std::string> read_npy_string(ByteSource& source) {
  GNN_ASSIGN_OR_RETURN(const Preamble preamble, read_preamble(source));
  const std::optional<StringType> type = string_type(preamble.descr);
  if (!type || !preamble.shape.empty()) {
    return fail(
        ErrorKind::Data,
        source.name() + ": expected one string of at most " + std::to_string(kMaxStringLength) +
            " characters, found element type '" + preamble.descr + "' " + shape_text(preamble.shape)
    );
  }
  std::string bytes(type->length * type->width, '\0');
  GNN_RETURN_IF_ERROR(source.read_exactly(std::as_writable_bytes(std::span(bytes))));
  GNN_RETURN_IF_ERROR(expect_end(source));
  std::string text;
  for (size_t i = 0; i < type->length; ++i) {
    const std::string_view character(bytes.data() + i * type->width, type->width);
    if (character.find_first_not_of('\0') == std::string_view::npos) {
      break;  // NumPy fills strings up with zeros
    }
    const bool ascii = character[0] >= ' ' && character[0] <= '~' &&
                       character.find_first_not_of('\0', 1) == std::string_view::npos;
    text += ascii ? character[0] : '?';
  }
  return text;
}

Result<std::string> make_npy_header(DType dtype, const std::vector<int64_t>& shape) {
  GNN_RETURN_IF_ERROR(checked_elements(shape, dtype_size(dtype)));
  const auto* const known = std::find_if(
      kDescrs.begin(), kDescrs.end(), [dtype](const Descr& descr) { return descr.dtype == dtype; }
  );
  std::string dict =
      "{'descr': '" + std::string(known->text) + "', 'fortran_order': False, 'shape': (";
  for (const int64_t size : shape) {
    dict += std::to_string(size) + ", ";
  }
  if (shape.size() > 1) {
    dict.resize(dict.size() - 2);
  } else if (shape.size() == 1) {
    dict.resize(dict.size() - 1);
  }
  dict += "), }";
  const size_t header_bytes = kPageBytes - 10;
  dict.append(header_bytes - dict.size() - 1, ' ');
  dict += '\n';
  std::string bytes(kMagic);
  bytes += '\x01';
  bytes += '\0';
  bytes += static_cast<char>(header_bytes & 0xFFU);
  bytes += static_cast<char>(header_bytes >> 8U);
  return bytes + dict;
}

NpyReader::NpyReader(std::unique_ptr<ByteSource> source, NpyHeader header)
    : source_(std::move(source)), header_(std::move(header)) {}

Result<NpyReader> NpyReader::open(std::unique_ptr<ByteSource> source) {
  GNN_ASSIGN_OR_RETURN(NpyHeader header, read_npy_header(*source));
  return NpyReader(std::move(source), std::move(header));
}

std::string NpyReader::where(size_t index_in_chunk) const {
  const int64_t element = elements_read_ + static_cast<int64_t>(index_in_chunk);
  return source_->name() + ": element " + std::to_string(element) + " (offset " +
         std::to_string(header_.data_offset + element * dtype_size(header_.dtype)) + ")";
}

Status NpyReader::read_raw(size_t count) {
  if (elements_read_ + static_cast<int64_t>(count) > header_.num_elements()) {
    return fail(
        ErrorKind::Data,
        name() + ": holds " + std::to_string(header_.num_elements()) + " elements, more are needed"
    );
  }
  raw_.resize(count * static_cast<size_t>(dtype_size(header_.dtype)));
  return source_->read_exactly(raw_);
}

Status NpyReader::read_integers(std::span<int64_t> out, const int64_t* nan_value) {
  while (!out.empty()) {
    const size_t count = std::min(out.size(), kChunkElements);
    GNN_RETURN_IF_ERROR(read_raw(count));
    const auto convert = [&]<class T>(T) -> Status {
      if constexpr (std::is_integral_v<T>) {
        for (size_t i = 0; i < count; ++i) {
          // An int8 is a number here, no character: NOLINTNEXTLINE(bugprone-signed-char-misuse)
          out[i] = static_cast<int64_t>(load<T>(raw_.data() + i * sizeof(T)));
        }
      } else if constexpr (std::is_floating_point_v<T>) {
        for (size_t i = 0; i < count; ++i) {
          const auto value = static_cast<double>(load<T>(raw_.data() + i * sizeof(T)));
          if (std::isnan(value) && nan_value != nullptr) {
            out[i] = *nan_value;
          } else if (std::trunc(value) == value && std::abs(value) < 9.0e15) {
            out[i] = static_cast<int64_t>(value);
          } else {
            return fail(
                ErrorKind::Data,
                where(i) + ": expected a whole number, found " + std::to_string(value)
            );
          }
        }
      } else {
        return fail(
            ErrorKind::Data,
            name() + ": expected integers, found " + std::string(dtype_name(header_.dtype))
        );
      }
      return {};
    };
    GNN_RETURN_IF_ERROR(with_element_type(header_.dtype, convert));
    elements_read_ += static_cast<int64_t>(count);
    out = out.subspan(count);
  }
  return {};
}

Status NpyReader::read_floats(std::span<float> out) {
  while (!out.empty()) {
    const size_t count = std::min(out.size(), kChunkElements);
    GNN_RETURN_IF_ERROR(read_raw(count));
    with_element_type(header_.dtype, [&]<class T>(T) {
      for (size_t i = 0; i < count; ++i) {
        out[i] = static_cast<float>(load<T>(raw_.data() + i * sizeof(T)));
      }
    });
    for (size_t i = 0; i < count; ++i) {
      if (!std::isfinite(out[i])) {
        return fail(
            ErrorKind::Data,
            where(i) + ": expected a finite number, found " + std::to_string(out[i])
        );
      }
    }
    elements_read_ += static_cast<int64_t>(count);
    out = out.subspan(count);
  }
  return {};
}

Status NpyReader::finish() {
  return expect_end(*source_);
}

}  // namespace gnn::data
