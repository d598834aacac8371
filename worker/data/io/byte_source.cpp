#include "worker/data/io/byte_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>
#include <zlib.h>

namespace gnn::data {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 18U;

std::string system_error(const std::string& what, const std::string& path) {
  return path + ": " + what + ": " + std::strerror(errno);
}

class FileSource final : public ByteSource {
 public:
  FileSource(std::string name, int descriptor, int64_t offset, int64_t length)
      : name_(std::move(name)), descriptor_(descriptor), offset_(offset), length_(length) {}
  ~FileSource() override { close(descriptor_); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  Result<size_t> read(std::span<std::byte> out) override {
    const auto wanted = std::min(out.size(), static_cast<size_t>(length_ - done_));
    while (wanted > 0) {
      const ssize_t got = pread(descriptor_, out.data(), wanted, offset_ + done_);
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got < 0) {
        return fail(
            ErrorKind::Io,
            system_error("can't read at offset " + std::to_string(offset_ + done_), name_)
        );
      }
      if (got == 0) {
        return fail(
            ErrorKind::Data,
            name_ + ": ends at offset " + std::to_string(offset_ + done_) + ", expected " +
                std::to_string(length_ - done_) + " more bytes"
        );
      }
      done_ += got;
      return static_cast<size_t>(got);
    }
    return size_t{0};
  }
  const std::string& name() const override { return name_; }
  int64_t file_bytes_read() const override { return done_; }
  int64_t file_bytes_total() const override { return length_; }
  int64_t bytes_left() const override { return length_ - done_; }

 private:
  std::string name_;
  int descriptor_;
  int64_t offset_;
  int64_t length_;
  int64_t done_ = 0;
};

class MemorySource final : public ByteSource {
 public:
  MemorySource(std::string name, std::string bytes)
      : name_(std::move(name)), bytes_(std::move(bytes)) {}
  Result<size_t> read(std::span<std::byte> out) override {
    const size_t count = std::min(out.size(), bytes_.size() - done_);
    if (count > 0) {
      std::memcpy(out.data(), bytes_.data() + done_, count);
      done_ += count;
    }
    return count;
  }
  const std::string& name() const override { return name_; }
  int64_t file_bytes_read() const override { return static_cast<int64_t>(done_); }
  int64_t file_bytes_total() const override { return static_cast<int64_t>(bytes_.size()); }
  int64_t bytes_left() const override { return static_cast<int64_t>(bytes_.size() - done_); }

 private:
  std::string name_;
  std::string bytes_;
  size_t done_ = 0;
};

enum class Packing { Gzip, RawDeflate };

// Unpacks another source by zlib: gzip (any number of members) or raw deflate of known size.
class InflateSource final : public ByteSource {
 public:
  InflateSource(std::unique_ptr<ByteSource> inner, Packing packing, int64_t unpacked_bytes)
      : inner_(std::move(inner)),
        gzip_(packing == Packing::Gzip),
        unpacked_bytes_(unpacked_bytes),
        packed_(kBufferBytes) {
    // 15 window bits; +16 selects the gzip wrapper, negative means none.
    ready_ = inflateInit2(&stream_, gzip_ ? 15 + 16 : -15) == Z_OK;
  }
  ~InflateSource() override { inflateEnd(&stream_); }
  InflateSource(const InflateSource&) = delete;
  InflateSource& operator=(const InflateSource&) = delete;

  Result<size_t> read(std::span<std::byte> out) override {
    if (!ready_) {
      return fail(ErrorKind::OutOfMemory, name() + ": no memory to unpack");
    }
    if (ended_ || out.empty()) {
      return size_t{0};
    }
    const auto room =
        static_cast<uInt>(std::min<size_t>(out.size(), std::numeric_limits<uInt>::max()));
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = room;
    while (stream_.avail_out == room) {
      if (stream_.avail_in == 0) {
        GNN_RETURN_IF_ERROR(refill());
      }
      const int code = inflate(&stream_, Z_NO_FLUSH);
      if (code == Z_STREAM_END) {
        GNN_ASSIGN_OR_RETURN(ended_, after_member());
        if (ended_) {
          break;
        }
      } else if (code != Z_OK) {
        return damaged(stream_.msg != nullptr ? stream_.msg : "not a deflate stream");
      }
    }
    const size_t got = room - stream_.avail_out;
    produced_ += static_cast<int64_t>(got);
    if (unpacked_bytes_ >= 0 &&
        (produced_ > unpacked_bytes_ || (ended_ && produced_ != unpacked_bytes_))) {
      return damaged(
          "unpacks to " + std::to_string(produced_) + (ended_ ? "" : " or more") +
          " bytes, the directory says " + std::to_string(unpacked_bytes_)
      );
    }
    return got;
  }
  const std::string& name() const override { return inner_->name(); }
  int64_t file_bytes_read() const override { return inner_->file_bytes_read(); }
  int64_t file_bytes_total() const override { return inner_->file_bytes_total(); }
  int64_t bytes_left() const override {
    return unpacked_bytes_ < 0 ? -1 : unpacked_bytes_ - produced_;
  }

