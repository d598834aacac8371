#include "controller/app/data_key.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sys/random.h>

namespace gnn::app {

Result<std::string> draw_data_key() {
  // The kernel gives so few bytes whole.
  std::array<uint8_t, 32> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return fail(
        ErrorKind::Internal, std::string("cannot draw a data key: ") + std::strerror(errno)
    );
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string key;
  for (const uint8_t byte : bytes) {
    key += kDigits[byte >> 4U];
    key += kDigits[byte & 15U];
  }
  return key;
}

}  // namespace gnn::app
