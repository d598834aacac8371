#include "worker/rpc/key.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <fstream>
#include <optional>

namespace gnn::rpc {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

std::optional<uint8_t> digit_value(char digit) {
  if (digit >= '0' && digit <= '9') return static_cast<uint8_t>(digit - '0');
  if (digit >= 'a' && digit <= 'f') return static_cast<uint8_t>(digit - 'a' + 10);
  if (digit >= 'A' && digit <= 'F') return static_cast<uint8_t>(digit - 'A' + 10);
  return std::nullopt;
}

}  // namespace

Key::~Key() {
  OPENSSL_cleanse(bytes_.data(), bytes_.size());
}

Result<Key> Key::draw() {
  std::array<uint8_t, kBytes> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
    return fail(ErrorKind::Internal, "the system has no random numbers for a data key");
  return Key(bytes);
}

Result<Key> Key::read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorKind::Configuration, path + ": cannot read the data key");
  // One byte more than a key and a line end: the rest of a longer file is not needed to refuse it.
  std::string text(2 * kBytes + 3, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  std::array<uint8_t, kBytes> bytes{};
  bool valid = text.size() == 2 * kBytes;
  for (size_t i = 0; valid && i < kBytes; ++i) {
    const auto high = digit_value(text[2 * i]);
    const auto low = digit_value(text[2 * i + 1]);
    valid = high && low;
    if (valid) bytes[i] = static_cast<uint8_t>(*high << 4U | *low);
  }
  OPENSSL_cleanse(text.data(), text.size());
  if (!valid) {
    return fail(
        ErrorKind::Configuration,
        path + ": expected a data key of " + std::to_string(2 * kBytes) + " hexadecimal digits"
    );
  }
  return Key(bytes);
}

std::string Key::to_hex() const {
  std::string text;
  text.reserve(2 * kBytes);
  for (const uint8_t byte : bytes_) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

}  // namespace gnn::rpc
