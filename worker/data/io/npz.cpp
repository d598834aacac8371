#include "worker/data/io/npz.h"

#include "worker/data/io/zip_format.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace gnn::data {
namespace {

// Record layouts: PKWARE APPNOTE 6.3.3, sections 4.3.7 (local header), 4.3.12 (central directory),
// 4.3.14–16 (end records, zip64 too) and 4.5.3 (zip64 extra field). All numbers are little-endian.
constexpr size_t kEndBytes = 22;
constexpr size_t kCentralBytes = 46;
constexpr size_t kLocalBytes = 30;
constexpr int64_t kMaxDirectoryBytes = int64_t{1} << 26U;
// Deflate packs at most 258 bytes into 2 bits. A larger claim is false, and would reserve memory.
constexpr int64_t kMaxDeflateRatio = 1032;

// Reads little-endian fields of a record that is wholly in memory.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : bytes_(bytes) {}
  [[nodiscard]] uint16_t u16(size_t at) const { return get<uint16_t>(at); }
  [[nodiscard]] uint32_t u32(size_t at) const { return get<uint32_t>(at); }
  [[nodiscard]] uint64_t u64(size_t at) const { return get<uint64_t>(at); }

 private:
  template <class T>
  [[nodiscard]] T get(size_t at) const {
    GNN_ASSERT(
        at + sizeof(T) <= bytes_.size(), "records are read whole before their fields are looked at"
    );
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof(T));
    return value;
  }
  std::string_view bytes_;
};

