#include "controller/app/data_key.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <sys/random.h>

namespace gnn::app {
namespace {

// The kernel gives so few bytes whole.
template <size_t kBytes>
Result<std::string> draw_hexadecimal() {
  std::array<uint8_t, kBytes> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return fail(
        ErrorKind::Internal, std::string("cannot draw a data key: ") + std::strerror(errno)
    );
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits;
  for (const uint8_t byte : bytes) {
    digits += kDigits[byte >> 4U];
    digits += kDigits[byte & 15U];
  }
  return digits;
}

}  // namespace

Result<std::string> draw_data_key() {
  return draw_hexadecimal<32>();
}

Result<std::string> draw_data_key_suffix() {
  return draw_hexadecimal<16>();
}

}  // namespace gnn::app
