#include "worker/data/link_ids.h"

#include "worker/data/csc_builder.h"
#include "worker/data/scratch_storage.h"

#include <algorithm>
#include <bit>
#include <limits>
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

// join_directions() for lists in files. If all edges have their reverse, the lists of the reversed
// edges are the same lists, and their ids those of the reverse.
Result<int64_t> join_directions_in_order(
    const LinkLists& lists, Array& ids, ArrayStorage& storage, ProgressBar& progress
) {
  const int64_t nodes = lists.indptr.size(0) - 1;
  const CscEdges edges(lists.indptr, lists.indices);
  ScratchStorage scratch(storage);
  GNN_ASSIGN_OR_RETURN(
      const CscArrays reversed,
      build_csc(
          ReversedEdges(edges),
          {.num_sources = nodes, .num_destinations = nodes, .edge_ids = true, .input_ids = ids},
          scratch,
          "reversed",
          progress
      )
  );
  const auto same = [](const Array& one, const Array& other) {
    return std::equal(one.bytes(), one.bytes() + one.num_bytes(), other.bytes());
  };
  if (!same(lists.indptr, reversed.indptr) || !same(lists.indices, reversed.indices)) {
    return int64_t{-1};
  }
  const std::span<int64_t> own = ids.mutable_view<int64_t>();
  const std::span<const int64_t> other = reversed.edge_ids.view<int64_t>();
  int64_t count = 0;
  size_t entry = 0;
  edges.for_each_chunk([&](std::span<const int64_t> sources,
                           std::span<const int64_t> destinations) {
    for (size_t i = 0; i < sources.size(); ++i, ++entry) {
      own[entry] = std::min(own[entry], other[entry]);
      count += sources[i] <= destinations[i] ? 1 : 0;
    }
  });
  return count;
}

// Replaces each id by the number of smaller ones, and checks that there are `expected` ids. Takes a
// quarter of a byte for each of `ids_at_once`, and two passes for so many possible ids.
Status close_gaps(std::span<int64_t> ids, int64_t expected, int64_t ids_at_once) {
  const auto most = kMostIdsPerEdge * static_cast<int64_t>(ids.size());
  const auto [smallest, largest] = std::minmax_element(ids.begin(), ids.end());
  if (*smallest < 0 || *largest > most) {
    return fail(
        ErrorKind::Data,
        "expected edge ids in [0, " + std::to_string(most) + "], found " +
            std::to_string(*smallest < 0 ? *smallest : *largest)
    );
  }
  int64_t count = 0;
  const int64_t end_of_ids = *largest + 1;
  std::vector<uint64_t> taken;
  std::vector<int64_t> smaller;  // number of ids before each word
  for (int64_t begin = 0; begin < end_of_ids; begin += ids_at_once) {
    const int64_t size = std::min(ids_at_once, end_of_ids - begin);
    // Ids that were replaced are below the range: their number is no larger than they were.
    const auto in_range = [begin, size](int64_t id) { return id >= begin && id - begin < size; };
    const auto bit_of = [](size_t place) { return uint64_t{1} << (place % kWordBits); };
    taken.assign(static_cast<size_t>(size) / kWordBits + 1, 0);
    smaller.resize(taken.size());
    for (const int64_t id : ids) {
      if (in_range(id)) {
        const auto place = static_cast<size_t>(id - begin);
        taken[place / kWordBits] |= bit_of(place);
      }
    }
    for (size_t word = 0; word < taken.size(); ++word) {
      smaller[word] = count;
      count += std::popcount(taken[word]);
    }
    for (int64_t& id : ids) {
      if (in_range(id)) {
        const auto place = static_cast<size_t>(id - begin);
        const uint64_t below = taken[place / kWordBits] & (bit_of(place) - 1);
        id = smaller[place / kWordBits] + std::popcount(below);
      }
    }
  }
  if (count != expected) {
    return fail(
        ErrorKind::Data,
        "expected " + std::to_string(expected) + " different edge ids, one for each edge, found " +
            std::to_string(count)
    );
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
  return close_gaps(
      ids,
      undirected < 0 ? static_cast<int64_t>(ids.size()) : undirected,
      std::numeric_limits<int64_t>::max()
  );
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

Status number_links(
    const LinkLists& lists, Array ids, LinkIds kind, ArrayStorage& storage, ProgressBar& progress
) {
  const auto indptr = lists.indptr.view<int64_t>();
  const std::span<int64_t> numbers = ids.mutable_view<int64_t>();
  if (storage.memory_bytes() == std::numeric_limits<int64_t>::max()) {
    return lists.indices.dtype() == DType::Int32
               ? number(indptr, lists.indices.view<int32_t>(), numbers, kind)
               : number(indptr, lists.indices.view<int64_t>(), numbers, kind);
  }
  if (numbers.empty() || kind == LinkIds::No) {
    return {};
  }
  int64_t edges = -1;
  if (kind == LinkIds::WithinType) {
    GNN_ASSIGN_OR_RETURN(edges, join_directions_in_order(lists, ids, storage, progress));
  }
  constexpr int64_t kFewestIds = 64;
  return close_gaps(
      numbers,
      edges < 0 ? static_cast<int64_t>(numbers.size()) : edges,
      std::max(storage.memory_bytes(), kFewestIds)
  );
}

}  // namespace gnn::data
