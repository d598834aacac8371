#include "worker/checkpoint/file_ops.h"

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace gnn::checkpoint {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> failed(const char* call, const fs::path& path) {
  const int code = errno;
  return fail(
      code == ENOENT ? ErrorKind::NotFound : ErrorKind::Io,
      path.string() + ": " + call + ": " + std::generic_category().message(code)
  );
}

tl::unexpected<Error> failed(const char* call, int file) {
  return fail(
      ErrorKind::Io,
      std::string(call) + " of file " + std::to_string(file) + ": " +
          std::generic_category().message(errno)
  );
}

template <class F>
auto retry(const F& call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

// Closes a file that was only read, where closing cannot lose anything.
class ReadFile {
 public:
  ReadFile(const fs::path& path, int flags)
      : file_(retry([&] { return ::open(path.c_str(), flags | O_CLOEXEC); })) {}
  ~ReadFile() {
    if (file_ >= 0) ::close(file_);
  }
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;
  [[nodiscard]] int get() const { return file_; }

 private:
  int file_;
};

}  // namespace

Result<int> PosixFileOps::create(const fs::path& path) {
  const int file =
      retry([&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644); });
  if (file < 0) return failed("open", path);
  return file;
}

Result<size_t> PosixFileOps::write(int file, const void* data, size_t size) {
  const ssize_t written = retry([&] { return ::write(file, data, size); });
  if (written < 0) return failed("write", file);
  return static_cast<size_t>(written);
}

Status PosixFileOps::reserve(int file, int64_t size) {
  // Not posix_fallocate(), which writes to each block where the file system has no such call.
  if (size == 0 || retry([&] { return ::fallocate(file, 0, 0, size); }) == 0) return {};
  if (errno == EOPNOTSUPP || errno == ENOSYS) return {};
  return failed("fallocate", file);
}

Status PosixFileOps::sync(int file) {
  if (retry([&] { return ::fsync(file); }) != 0) return failed("fsync", file);
  return {};
}

Status PosixFileOps::close(int file) {
  // Not retried: after EINTR Linux has closed it already.
  if (::close(file) != 0) return failed("close", file);
  return {};
}

Status PosixFileOps::rename(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return failed("rename", from);
  return {};
}

Status PosixFileOps::sync_directory(const fs::path& path) {
  const ReadFile directory(path, O_RDONLY | O_DIRECTORY);
  if (directory.get() < 0) return failed("open", path);
  if (retry([&] { return ::fsync(directory.get()); }) != 0) return failed("fsync", path);
  return {};
}

Status PosixFileOps::make_directory(const fs::path& path) {
  if (::mkdir(path.c_str(), 0755) == 0) return {};
  if (errno != EEXIST) return failed("mkdir", path);
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return failed("stat", path);
  if (!S_ISDIR(status.st_mode)) {
    return fail(ErrorKind::Io, path.string() + ": expected a directory, found a file");
  }
  return {};
}

Status PosixFileOps::remove_file(const fs::path& path) {
  if (::unlink(path.c_str()) != 0) return failed("unlink", path);
  return {};
}

Status PosixFileOps::remove_directory(const fs::path& path) {
  if (::rmdir(path.c_str()) != 0) return failed("rmdir", path);
  return {};
}

Result<std::vector<std::string>> PosixFileOps::list(const fs::path& directory) {
  const auto close = [](DIR* open) { ::closedir(open); };
  const std::unique_ptr<DIR, decltype(close)> open(::opendir(directory.c_str()), close);
  if (!open) return failed("opendir", directory);
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(open.get());
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) return failed("readdir", directory);
  std::ranges::sort(names);
  return names;
}

Result<std::string> PosixFileOps::read(const fs::path& path, int64_t max_bytes) {
  // Without O_NONBLOCK, a named pipe would make us wait for its writer.
  const ReadFile file(path, O_RDONLY | O_NONBLOCK);
  if (file.get() < 0) return failed("open", path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return failed("fstat", path);
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorKind::Data, path.string() + ": expected a regular file");
  }
  if (status.st_size > max_bytes) {
    return fail(
        ErrorKind::Data,
        path.string() + ": expected at most " + std::to_string(max_bytes) + " bytes, found " +
            std::to_string(status.st_size)
    );
  }
  std::string content(static_cast<size_t>(status.st_size), '\0');
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t count =
        retry([&] { return ::read(file.get(), content.data() + done, content.size() - done); });
    if (count < 0) return failed("read", path);
    if (count == 0) break;  // it shrank meanwhile: its checksum will tell
    done += static_cast<size_t>(count);
  }
  content.resize(done);
  return content;
}

}  // namespace gnn::checkpoint
