#pragma once

#include "common/result.h"

#include <array>
#include <charconv>
#include <string>
#include <system_error>

namespace gnn::data {

/// The shortest text that reads back as the same number: equal for equal numbers alone.
inline std::string number_text(double value) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.begin(), text.end(), value);
  GNN_ASSERT(error == std::errc(), "the shortest text of a double has at most 24 characters");
  return {text.begin(), end};
}

}  // namespace gnn::data
