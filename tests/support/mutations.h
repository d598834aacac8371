#pragma once

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>

namespace gnn::testing {

/// How many rounds a loop over mutations makes: `quick`, or twenty times as many where GNN_FULL is
/// set, as in `scripts/test --full`.
inline int mutation_rounds(int quick) {
  return std::getenv("GNN_FULL") != nullptr ? 20 * quick : quick;
}

/// A fixed walk through mutations of good inputs, for the readers of what other people wrote: no
/// such input may crash them or make them reserve memory that its size does not justify. The
/// sanitizers see what the test can't.
class Mutations {
 public:
  explicit Mutations(uint64_t seed) : random_(seed) {}

  /// Uniform in [0, bound).
  size_t below(size_t bound) { return random_() % bound; }

  /// `input` after one to four edits: bytes changed, cut out, doubled, put in, or the end cut off.
  std::string of(std::string input) {
    for (size_t edits = 1 + below(4); edits > 0; --edits) edit(input);
    return input;
  }

 private:
  char telling_byte() {
    using namespace std::string_view_literals;
    constexpr std::string_view kBytes = "\0\x01\x7F\x80\xFF-.,:0129eE{[\"'}]&*! \t\r\n"sv;
    return kBytes[below(kBytes.size())];
  }

  void edit(std::string& text) {
    if (text.empty()) {
      text.push_back(telling_byte());
      return;
    }
    const size_t at = below(text.size());
    switch (below(8)) {
      case 0:
        text[at] = static_cast<char>(random_());
        break;
      case 1:
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 2:
        text[at] = telling_byte();
        break;
      case 3:
        text.insert(at, 1, telling_byte());
        break;
      case 4:
        text.erase(at, 1 + below(20));
        break;
      case 5:
        text.insert(at, text.substr(below(text.size()), 1 + below(30)));
        break;
      case 6:
        text.insert(at, 1 + below(80), telling_byte());
        break;
      default:
        text.resize(at);
        break;
    }
  }

  std::mt19937_64 random_;
};

}  // namespace gnn::testing
