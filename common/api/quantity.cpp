#include "common/api/quantity.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>

namespace gnn::api {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr int kNanoDigits = 9;
constexpr Wide kNanosOfOne = 1'000'000'000;
constexpr Wide kMostNanos = Wide{std::numeric_limits<int64_t>::max()} * kNanosOfOne;

// By how much a suffix multiplies: 10^exponent, or 1024^exponent.
struct Scale {
  int64_t exponent = 0;
  bool binary = false;
};

struct Suffix {
  std::string_view text;
  Scale scale;
};
constexpr std::array<Suffix, 16> kSuffixes = {{
    {"", {}},
    {"n", {.exponent = -9}},
    {"u", {.exponent = -6}},
    {"m", {.exponent = -3}},
    {"k", {.exponent = 3}},
    {"M", {.exponent = 6}},
    {"G", {.exponent = 9}},
    {"T", {.exponent = 12}},
    {"P", {.exponent = 15}},
    {"E", {.exponent = 18}},
    {"Ki", {.exponent = 1, .binary = true}},
    {"Mi", {.exponent = 2, .binary = true}},
    {"Gi", {.exponent = 3, .binary = true}},
    {"Ti", {.exponent = 4, .binary = true}},
    {"Pi", {.exponent = 5, .binary = true}},
    {"Ei", {.exponent = 6, .binary = true}},
}};

std::optional<Scale> scale_of(std::string_view suffix) {
  for (const Suffix& each : kSuffixes) {
    if (each.text == suffix) return each.scale;
  }
  if (suffix.size() < 2 || (suffix.front() != 'e' && suffix.front() != 'E')) return std::nullopt;
  suffix.remove_prefix(1);
  if (suffix.front() == '+') suffix.remove_prefix(1);
  Scale scale;
  const auto read = std::from_chars(suffix.data(), suffix.data() + suffix.size(), scale.exponent);
  if (read.ec != std::errc() || read.ptr != suffix.data() + suffix.size()) return std::nullopt;
  return scale;
}

// a * b, but not more than the most that there is, which both are at most.
Wide product(Wide a, Wide b) {
  return b != 0 && a > kMostNanos / b ? kMostNanos : a * b;
}

// The digits of a number, and how many of them come after its point.
struct Digits {
  std::string text;
  int64_t after_point = 0;
};

std::optional<Digits> digits_of(std::string_view number) {
  Digits digits;
  const size_t point = number.find('.');
  digits.text = std::string(number.substr(0, point));
  if (point != std::string_view::npos) {
    digits.text += number.substr(point + 1);
    digits.after_point = static_cast<int64_t>(number.size() - point - 1);
  }
  const bool all_digits =
      std::ranges::all_of(digits.text, [](unsigned char c) { return std::isdigit(c) != 0; });
  if (digits.text.empty() || !all_digits) return std::nullopt;
  digits.text.erase(0, digits.text.find_first_not_of('0'));
  return digits;
}

// Multiplies a number of any length. `by` is small.
void multiply(std::string& digits, int by) {
  int carry = 0;
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    carry += (*digit - '0') * by;
    *digit = static_cast<char>('0' + carry % 10);
    carry /= 10;
  }
  if (carry > 0) digits.insert(0, std::to_string(carry));
}

// The number times 10^shift, rounded up.
Wide shifted(std::string digits, int64_t shift) {
  bool rest = false;
  for (; shift < 0 && !digits.empty(); ++shift) {
    rest = rest || digits.back() != '0';
    digits.pop_back();
  }
  Wide value = 0;
  for (const char digit : digits) {
    value = std::min(product(value, 10) + static_cast<Wide>(digit - '0'), kMostNanos);
  }
  for (; shift > 0 && value != 0 && value < kMostNanos; --shift) value = product(value, 10);
  return std::min(value + (rest ? 1 : 0), kMostNanos);
}

std::string decimal(Wide value) {
  std::string text;
  do {
    text += static_cast<char>('0' + static_cast<int>(value % 10));
    value /= 10;
  } while (value != 0);
  std::ranges::reverse(text);
  return text;
}

// value / base^n with the n-th suffix, for the largest n that divides it.
template <size_t kCount>
std::string with_suffix(
    Wide value, Wide base, const std::array<std::string_view, kCount>& suffixes
) {
  size_t n = 0;
  for (; n + 1 < kCount && value != 0 && value % base == 0; ++n) value /= base;
  return decimal(value) + std::string(suffixes[n]);
}

}  // namespace

std::optional<Quantity> Quantity::parse(std::string_view text) {
  const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  auto digits = digits_of(text.substr(0, end));
  const auto scale = scale_of(text.substr(end));
  if (!digits || !scale) return std::nullopt;
  Quantity quantity;
  quantity.binary_ = scale->binary;
  int64_t shift = kNanoDigits - digits->after_point;
  if (scale->binary) {
    for (int64_t n = 0; n < scale->exponent; ++n) multiply(digits->text, 1024);
  } else {
    // Further out there is only 0, or the most, whatever the digits are.
    shift += std::clamp<int64_t>(scale->exponent, -1000, 1000);
  }
  quantity.nanos_ = shifted(std::move(digits->text), shift);
  return quantity;
}

Quantity& Quantity::operator+=(const Quantity& other) {
  nanos_ = std::min(nanos_ + other.nanos_, kMostNanos);
  binary_ = binary_ || other.binary_;
  return *this;
}

Quantity Quantity::times(int64_t count) const {
  Quantity all = *this;
  all.nanos_ = product(nanos_, static_cast<Wide>(count));
  return all;
}

std::string Quantity::text() const {
  static constexpr std::array<std::string_view, 10> kDecimal = {
      "n", "u", "m", "", "k", "M", "G", "T", "P", "E"
  };
  static constexpr std::array<std::string_view, 7> kBinary = {
      "", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"
  };
  if (nanos_ == 0) return "0";
  if (binary_ && nanos_ % kNanosOfOne == 0) return with_suffix(nanos_ / kNanosOfOne, 1024, kBinary);
  return with_suffix(nanos_, 1000, kDecimal);
}

}  // namespace gnn::api
