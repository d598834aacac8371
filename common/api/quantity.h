#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gnn::api {

/// An amount of a resource, not negative, as Kubernetes reads and keeps it: what is finer than 10^-9 is
/// rounded up, and what is more than 2^63 - 1 is that much. Sums are exact.
class Quantity {
 public:
  Quantity() = default;
  /// E.g. "1500m", "1.5Gi", "2e3". Nothing if it is not a quantity.
  [[nodiscard]] static std::optional<Quantity> parse(std::string_view text);

  Quantity& operator+=(const Quantity& other);
  /// That many times as much; not negative.
  [[nodiscard]] Quantity times(int64_t count) const;
  /// With the largest suffix that needs no fraction, of the powers of 1024 if a part of the sum had one.
  [[nodiscard]] std::string text() const;

  /// Whether it is a multiple of `unit`, which is not 0.
  [[nodiscard]] bool is_multiple_of(const Quantity& unit) const {
    return nanos_ % unit.nanos_ == 0;
  }

  /// By their amounts, however they are written.
  friend bool operator==(const Quantity& a, const Quantity& b) { return a.nanos_ == b.nanos_; }
  friend std::strong_ordering operator<=>(const Quantity& a, const Quantity& b) {
    return a.nanos_ <=> b.nanos_;
  }

 private:
  __extension__ using Nanos = unsigned __int128;

  Nanos nanos_ = 0;
  bool binary_ = false;
};

}  // namespace gnn::api
