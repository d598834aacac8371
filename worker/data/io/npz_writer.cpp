#include "worker/data/io/npz_writer.h"

#include "worker/data/io/npy.h"
#include "worker/data/io/zip_format.h"

#include <algorithm>
#include <cerrno>
#include <concepts>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>
#include <zlib.h>

namespace gnn::data {
namespace {

// Record layouts: as in npz.cpp. Sizes and offsets are always those of zip64.
constexpr uint16_t kVersion = 45;
constexpr uint16_t kZip64Field = 1;
constexpr uint32_t kInZip64 = 0xFFFFFFFF;
constexpr uint16_t kInZip64Short = 0xFFFF;
constexpr uint16_t kDate = (1U << 5U) | 1U;  // 1980-01-01: equal contents make equal files
constexpr int64_t kCrcPlace = 14;            // in a local header
constexpr size_t kWrittenAtOnce = size_t{1} << 20U;

// A record of little-endian fields.
class Record {
 public:
  template <std::unsigned_integral T>
  Record& add(T value) {
    for (size_t byte = 0; byte < sizeof(T); ++byte) {
      bytes_ += static_cast<char>((value >> (8 * byte)) & 0xFFU);
    }
    return *this;
  }
  Record& add(const std::string& text) {
    bytes_ += text;
    return *this;
  }
  [[nodiscard]] std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(bytes_));
  }
  [[nodiscard]] size_t size() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

}  // namespace

// A new file, written through a buffer.
class NpzWriter::Output {
 public:
  Output(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {
    buffer_.reserve(kWrittenAtOnce);
  }
  ~Output() { close(descriptor_); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  [[nodiscard]] int64_t offset() const { return flushed_ + static_cast<int64_t>(buffer_.size()); }

  Status add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const size_t count = std::min(bytes.size(), kWrittenAtOnce - buffer_.size());
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
      bytes = bytes.subspan(count);
      if (buffer_.size() == kWrittenAtOnce) {
        GNN_RETURN_IF_ERROR(flush());
      }
    }
    return {};
  }

  // Writes over bytes from `offset` on.
  Status replace(int64_t offset, std::span<const std::byte> bytes) {
    GNN_RETURN_IF_ERROR(flush());
    return write_at(offset, bytes);
  }

  Status sync() {
    GNN_RETURN_IF_ERROR(flush());
    return fsync(descriptor_) == 0 ? Status() : failure();
  }

 private:
  Status flush() {
    GNN_RETURN_IF_ERROR(write_at(flushed_, buffer_));
    flushed_ += static_cast<int64_t>(buffer_.size());
    buffer_.clear();
    return {};
  }
  Status write_at(int64_t offset, std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t done = pwrite(descriptor_, bytes.data(), bytes.size(), offset);
      if (done < 0 && errno == EINTR) {
        continue;
      }
      if (done < 0) {
        return failure();
      }
      offset += done;
      bytes = bytes.subspan(static_cast<size_t>(done));
    }
    return {};
  }
  [[nodiscard]] tl::unexpected<Error> failure() const {
    return fail(ErrorKind::Io, path_ + ": can't write: " + std::strerror(errno));
  }

  std::string path_;
  int descriptor_;
  int64_t flushed_ = 0;
  std::vector<std::byte> buffer_;
};

NpzWriter::NpzWriter(std::unique_ptr<Output> output) : output_(std::move(output)) {}
NpzWriter::NpzWriter(NpzWriter&&) noexcept = default;
NpzWriter& NpzWriter::operator=(NpzWriter&&) noexcept = default;
NpzWriter::~NpzWriter() = default;

Result<NpzWriter> NpzWriter::create(const std::string& path) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    return fail(ErrorKind::Io, path + ": can't create: " + std::strerror(errno));
  }
  return NpzWriter(std::make_unique<Output>(path, descriptor));
}

