#pragma once

#include <algorithm>
#include <cstdint>

namespace gnn::graph {

/// Part `index` of `count` equal parts of some work; by default all of it.
struct Share {
  int64_t index = 0;
  int64_t count = 1;

  /// Of `items`, this part has [begin_of(items), end_of(items)).
  [[nodiscard]] int64_t begin_of(int64_t items) const { return begin_of(items, index); }
  [[nodiscard]] int64_t end_of(int64_t items) const { return begin_of(items, index + 1); }

 private:
  [[nodiscard]] int64_t begin_of(int64_t items, int64_t part) const {
    return items / count * part + std::min(items % count, part);
  }
};

}  // namespace gnn::graph
