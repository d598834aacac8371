#include "worker/app/private_file.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sys/types.h>
#include <unistd.h>

namespace gnn::app {

Result<PrivateFile> PrivateFile::create(const std::string& name, std::string_view content) {
  const char* const folder = std::getenv("TMPDIR");
  std::string path =
      std::string(folder == nullptr || *folder == '\0' ? "/tmp" : folder) + "/" + name + "-XXXXXX";
  const int fd = ::mkstemp(path.data());  // with mode 0600
  if (fd < 0) return fail(ErrorKind::Io, path + ": " + std::strerror(errno));
  PrivateFile file(path);
  const ssize_t written = ::write(fd, content.data(), content.size());
  const int error = errno;
  ::close(fd);
  if (written == static_cast<ssize_t>(content.size())) return file;
  return fail(
      ErrorKind::Io, path + ": " + (written < 0 ? std::strerror(error) : "there is no room for it")
  );
}

PrivateFile::~PrivateFile() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

}  // namespace gnn::app
