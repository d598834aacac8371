#pragma once

#include <cstddef>
#include <string>

namespace gnn::data {

/// From now on, reading a mapped file where it has no bytes any more (it was cut off while in use, or
/// its disk failed) ends this process with kExitOther and a line on stderr that names the file and
/// the byte. The kernel's own way is SIGBUS, which names neither.
void name_unreadable_mappings();

/// Where a file lies in memory, for name_unreadable_mappings(). Beyond some hundreds of them at a
/// time, mappings stay without a name.
/// Threads: any thread.
class NamedMapping {
 public:
  NamedMapping(const void* address, size_t bytes, const std::string& path);
  ~NamedMapping();
  NamedMapping(const NamedMapping&) = delete;
  NamedMapping& operator=(const NamedMapping&) = delete;

 private:
  size_t slot_;
};

}  // namespace gnn::data
