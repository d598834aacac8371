#pragma once

#include "common/result.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gnn::rpc {

/// A job's data key: whoever holds it may read the job's data from its servers. It is in no message
/// and no log.
class Key {
 public:
  static constexpr size_t kBytes = 32;

  explicit Key(const std::array<uint8_t, kBytes>& bytes) : bytes_(bytes) {}
  ~Key();
  Key(const Key&) = default;
  Key& operator=(const Key&) = default;

  /// A new one, from the system's random numbers.
  /// Errors: Internal if there are none.
  [[nodiscard]] static Result<Key> draw();
  /// Reads 64 hexadecimal digits; white space at the end is skipped.
  /// Errors: Configuration, which names the file and its fault, never its content.
  [[nodiscard]] static Result<Key> read_file(const std::string& path);

  [[nodiscard]] const std::array<uint8_t, kBytes>& bytes() const { return bytes_; }
  /// What read_file() reads.
  [[nodiscard]] std::string to_hex() const;

 private:
  std::array<uint8_t, kBytes> bytes_;
};

}  // namespace gnn::rpc
