#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <ios>
#include <sstream>
#include <string>

namespace gnn::testing {

/// The whole file; empty if it is not there.
inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// At most the last `size` bytes of the file.
inline std::string end_of_file(const std::filesystem::path& path, size_t size) {
  std::string text = read_file(path);
  if (text.size() > size) text.erase(0, text.size() - size);
  return text;
}

}  // namespace gnn::testing
