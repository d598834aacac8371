#pragma once

#include "common/result.h"

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>

namespace gnn::rpc {

static_assert(std::endian::native == std::endian::little, "messages are little-endian");

/// Writes numbers and bytes one after the other into memory that has room for them.
class WireWriter {
 public:
  explicit WireWriter(std::span<std::byte> bytes) : bytes_(bytes) {}

  void put(std::unsigned_integral auto value) { put(std::as_bytes(std::span(&value, 1))); }
  void put(std::span<const std::byte> value) {
    GNN_ASSERT(value.size() <= bytes_.size(), "the caller made room for all of its fields");
    std::memcpy(bytes_.data(), value.data(), value.size());
    bytes_ = bytes_.subspan(value.size());
  }

 private:
  std::span<std::byte> bytes_;
};

/// Reads what a WireWriter wrote.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <std::unsigned_integral T>
  [[nodiscard]] T get() {
    T value{};
    get(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  void get(std::span<std::byte> value) {
    GNN_ASSERT(value.size() <= bytes_.size(), "messages of fixed size are read whole");
    std::memcpy(value.data(), bytes_.data(), value.size());
    bytes_ = bytes_.subspan(value.size());
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace gnn::rpc
