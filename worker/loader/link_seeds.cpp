#include "worker/loader/link_seeds.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

namespace gnn::loader {
namespace {

struct LinkEnd {
  int64_t id = 0;
  int64_t place = 0;
};

// By id, ends of one id in the order of their places: a radix sort, since this is on the way of every
// batch and comparing takes ten times as long.
std::vector<LinkEnd> sorted_ends(std::span<const int64_t> ids) {
  constexpr int kDigitBits = 11;
  constexpr size_t kDigits = size_t{1} << kDigitBits;
  std::vector<LinkEnd> ends;
  ends.reserve(ids.size());
  int64_t largest = 0;
  for (const int64_t id : ids) {
    largest = std::max(largest, id);
    ends.push_back({id, static_cast<int64_t>(ends.size())});
  }
  std::vector<LinkEnd> others(ends.size());
  for (int shift = 0; shift < static_cast<int>(std::bit_width(static_cast<uint64_t>(largest)));
       shift += kDigitBits) {
    const auto digit_of = [shift](const LinkEnd& end) {
      return static_cast<uint64_t>(end.id) >> shift & (kDigits - 1);
    };
    std::array<size_t, kDigits> next{};
    for (const LinkEnd& end : ends) ++next[digit_of(end)];
    size_t begin = 0;
    for (size_t& each : next) begin += std::exchange(each, begin);
    for (const LinkEnd& end : ends) others[next[digit_of(end)]++] = end;
    std::swap(ends, others);
  }
  return ends;
}

}  // namespace

LinkSeeds index_ends(std::span<const int64_t> ends) {
  LinkSeeds seeds;
  seeds.rows = at::empty({static_cast<int64_t>(ends.size())}, at::kLong);
  auto* const rows = seeds.rows.mutable_data_ptr<int64_t>();
  std::vector<int64_t> ids;
  ids.reserve(ends.size());
  for (const LinkEnd& end : sorted_ends(ends)) {
    if (ids.empty() || ids.back() != end.id) ids.push_back(end.id);
    rows[end.place] = static_cast<int64_t>(ids.size()) - 1;
  }
  seeds.ids = at::empty({static_cast<int64_t>(ids.size())}, at::kLong);
  std::copy(ids.begin(), ids.end(), seeds.ids.mutable_data_ptr<int64_t>());
  return seeds;
}

}  // namespace gnn::loader