 private:
  tl::unexpected<Error> damaged(const std::string& why) const {
    return fail(
        ErrorKind::Data,
        name() + ": damaged " + (gzip_ ? "gzip" : "deflate") + " data near packed offset " +
            std::to_string(inner_->file_bytes_read() - stream_.avail_in) + ": " + why
    );
  }
  Status refill() {
    GNN_ASSIGN_OR_RETURN(const size_t got, inner_->read(packed_));
    if (got == 0) {
      return damaged("the file ends in the middle of the stream (cut short?)");
    }
    stream_.next_in = reinterpret_cast<Bytef*>(packed_.data());
    stream_.avail_in = static_cast<uInt>(got);
    return {};
  }
  // True at the end of all data, false when another gzip member follows.
  Result<bool> after_member() {
    if (!gzip_) {
      return true;
    }
    if (stream_.avail_in == 0) {
      GNN_ASSIGN_OR_RETURN(const size_t got, inner_->read(packed_));
      if (got == 0) {
        return true;
      }
      stream_.next_in = reinterpret_cast<Bytef*>(packed_.data());
      stream_.avail_in = static_cast<uInt>(got);
    }
    if (inflateReset(&stream_) != Z_OK) {
      return damaged("can't start the next member");
    }
    return false;
  }

  std::unique_ptr<ByteSource> inner_;
  bool gzip_;
  int64_t unpacked_bytes_;
  std::vector<std::byte> packed_;
  z_stream stream_{};
  bool ready_ = false;
  bool ended_ = false;
  int64_t produced_ = 0;
};

class Crc32Source final : public ByteSource {
 public:
  Crc32Source(std::unique_ptr<ByteSource> inner, uint32_t expected)
      : inner_(std::move(inner)), expected_(expected) {}

  Result<size_t> read(std::span<std::byte> out) override {
    if (out.empty()) {
      return size_t{0};
    }
    GNN_ASSIGN_OR_RETURN(const size_t got, inner_->read(out));
    crc_ = crc32_z(crc_, reinterpret_cast<const Bytef*>(out.data()), got);
    // Compared right after the last byte: callers who know the length do not read on to the end.
    if (!checked_ && (got == 0 || inner_->bytes_left() == 0)) {
      checked_ = true;
      if (crc_ != expected_) {
        return fail(
            ErrorKind::Data,
            name() + ": CRC-32 of the contents differs from the directory's: damaged"
        );
      }
    }
    return got;
  }
  const std::string& name() const override { return inner_->name(); }
  int64_t file_bytes_read() const override { return inner_->file_bytes_read(); }
  int64_t file_bytes_total() const override { return inner_->file_bytes_total(); }
  int64_t bytes_left() const override { return inner_->bytes_left(); }

 private:
  std::unique_ptr<ByteSource> inner_;
  uint32_t expected_;
  uLong crc_ = 0;
  bool checked_ = false;
};

Result<std::unique_ptr<ByteSource>> open_range(
    const std::string& path, std::string name, int64_t offset, int64_t length
) {
  // O_NONBLOCK, because opening a named pipe would wait for its writer. Files know no such waiting.
  const int descriptor = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) {
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    return fail(missing ? ErrorKind::NotFound : ErrorKind::Io, system_error("can't open", path));
  }
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor);
    return fail(ErrorKind::Data, path + ": expected a regular file");
  }
  if (length < 0) {
    length = status.st_size - offset;
  }
  auto source = std::make_unique<FileSource>(std::move(name), descriptor, offset, length);
  if (offset < 0 || length < 0 || offset > status.st_size || length > status.st_size - offset) {
    return fail(
        ErrorKind::Data,
        source->name() + ": expected bytes up to offset " + std::to_string(offset + length) +
            ", the file has " + std::to_string(status.st_size)
    );
  }
  posix_fadvise(descriptor, offset, length, POSIX_FADV_SEQUENTIAL);
  return std::unique_ptr<ByteSource>(std::move(source));
}

}  // namespace

