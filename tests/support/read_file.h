#pragma once

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

}  // namespace gnn::testing
