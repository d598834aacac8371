#include "worker/data/permutation.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace gnn::data {
namespace {

uint64_t lowest(uint64_t value, uint32_t bits) {
  return value & ((uint64_t{1} << bits) - 1);
}

}  // namespace

Permutation::Permutation(int64_t size, uint64_t seed, uint64_t first_stream)
    : size_(static_cast<uint64_t>(size)),
      rounds_{
          CounterRandom(seed, first_stream),
          CounterRandom(seed, first_stream + 1),
          CounterRandom(seed, first_stream + 2),
          CounterRandom(seed, first_stream + 3)
      } {
  const auto bits = static_cast<uint32_t>(std::max(static_cast<int>(std::bit_width(size_ - 1)), 2));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
}

// A round makes (high, low) into (low, high xor f(low)).
uint64_t Permutation::forward(uint64_t value) const {
  uint32_t low_bits = low_bits_;
  uint32_t high_bits = high_bits_;
  for (const CounterRandom& round : rounds_) {
    const uint64_t low = lowest(value, low_bits);
    const uint64_t high = value >> low_bits;
    value = (low << high_bits) | lowest(high ^ round.bits(low), high_bits);
    std::swap(low_bits, high_bits);
  }
  return value;
}

uint64_t Permutation::backward(uint64_t value) const {
  uint32_t low_bits = low_bits_;
  uint32_t high_bits = high_bits_;
  for (auto round = rounds_.rbegin(); round != rounds_.rend(); ++round) {
    std::swap(low_bits, high_bits);
    const uint64_t low = value >> high_bits;
    const uint64_t high = lowest(lowest(value, high_bits) ^ round->bits(low), high_bits);
    value = (high << low_bits) | low;
  }
  return value;
}

int64_t Permutation::at(int64_t place) const {
  auto value = static_cast<uint64_t>(place);
  do {
    value = forward(value);
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

int64_t Permutation::place_of(int64_t number) const {
  auto value = static_cast<uint64_t>(number);
  do {
    value = backward(value);
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

}  // namespace gnn::data