// Always on the heap: GCC 12 warns wrongly about a short string's inner buffer.
Result<std::vector<char>> read_at(const std::string& path, int64_t offset, int64_t length) {
  GNN_ASSIGN_OR_RETURN(auto source, open_file_range(path, path, offset, length));
  std::vector<char> bytes(static_cast<size_t>(length));
  GNN_RETURN_IF_ERROR(source->read_exactly(std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

std::string_view text_of(const std::vector<char>& bytes) {
  return {bytes.data(), bytes.size()};
}

struct Directory {
  int64_t offset = 0;
  int64_t bytes = 0;
  uint64_t members = 0;
};

tl::unexpected<Error> damaged(const std::string& path, int64_t offset, const std::string& what) {
  return fail(ErrorKind::Data, path + ": offset " + std::to_string(offset) + ": " + what);
}

// An unsigned number from the file as an offset or length within a file of `limit` bytes.
Result<int64_t> bounded(
    uint64_t value, int64_t limit, const std::string& path, const std::string& what
) {
  if (value > static_cast<uint64_t>(limit)) {
    return fail(
        ErrorKind::Data,
        path + ": " + what + " " + std::to_string(value) + " lies beyond the file's " +
            std::to_string(limit) + " bytes"
    );
  }
  return static_cast<int64_t>(value);
}

Result<Directory> find_directory(const std::string& path, int64_t file_bytes) {
  // The end record is last; a comment of up to 65,535 bytes may follow it.
  const int64_t tail_bytes = std::min<int64_t>(file_bytes, static_cast<int64_t>(kEndBytes) + 65535);
  GNN_ASSIGN_OR_RETURN(
      const std::vector<char> tail, read_at(path, file_bytes - tail_bytes, tail_bytes)
  );
  const std::string signature("PK\x05\x06", 4);
  const size_t at = text_of(tail).rfind(signature);
  if (at == std::string::npos || tail.size() - at < kEndBytes) {
    return damaged(path, file_bytes, "no end-of-archive record: not a zip file, or cut short");
  }
  const Fields end(text_of(tail).substr(at, kEndBytes));
  const int64_t end_offset = file_bytes - tail_bytes + static_cast<int64_t>(at);
  uint64_t members = end.u16(10);
  uint64_t bytes = end.u32(12);
  uint64_t offset = end.u32(16);
  if (end.u16(4) != 0 || end.u16(6) != 0) {
    return damaged(path, end_offset, "archives in several parts are not supported");
  }
  if (members == 0xFFFF || bytes == 0xFFFFFFFF || offset == 0xFFFFFFFF) {
    if (end_offset < 20) {
      return damaged(path, end_offset, "the zip64 locator is missing");
    }
    GNN_ASSIGN_OR_RETURN(const std::vector<char> locator_bytes, read_at(path, end_offset - 20, 20));
    const Fields locator(text_of(locator_bytes));
    if (locator.u32(0) == kLocator64Signature) {
      GNN_ASSIGN_OR_RETURN(
          const int64_t end64_offset,
          bounded(locator.u64(8), file_bytes - 56, path, "zip64 end record at offset")
      );
      GNN_ASSIGN_OR_RETURN(const std::vector<char> end64_bytes, read_at(path, end64_offset, 56));
      const Fields end64(text_of(end64_bytes));
      if (end64.u32(0) != kEnd64Signature) {
        return damaged(path, end64_offset, "expected the zip64 end-of-archive record");
      }
      members = end64.u64(32);
      bytes = end64.u64(40);
      offset = end64.u64(48);
    }
  }
  Directory directory;
  GNN_ASSIGN_OR_RETURN(directory.offset, bounded(offset, end_offset, path, "directory at offset"));
  GNN_ASSIGN_OR_RETURN(
      directory.bytes, bounded(bytes, end_offset - directory.offset, path, "directory length")
  );
  if (directory.bytes > kMaxDirectoryBytes || members > bytes / kCentralBytes) {
    return damaged(
        path, end_offset, "a directory of " + std::to_string(members) + " members is not plausible"
    );
  }
  directory.members = members;
  return directory;
}

// Replaces the sizes that are 0xFFFFFFFF by those of the zip64 extra field.
Status apply_zip64(std::string_view extra, uint64_t& unpacked, uint64_t& packed, uint64_t& offset) {
  while (extra.size() >= 4) {
    const Fields head(extra);
    const uint16_t id = head.u16(0);
    const size_t length = head.u16(2);
    if (length > extra.size() - 4) {
      return fail(ErrorKind::Data, "extra field longer than its record");
    }
    if (id == 1) {
      std::string_view rest = extra.substr(4, length);
      for (uint64_t* value : {&unpacked, &packed, &offset}) {
        if (*value == 0xFFFFFFFF) {
          if (rest.size() < 8) {
            return fail(ErrorKind::Data, "zip64 extra field is too short");
          }
          *value = Fields(rest).u64(0);
          rest.remove_prefix(8);
        }
      }
      return {};
    }
    extra.remove_prefix(4 + length);
  }
  return {};
}

Result<std::vector<NpzArchive::Member>> read_directory(
    const std::string& path, const Directory& directory
) {
  GNN_ASSIGN_OR_RETURN(
      const std::vector<char> bytes, read_at(path, directory.offset, directory.bytes)
  );
  std::vector<NpzArchive::Member> members;
  size_t at = 0;
  for (uint64_t i = 0; i < directory.members; ++i) {
    const int64_t record_offset = directory.offset + static_cast<int64_t>(at);
    if (bytes.size() - at < kCentralBytes ||
        Fields(text_of(bytes).substr(at)).u32(0) != kCentralSignature) {
      return damaged(
          path, record_offset, "expected entry " + std::to_string(i) + " of the archive's directory"
      );
    }
    const Fields record(text_of(bytes).substr(at, kCentralBytes));
    const size_t name_bytes = record.u16(28);
    const size_t extra_bytes = record.u16(30);
    const size_t record_bytes = kCentralBytes + name_bytes + extra_bytes + record.u16(32);
    if (record_bytes > bytes.size() - at) {
      return damaged(path, record_offset, "entry runs past the directory");
    }
    NpzArchive::Member member;
    member.name = text_of(bytes).substr(at + kCentralBytes, name_bytes);
    if (member.name.ends_with(".npy")) {
      member.name.resize(member.name.size() - 4);
    }
    if ((record.u16(8) & 1U) != 0) {
      return damaged(path, record_offset, "member '" + member.name + "' is encrypted");
    }
    member.method = record.u16(10);
    member.crc32 = record.u32(16);
    uint64_t packed = record.u32(20);
    uint64_t unpacked = record.u32(24);
    uint64_t offset = record.u32(42);
    const auto extra = text_of(bytes).substr(at + kCentralBytes + name_bytes, extra_bytes);
    if (auto status = apply_zip64(extra, unpacked, packed, offset); !status) {
      return damaged(path, record_offset, status.error().message);
    }
    const std::string what = "member '" + member.name + "': ";
    GNN_ASSIGN_OR_RETURN(
        member.header_offset, bounded(offset, directory.offset, path, what + "offset")
    );
    GNN_ASSIGN_OR_RETURN(
        member.packed_bytes, bounded(packed, directory.offset, path, what + "packed size")
    );
    GNN_ASSIGN_OR_RETURN(
        member.unpacked_bytes,
        bounded(
            unpacked,
            member.method == 0 ? member.packed_bytes
                               : member.packed_bytes * kMaxDeflateRatio + kMaxDeflateRatio,
            path,
            what + "unpacked size"
        )
    );
    if (member.method == 0 && member.packed_bytes != member.unpacked_bytes) {
      return damaged(path, record_offset, what + "stored, but its two sizes differ");
    }
    members.push_back(std::move(member));
    at += record_bytes;
  }
  return members;
}

}  // namespace

NpzArchive::NpzArchive(std::string path, std::vector<Member> members)
    : path_(std::move(path)), members_(std::move(members)) {}

Result<NpzArchive> NpzArchive::open(std::string path) {
  GNN_ASSIGN_OR_RETURN(const auto file, open_file(path));
  const int64_t file_bytes = file->file_bytes_total();
  GNN_ASSIGN_OR_RETURN(const Directory directory, find_directory(path, file_bytes));
  GNN_ASSIGN_OR_RETURN(auto members, read_directory(path, directory));
  return NpzArchive(std::move(path), std::move(members));
}

bool NpzArchive::contains(std::string_view name) const {
  return std::any_of(members_.begin(), members_.end(), [name](const Member& member) {
    return member.name == name;
  });
}

Result<std::unique_ptr<ByteSource>> NpzArchive::open_member(std::string_view name) const {
  const auto member = std::find_if(members_.begin(), members_.end(), [name](const Member& entry) {
    return entry.name == name;
  });
  if (member == members_.end()) {
    std::string names;
    for (const Member& entry : members_) {
      names += (names.empty() ? "" : ", ") + entry.name;
    }
    return fail(
        ErrorKind::NotFound,
        path_ + ": no member '" + std::string(name) +
            "'; it has: " + (names.empty() ? "none" : names)
    );
  }
  GNN_ASSIGN_OR_RETURN(
      const std::vector<char> bytes, read_at(path_, member->header_offset, kLocalBytes)
  );
  const Fields local(text_of(bytes));
  if (local.u32(0) != kLocalSignature || local.u16(8) != member->method) {
    return damaged(
        path_, member->header_offset, "expected the header of member '" + member->name + "'"
    );
  }
  const int64_t data_offset =
      member->header_offset + static_cast<int64_t>(kLocalBytes) + local.u16(26) + local.u16(28);
  const std::string full_name = path_ + "(" + member->name + ".npy)";
  GNN_ASSIGN_OR_RETURN(
      auto source, open_file_range(path_, full_name, data_offset, member->packed_bytes)
  );
  if (member->method == 8) {
    source = inflate_raw(std::move(source), member->unpacked_bytes);
  } else if (member->method != 0) {
    return damaged(
        path_,
        member->header_offset,
        "member '" + member->name + "' is packed by method " + std::to_string(member->method) +
            ", only 0 (stored) and 8 (deflate) are supported"
    );
  }
  return check_crc32(std::move(source), member->crc32);
}

Result<NpyReader> NpzArchive::open_array(std::string_view name) const {
  GNN_ASSIGN_OR_RETURN(auto source, open_member(name));
  return NpyReader::open(std::move(source));
}

}  // namespace gnn::data
