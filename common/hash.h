#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace gnn {

/// What fnv1a() starts from.
inline constexpr uint64_t kFnvOffset = 14695981039346656037ULL;

/// FNV-1a, 64 bits: the same on every machine and in every version of the standard library. Not
/// for input that an adversary picks. `hash` goes on from the hash of what came before.
[[nodiscard]] constexpr uint64_t fnv1a(std::string_view text, uint64_t hash = kFnvOffset) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}
[[nodiscard]] constexpr uint64_t fnv1a(
    std::span<const std::byte> bytes, uint64_t hash = kFnvOffset
) {
  for (const std::byte byte : bytes) {
    hash = (hash ^ std::to_integer<uint64_t>(byte)) * 1099511628211ULL;
  }
  return hash;
}

/// Number `index` (from 0) of the SplitMix64 generator that starts from `seed`; mixes two words
/// into one.
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
[[nodiscard]] constexpr uint64_t splitmix64(uint64_t seed, uint64_t index) {
  uint64_t z = seed + 0x9e3779b97f4a7c15ULL * (index + 1);
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31U);
}

}  // namespace gnn
