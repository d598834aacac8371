#include "common/text_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <ios>

namespace gnn {

Result<std::string> read_text(std::istream& stream, const std::string& name, size_t max_bytes) {
  std::string text(max_bytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) return fail(ErrorKind::Configuration, name + ": cannot be read");
  text.resize(static_cast<size_t>(stream.gcount()));
  if (text.size() > max_bytes) {
    return fail(
        ErrorKind::Configuration,
        name + ": larger than the limit of " + std::to_string(max_bytes >> 20U) + " MiB"
    );
  }
  return text;
}

Result<std::string> read_text_file(const std::string& path, size_t max_bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorKind::Configuration, path + ": " + std::strerror(errno));
  return read_text(file, path, max_bytes);
}

}  // namespace gnn