Status ByteSource::read_exactly(std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    GNN_ASSIGN_OR_RETURN(const size_t got, read(out.subspan(done)));
    if (got == 0) {
      return fail(
          ErrorKind::Data,
          name() + ": ends too early, expected " + std::to_string(out.size() - done) + " more bytes"
      );
    }
    done += got;
  }
  return {};
}

Result<std::unique_ptr<ByteSource>> open_file(const std::string& path) {
  return open_range(path, path, 0, -1);
}

Result<std::unique_ptr<ByteSource>> open_gzip(const std::string& path) {
  GNN_ASSIGN_OR_RETURN(auto file, open_file(path));
  return std::unique_ptr<ByteSource>(
      std::make_unique<InflateSource>(std::move(file), Packing::Gzip, -1)
  );
}

Result<std::unique_ptr<ByteSource>> open_by_suffix(const std::string& path) {
  return path.ends_with(".gz") ? open_gzip(path) : open_file(path);
}

std::unique_ptr<ByteSource> from_memory(std::string name, std::string bytes) {
  return std::make_unique<MemorySource>(std::move(name), std::move(bytes));
}

Result<std::unique_ptr<ByteSource>> open_file_range(
    const std::string& path, std::string name, int64_t offset, int64_t length
) {
  return open_range(path, std::move(name), offset, length);
}

std::unique_ptr<ByteSource> inflate_raw(std::unique_ptr<ByteSource> inner, int64_t unpacked_bytes) {
  return std::make_unique<InflateSource>(std::move(inner), Packing::RawDeflate, unpacked_bytes);
}

std::unique_ptr<ByteSource> check_crc32(std::unique_ptr<ByteSource> inner, uint32_t expected) {
  return std::make_unique<Crc32Source>(std::move(inner), expected);
}

Status check_no_byte_order_mark(std::string_view start, const std::string& file) {
  if (!start.starts_with("\xEF\xBB\xBF")) {
    return {};
  }
  return fail(
      ErrorKind::Data,
      file + ": line 1: begins with a UTF-8 byte order mark; save the file as UTF-8 without one"
  );
}

LineReader::LineReader(std::unique_ptr<ByteSource> source, size_t max_line_bytes)
    : source_(std::move(source)), max_line_bytes_(max_line_bytes) {}

std::string LineReader::where() const {
  return source_->name() + ": line " + std::to_string(line_number_);
}

Result<bool> LineReader::fill() {
  if (ended_) {
    return false;
  }
  buffer_.erase(0, begin_);
  begin_ = 0;
  const size_t kept = buffer_.size();
  if (kept > max_line_bytes_) {
    return fail(
        ErrorKind::Data,
        source_->name() + ": line " + std::to_string(line_number_ + 1) + " is longer than " +
            std::to_string(max_line_bytes_) + " bytes"
    );
  }
  buffer_.resize(kept + kBufferBytes);
  GNN_ASSIGN_OR_RETURN(
      const size_t got, source_->read(std::as_writable_bytes(std::span(buffer_).subspan(kept)))
  );
  buffer_.resize(kept + got);
  ended_ = got == 0;
  return !ended_;
}

Result<LineReader::Line> LineReader::next() {
  size_t searched = begin_;
  while (true) {
    size_t end = buffer_.find('\n', searched);
    size_t next_begin = end + 1;
    if (end == std::string::npos) {
      const size_t pending = buffer_.size() - begin_;
      GNN_ASSIGN_OR_RETURN(const bool more, fill());
      searched = begin_ + pending;
      if (more) {
        continue;
      }
      if (pending == 0) {
        return Line{.text = {}, .at_end = true};
      }
      end = buffer_.size();
      next_begin = end;
    }
    std::string_view text = std::string_view(buffer_).substr(begin_, end - begin_);
    if (text.ends_with('\r')) {
      text.remove_suffix(1);
    }
    if (line_number_ == 0) {
      GNN_RETURN_IF_ERROR(check_no_byte_order_mark(text, source_->name()));
    }
    begin_ = next_begin;
    ++line_number_;
    return Line{.text = text, .at_end = false};
  }
}

}  // namespace gnn::data
