#include "common/result.h"

#include <cstdio>
#include <cstdlib>

namespace gnn {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kConfiguration:
      return "Configuration";
    case ErrorKind::kData:
      return "Data";
    case ErrorKind::kIo:
      return "Io";
    case ErrorKind::kNetwork:
      return "Network";
    case ErrorKind::kTimeout:
      return "Timeout";
    case ErrorKind::kCancelled:
      return "Cancelled";
    case ErrorKind::kPeerLost:
      return "PeerLost";
    case ErrorKind::kPreempted:
      return "Preempted";
    case ErrorKind::kOutOfMemory:
      return "OutOfMemory";
    case ErrorKind::kNotFound:
      return "NotFound";
    case ErrorKind::kConflict:
      return "Conflict";
    case ErrorKind::kInternal:
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
