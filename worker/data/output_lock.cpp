#include "worker/data/output_lock.h"

#include "common/printable.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace gnn::data {
namespace {

constexpr size_t kLongestOwner = 128;

// "process 7 on arxiv-prepare"
std::string this_process() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return "process " + std::to_string(getpid()) + " on " + host.data();
}

std::string read_owner(int file) {
  std::array<char, kLongestOwner> text{};
  const ssize_t length = pread(file, text.data(), text.size(), 0);
  if (length <= 0) return "another process";
  return printable_line(std::string(text.data(), static_cast<size_t>(length)), kLongestOwner);
}

}  // namespace

Result<OutputLock> OutputLock::take(const std::string& output) {
  const std::string path = output + ".lock";
  // A link could lead to a file that is not ours to write to.
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0664);
  if (file < 0) return fail(ErrorKind::Io, path + ": can't create: " + std::strerror(errno));
  OutputLock lock(file);
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (fcntl(file, F_OFD_SETLK, &whole) != 0) {
    if (errno == EAGAIN || errno == EACCES) {
      return fail(ErrorKind::Conflict, output + ": is being written by " + read_owner(file));
    }
    return fail(
        ErrorKind::Io,
        path + ": can't lock: " + std::strerror(errno) +
            "; writers of a data set need a file system with locks"
    );
  }
  const std::string owner = this_process().substr(0, kLongestOwner);
  // Only for messages.
  if (ftruncate(file, 0) == 0) (void)!pwrite(file, owner.data(), owner.size(), 0);
  return lock;
}

OutputLock::OutputLock(OutputLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

OutputLock::~OutputLock() {
  if (file_ >= 0) close(file_);
}

}  // namespace gnn::data
