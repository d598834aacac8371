#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// Text from others (a user, a file, a peer), made safe to show and to pass on.
namespace gnn {

/// The bytes of the character in UTF-8 at the front of a text, which is not empty; 0 if there is none.
[[nodiscard]] size_t utf8_sequence_length(std::string_view text);

/// At most `max_bytes` of the text as valid UTF-8 on one line: runs of control characters, line
/// ends, invalid bytes and signs that turn or hide text become one space; a cut is marked by "…".
[[nodiscard]] std::string printable_line(std::string_view text, size_t max_bytes);

/// At most `max_bytes` of the text as ASCII: line ends and tabs stay, any other byte that does not
/// print becomes a question mark.
[[nodiscard]] std::string printable_ascii(std::string_view text, size_t max_bytes);

}  // namespace gnn
