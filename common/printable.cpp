#include "common/printable.h"

#include <algorithm>

namespace gnn {
namespace {

// Control characters, and whatever reverses or hides text in a terminal.
bool is_unprintable(std::string_view sequence) {
  if (sequence.size() == 1) {
    return static_cast<unsigned char>(sequence[0]) < 0x20 || sequence[0] == 0x7F;
  }
  if (sequence.size() == 2)
    return sequence[0] == '\xC2' && static_cast<unsigned char>(sequence[1]) < 0xA0;
  if (sequence.size() != 3) return false;
  return sequence.starts_with("\xE2\x80") || sequence.starts_with("\xE2\x81") ||
         sequence == "\xEF\xBB\xBF";
}

// U+2010–U+2027, typographic signs in a block that is_unprintable() rejects as a whole.
bool is_typographic(std::string_view sequence) {
  return sequence.size() == 3 && sequence.starts_with("\xE2\x80") &&
         static_cast<unsigned char>(sequence[2]) >= 0x90 &&
         static_cast<unsigned char>(sequence[2]) <= 0xA7;
}

}  // namespace

size_t utf8_sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
  if (length == 0 || first > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second >= 0xA0;
  const bool too_large = first == 0xF4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

std::string printable_line(std::string_view text, size_t max_bytes) {
  constexpr std::string_view kCut = "…";
  std::string clean;
  while (!text.empty()) {
    const size_t length = utf8_sequence_length(text);
    const std::string_view sequence = text.substr(0, std::max<size_t>(length, 1));
    const bool visible = length > 0 && (is_typographic(sequence) || !is_unprintable(sequence));
    const std::string_view shown = visible ? sequence : std::string_view(" ");
    if (clean.size() + shown.size() > max_bytes) {
      // Makes room for the mark, by whole characters.
      while (!clean.empty() && clean.size() + kCut.size() > max_bytes) {
        while (!clean.empty() && (static_cast<unsigned char>(clean.back()) & 0xC0) == 0x80) {
          clean.pop_back();
        }
        if (!clean.empty()) clean.pop_back();
      }
      if (kCut.size() <= max_bytes) clean += kCut;
      return clean;
    }
    if (shown != " " || !clean.ends_with(' ')) clean += shown;
    text.remove_prefix(sequence.size());
  }
  while (clean.ends_with(' ')) clean.pop_back();
  return clean;
}

std::string printable_ascii(std::string_view text, size_t max_bytes) {
  std::string clean;
  for (const char c : text.substr(0, max_bytes)) {
    const bool good = (c >= ' ' && c <= '~') || c == '\n' || c == '\t';
    clean += good ? c : '?';
  }
  return clean;
}

}  // namespace gnn
