#include "worker/data/mapped_file.h"

#include "worker/data/mapped_pages.h"
#include "worker/data/unreadable_mapping.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace gnn::data {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) {
      close(value_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int value() const { return value_; }

 private:
  int value_;
};

tl::unexpected<Error> system_failure(
    const std::string& path, const std::string& what, int code = errno
) {
  const ErrorKind kind = code == ENOENT   ? ErrorKind::NotFound
                         : code == ENOMEM ? ErrorKind::OutOfMemory
                                          : ErrorKind::Io;
  return fail(kind, path + ": " + what + ": " + std::strerror(code));
}

std::string version_of(const struct stat& status) {
  const auto nanoseconds = [](const timespec& time) {
    return std::to_string(time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec);
  };
  return std::to_string(status.st_dev) + " " + std::to_string(status.st_ino) + " " +
         std::to_string(status.st_size) + " " + nanoseconds(status.st_mtim) + " " +
         nanoseconds(status.st_ctim);
}

Result<Mapping> map(const std::string& path, int descriptor, int64_t bytes, int protection) {
  const auto length = static_cast<size_t>(bytes);
  void* address = mmap(nullptr, length, protection, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) {
    return system_failure(path, "can't map " + std::to_string(bytes) + " bytes");
  }
  // Its name goes before its pages: another file may lie there next.
  const auto unmap = [length,
                      name = std::make_shared<NamedMapping>(address, length, path),
                      counted =
                          std::make_shared<CountedMapping>(address, length, protection)](void* begin
                     ) mutable {
    counted.reset();
    name.reset();
    munmap(begin, length);
  };
  return Mapping{.address = std::shared_ptr<void>(address, unmap), .bytes = bytes, .version = {}};
}

}  // namespace

Result<Mapping> map_file(const std::string& path) {
  // Without O_NONBLOCK, a named pipe would make us wait for its writer.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.value() < 0) {
    return system_failure(path, "can't open");
  }
  struct stat status {};
  if (fstat(file.value(), &status) != 0) {
    return system_failure(path, "can't stat");
  }
  if (!S_ISREG(status.st_mode) || status.st_size == 0) {
    return fail(ErrorKind::Data, path + ": expected a regular file that is not empty");
  }
  GNN_ASSIGN_OR_RETURN(Mapping mapping, map(path, file.value(), status.st_size, PROT_READ));
  mapping.version = version_of(status);
  return mapping;
}

void advise(const Mapping& mapping, Access access) {
  const auto hint = [&mapping](int advice) {
    madvise(mapping.address.get(), static_cast<size_t>(mapping.bytes), advice);
  };
  switch (access) {
    case Access::Kept:
      return hint(MADV_HUGEPAGE);
    case Access::InOrder:
      return hint(MADV_SEQUENTIAL);
    case Access::AnyOrder:
      return hint(MADV_RANDOM);
  }
}

Result<Mapping> create_mapped_file(const std::string& path, int64_t bytes) {
  const Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.value() < 0) {
    return system_failure(path, "can't create");
  }
  if (const int code = posix_fallocate(file.value(), 0, bytes); code != 0) {
    return system_failure(path, "can't reserve " + std::to_string(bytes) + " bytes", code);
  }
  return map(path, file.value(), bytes, PROT_READ | PROT_WRITE);
}

Status truncate_and_sync(const std::string& path, int64_t bytes) {
  const Descriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.value() < 0 || ftruncate(file.value(), bytes) != 0 || fsync(file.value()) != 0) {
    return system_failure(path, "can't write");
  }
  return {};
}

Status sync_directory(const std::string& path) {
  const Descriptor directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.value() < 0 || fsync(directory.value()) != 0) {
    return system_failure(path, "can't write");
  }
  return {};
}

Status write_and_sync(const std::string& path, const std::string& content) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (file.value() < 0) {
    return system_failure(path, "can't create");
  }
  size_t written = 0;
  while (written < content.size()) {
    const ssize_t done = write(file.value(), content.data() + written, content.size() - written);
    if (done < 0 && errno == EINTR) {
      continue;
    }
    if (done < 0) {
      return system_failure(path, "can't write");
    }
    written += static_cast<size_t>(done);
  }
  if (fsync(file.value()) != 0) {
    return system_failure(path, "can't write");
  }
  return {};
}

}  // namespace gnn::data