Status NpzWriter::begin(const std::string& name, DType dtype, const std::vector<int64_t>& shape) {
  GNN_RETURN_IF_ERROR(end_member());
  GNN_ASSIGN_OR_RETURN(const std::string npy_header, make_npy_header(dtype, shape));
  GNN_ASSIGN_OR_RETURN(const int64_t elements, checked_elements(shape, dtype_size(dtype)));
  Member member;
  member.name = name + ".npy";
  member.offset = output_->offset();
  member.bytes = static_cast<int64_t>(npy_header.size()) + elements * dtype_size(dtype);
  member.bytes_left = member.bytes;
  Record extra;
  extra.add(kZip64Field).add(uint16_t{16});
  extra.add(static_cast<uint64_t>(member.bytes)).add(static_cast<uint64_t>(member.bytes));
  Record header;
  header.add(kLocalSignature).add(kVersion).add(uint16_t{0}).add(uint16_t{0});
  header.add(uint16_t{0}).add(kDate);  // time, date
  header.add(uint32_t{0});             // CRC-32, which end_member() knows
  header.add(kInZip64).add(kInZip64);
  header.add(static_cast<uint16_t>(member.name.size())).add(static_cast<uint16_t>(extra.size()));
  header.add(member.name);
  GNN_RETURN_IF_ERROR(output_->add(header.bytes()));
  GNN_RETURN_IF_ERROR(output_->add(extra.bytes()));
  members_.push_back(std::move(member));
  return write(std::as_bytes(std::span(npy_header)));
}

Status NpzWriter::write(std::span<const std::byte> elements) {
  GNN_ASSERT(
      !members_.empty() && static_cast<int64_t>(elements.size()) <= members_.back().bytes_left,
      "callers write the elements of the shape that they began"
  );
  Member& member = members_.back();
  member.bytes_left -= static_cast<int64_t>(elements.size());
  member.crc32 = static_cast<uint32_t>(
      crc32_z(member.crc32, reinterpret_cast<const Bytef*>(elements.data()), elements.size())
  );
  return output_->add(elements);
}

Status NpzWriter::end_member() {
  if (members_.empty()) {
    return {};
  }
  const Member& member = members_.back();
  GNN_ASSERT(member.bytes_left == 0, "callers write all elements of the shape that they began");
  Record checksum;
  checksum.add(member.crc32);
  return output_->replace(member.offset + kCrcPlace, checksum.bytes());
}

Status NpzWriter::finish() {
  GNN_RETURN_IF_ERROR(end_member());
  const auto directory = static_cast<uint64_t>(output_->offset());
  for (const Member& member : members_) {
    Record extra;
    extra.add(kZip64Field).add(uint16_t{24});
    extra.add(static_cast<uint64_t>(member.bytes)).add(static_cast<uint64_t>(member.bytes));
    extra.add(static_cast<uint64_t>(member.offset));
    Record entry;
    entry.add(kCentralSignature).add(kVersion).add(kVersion).add(uint16_t{0}).add(uint16_t{0});
    entry.add(uint16_t{0}).add(kDate).add(member.crc32).add(kInZip64).add(kInZip64);
    entry.add(static_cast<uint16_t>(member.name.size()));
    entry.add(static_cast<uint16_t>(extra.size()));
    entry.add(uint16_t{0}).add(uint16_t{0}).add(uint16_t{0});  // comment, disk, attributes
    entry.add(uint32_t{0}).add(kInZip64).add(member.name);     // attributes, offset
    GNN_RETURN_IF_ERROR(output_->add(entry.bytes()));
    GNN_RETURN_IF_ERROR(output_->add(extra.bytes()));
  }
  const auto end = static_cast<uint64_t>(output_->offset());
  const auto count = static_cast<uint64_t>(members_.size());
  Record tail;
  tail.add(kEnd64Signature).add(uint64_t{44}).add(kVersion).add(kVersion);
  tail.add(uint32_t{0}).add(uint32_t{0}).add(count).add(count);
  tail.add(end - directory).add(directory);
  tail.add(kLocator64Signature).add(uint32_t{0}).add(end).add(uint32_t{1});
  tail.add(kEndSignature).add(uint16_t{0}).add(uint16_t{0});
  tail.add(kInZip64Short).add(kInZip64Short).add(kInZip64).add(kInZip64).add(uint16_t{0});
  GNN_RETURN_IF_ERROR(output_->add(tail.bytes()));
  return output_->sync();
}

}  // namespace gnn::data
