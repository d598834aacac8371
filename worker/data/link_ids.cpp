#include "worker/data/link_ids.h"

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

namespace gnn::data {
namespace {

constexpr size_t kWordBits = 64;
// Ids far beyond the number of edges are damaged, and counting them would exhaust memory.
constexpr int64_t kMostIdsPerEdge = 64;

// Calls visit(entry, reverse entry, loop) for every entry of symmetric lists whose source is not above
// its destination, in ascending order; false, without further calls, where an entry has no reverse.
template <class Index, class Visit>
bool for_each_undirected(
    std::span<const int64_t> indptr, std::span<const Index> indices, const Visit& visit
) {
  // Destinations ascend, so the entries of a list are asked for in their order.
  std::vector<int64_t> next(indptr.begin(), indptr.end() - 1);
  for (size_t node = 0; node + 1 < indptr.size(); ++node) {
    for (int64_t entry = indptr[node]; entry < indptr[node + 1]; ++entry) {
      const auto source = static_cast<size_t>(indices[static_cast<size_t>(entry)]);
      const int64_t reverse = next[source]++;
      if (reverse >= indptr[source + 1] ||
          static_cast<size_t>(indices[static_cast<size_t>(reverse)]) != node) {
        return false;
      }
      if (source <= node) {
        visit(static_cast<size_t>(entry), static_cast<size_t>(reverse));
      }
    }
  }
  return true;
}

// Gives both directions of each edge the smaller of their ids and returns the number of edges; -1,
// without a change, unless all edges have their reverse.
template <class Index>
int64_t join_directions(
    std::span<const int64_t> indptr, std::span<const Index> indices, std::span<int64_t> ids
) {
  int64_t edges = 0;
  if (!for_each_undirected(indptr, indices, [&](size_t, size_t) { ++edges; })) {
    return -1;
  }
  for_each_undirected(indptr, indices, [&](size_t entry, size_t reverse) {
    ids[entry] = std::min(ids[entry], ids[reverse]);
    ids[reverse] = ids[entry];
  });
  return edges;
}

// Replaces each id by the number of smaller ones, and checks that there are `expected` ids.
Status close_gaps(std::span<int64_t> ids, int64_t expected) {
  const auto most = kMostIdsPerEdge * static_cast<int64_t>(ids.size());
  const auto [smallest, largest] = std::minmax_element(ids.begin(), ids.end());
  if (*smallest < 0 || *largest > most) {
    return fail(
        ErrorKind::Data,
        "expected edge ids in [0, " + std::to_string(most) + "], found " +
            std::to_string(*smallest < 0 ? *smallest : *largest)
    );
  }
  std::vector<uint64_t> taken(static_cast<size_t>(*largest) / kWordBits + 1);
  for (const int64_t id : ids) {
    taken[static_cast<size_t>(id) / kWordBits] |= uint64_t{1}
                                                  << (static_cast<size_t>(id) % kWordBits);
  }
  std::vector<int64_t> smaller(taken.size());  // number of ids in the words before
  int64_t count = 0;
  for (size_t word = 0; word < taken.size(); ++word) {
    smaller[word] = count;
    count += std::popcount(taken[word]);
  }
  if (count != expected) {
    return fail(
        ErrorKind::Data,
        "expected " + std::to_string(expected) + " different edge ids, one for each edge, found " +
            std::to_string(count)
    );
  }
  for (int64_t& id : ids) {
    const size_t word = static_cast<size_t>(id) / kWordBits;
    const uint64_t below = (uint64_t{1} << (static_cast<size_t>(id) % kWordBits)) - 1;
    id = smaller[word] + std::popcount(taken[word] & below);
  }
  return {};
}

template <class Index>
Status number(
    std::span<const int64_t> indptr,
    std::span<const Index> indices,
    std::span<int64_t> ids,
    LinkIds kind
) {
  GNN_ASSERT(
      ids.size() == indices.size() && indptr.back() == static_cast<int64_t>(ids.size()),
      "callers give the arrays of one edge type"
  );
  if (ids.empty() || kind == LinkIds::No) {
    return {};
  }
  const int64_t undirected =
      kind == LinkIds::WithinType ? join_directions(indptr, indices, ids) : -1;
  return close_gaps(ids, undirected < 0 ? static_cast<int64_t>(ids.size()) : undirected);
}

}  // namespace

Status number_links(
    std::span<const int64_t> indptr,
    std::span<const int32_t> indices,
    std::span<int64_t> ids,
    LinkIds kind
) {
  return number(indptr, indices, ids, kind);
}

Status number_links(
    std::span<const int64_t> indptr,
    std::span<const int64_t> indices,
    std::span<int64_t> ids,
    LinkIds kind
) {
  return number(indptr, indices, ids, kind);
}

}  // namespace gnn::data
