#pragma once

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

namespace gnn::testing {

/// The flags of the mappings of this process, as in " rd sh mr hg ", by /proc/self/smaps: of the
/// first one for which `wanted(first, end, line)` holds, empty if there is none.
template <class Wanted>
std::string mapping_flags_where(Wanted wanted) {
  std::ifstream maps("/proc/self/smaps");
  bool is_wanted = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long long first = 0;
    unsigned long long end = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &first, &end) == 2)
      is_wanted = wanted(first, end, line);
    else if (is_wanted && line.starts_with("VmFlags:"))
      return line.substr(line.find(' ')) + " ";
  }
  return {};
}

/// The flags of the mapping that holds `address`.
inline std::string mapping_flags(const void* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  return mapping_flags_where([wanted](auto first, auto end, const std::string& /*line*/) {
    return first <= wanted && wanted < end;
  });
}

/// The flags of the mapping of a file whose path ends so.
inline std::string mapping_flags_of_file(std::string_view path_end) {
  return mapping_flags_where([path_end](auto /*first*/, auto /*end*/, const std::string& line) {
    return line.ends_with(path_end);
  });
}

}  // namespace gnn::testing
