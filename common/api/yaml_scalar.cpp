#include "common/api/yaml_scalar.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

namespace gnn::api {
namespace {

using nlohmann::json;

template <class Words>
bool is_one_of(std::string_view text, const Words& words) {
  return std::ranges::find(words, text) != words.end();
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool has_sign(std::string_view text) {
  return text.starts_with('+') || text.starts_with('-');
}

struct Prefix {
  char letter;
  int base;
};
constexpr std::array<Prefix, 3> kPrefixes = {{{'x', 16}, {'o', 8}, {'b', 2}}};

struct BasedDigits {
  std::string_view text;
  int base = 10;
};

// "0x1f", "0o17", "0b11" and, where `zero_is_octal`, "017".
BasedDigits based_digits(std::string_view unsigned_text, bool zero_is_octal) {
  if (unsigned_text.size() < 2 || unsigned_text[0] != '0') return {.text = unsigned_text};
  const char letter = static_cast<char>(unsigned_text[1] | 0x20);
  for (const Prefix& prefix : kPrefixes) {
    if (letter == prefix.letter) return {.text = unsigned_text.substr(2), .base = prefix.base};
  }
  return {.text = unsigned_text, .base = zero_is_octal ? 8 : 10};
}

std::optional<json> integer(std::string_view text, bool zero_is_octal) {
  const bool negative = text.starts_with('-');
  if (has_sign(text)) text.remove_prefix(1);
  const auto [digits, base] = based_digits(text, zero_is_octal);
  uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) {
    return std::nullopt;
  }
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!negative && value > kMost) return json(static_cast<double>(value));
  if (!negative) return json(static_cast<int64_t>(value));
  if (value > kMost + 1) return std::nullopt;
  return json(static_cast<int64_t>(0 - value));
}

// [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?
bool has_form_of_real(std::string_view text) {
  const auto skip_digits = [&] {
    const size_t before = text.size();
    while (!text.empty() && is_digit(text.front())) text.remove_prefix(1);
    return before != text.size();
  };
  if (has_sign(text)) text.remove_prefix(1);
  const bool whole = skip_digits();
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (!skip_digits() && !whole) return false;
  } else if (!whole) {
    return false;
  }
  if (text.empty()) return true;
  if (text.front() != 'e' && text.front() != 'E') return false;
  text.remove_prefix(1);
  if (has_sign(text)) text.remove_prefix(1);
  return skip_digits() && text.empty();
}

// Go writes a number without a fraction as JSON without one.
std::optional<json> real(std::string_view text) {
  if (!has_form_of_real(text)) return std::nullopt;
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const std::errc error = std::from_chars(text.data(), text.data() + text.size(), value).ec;
  // Of what is out of range only the small is a number, 0.
  const size_t exponent = text.find_first_of("eE");
  const bool small = exponent != text.npos && text.find('-', exponent) != text.npos;
  if (error == std::errc::result_out_of_range && !small) return std::nullopt;
  constexpr double kMostInteger = 9.2e18;
  if (std::abs(value) < kMostInteger && std::trunc(value) == value) {
    return json(static_cast<int64_t>(value));
  }
  return json(value);
}

constexpr std::array<std::string_view, 5> kNull = {"", "~", "null", "Null", "NULL"};
constexpr std::array<std::string_view, 3> kTrue = {"true", "True", "TRUE"};
constexpr std::array<std::string_view, 3> kFalse = {"false", "False", "FALSE"};
constexpr std::array<std::string_view, 8> kYes = {"y", "Y", "yes", "Yes", "YES", "on", "On", "ON"};
constexpr std::array<std::string_view, 8> kNo = {"n", "N", "no", "No", "NO", "off", "Off", "OFF"};

}  // namespace

json plain_scalar(const std::string& text) {
  if (is_one_of(text, kNull)) return {};
  if (is_one_of(text, kTrue) || is_one_of(text, kYes)) return true;
  if (is_one_of(text, kFalse) || is_one_of(text, kNo)) return false;
  if (text.front() == '.') return real(text).value_or(text);
  if (!is_digit(text.front()) && !has_sign(text)) return text;
  std::string without_underscores = text;
  std::erase(without_underscores, '_');
  if (const auto whole = integer(without_underscores, /*zero_is_octal=*/true)) return *whole;
  return real(without_underscores).value_or(text);
}

bool is_no_json_number(std::string_view text) {
  constexpr std::array<std::string_view, 6> kWords = {
      ".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"
  };
  if (has_sign(text) && !text.ends_with('n') && !text.ends_with('N')) text.remove_prefix(1);
  return is_one_of(text, kWords);
}

json plain_scalar_of_yaml_1_2(const std::string& text) {
  if (is_one_of(text, kNull)) return {};
  if (is_one_of(text, kTrue)) return true;
  if (is_one_of(text, kFalse)) return false;
  const bool binary = text.size() > 1 && text[0] == '0' && (text[1] | 0x20) == 'b';
  if (!binary) {
    if (const auto whole = integer(text, /*zero_is_octal=*/false)) return *whole;
  }
  return real(text).value_or(text);
}

}  // namespace gnn::api
