#pragma once

#include "common/random.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gnn::testing {

/// Gives the listed values again and again.
/// Threads: safe from any thread.
class FixedRandom final : public RandomSource {
 public:
  explicit FixedRandom(std::vector<uint64_t> values = {0}) : values_(std::move(values)) {}

  [[nodiscard]] uint64_t next() override { return values_[position_++ % values_.size()]; }

 private:
  std::vector<uint64_t> values_;
  std::atomic<size_t> position_{0};
};

}  // namespace gnn::testing
