#include "common/result.h"

#include <cstdio>
#include <cstdlib>

namespace gnn {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Configuration:
      return "Configuration";
    case ErrorKind::Data:
      return "Data";
    case ErrorKind::Io:
      return "Io";
    case ErrorKind::Network:
      return "Network";
    case ErrorKind::Timeout:
      return "Timeout";
    case ErrorKind::Cancelled:
      return "Cancelled";
    case ErrorKind::PeerLost:
      return "PeerLost";
    case ErrorKind::Preempted:
      return "Preempted";
    case ErrorKind::OutOfMemory:
      return "OutOfMemory";
    case ErrorKind::NotFound:
      return "NotFound";
    case ErrorKind::Conflict:
      return "Conflict";
    case ErrorKind::Internal:
      return "Internal";
  }
  return "Internal";
}

namespace internal {

void assert_failed(const char* condition, const char* why, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: impossible: !(%s): %s\n", file, line, condition, why);
  std::abort();
}

}  // namespace internal
}  // namespace gnn
