#include "worker/data/csc_builder.h"

#include "worker/data/csc_lists.h"
#include "worker/data/edge_buckets.h"
#include "worker/data/scratch_storage.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace gnn::data {
namespace {

constexpr int64_t kChunk = 4096;
constexpr int64_t kProgressStep = int64_t{1} << 20;

bool wants_ids(const CscOptions& options) {
  return options.edge_ids || options.link_ids != LinkIds::No;
}

bool drops_loops(const CscOptions& options) {
  return options.self_loops == SelfLoops::Remove || options.self_loops == SelfLoops::AddRemaining;
}

bool adds_loops(const CscOptions& options) {
  return options.self_loops == SelfLoops::Add || options.self_loops == SelfLoops::AddRemaining;
}

bool drops_duplicates(const CscOptions& options) {
  return options.coalesce || options.to_undirected;
}

Status check_options(const CscOptions& options) {
  if (options.num_sources <= 0 || options.num_destinations <= 0) {
    return fail(
        ErrorKind::Data,
        "expected a graph with at least one node, found " + std::to_string(options.num_sources) +
            " sources and " + std::to_string(options.num_destinations) + " destinations"
    );
  }
  const bool same_type = options.num_sources == options.num_destinations;
  if (!same_type && (options.to_undirected || options.self_loops != SelfLoops::Keep)) {
    return fail(
        ErrorKind::Configuration,
        "reverse edges and self-loops need a graph whose sources and destinations are the same "
        "nodes"
    );
  }
  if (wants_ids(options) && adds_loops(options)) {
    return fail(
        ErrorKind::Configuration,
        "added self-loops have no edge ids, and so can't be links: choose one of the two"
    );
  }
  GNN_ASSERT(
      options.max_pairs == 0 ||
          (options.to_undirected && !wants_ids(options) && !adds_loops(options)),
      "only generators limit the number of pairs"
  );
  return {};
}

// An edge whose ends are no nodes.
struct BadEdge {
  int64_t position;
  int64_t source;
  int64_t destination;
};

tl::unexpected<Error> out_of_range(
    const EdgeSource& edges, const CscOptions& options, const BadEdge& bad
) {
  return fail(
      ErrorKind::Data,
      edges.where(bad.position) + ": expected node ids in [0, " +
          std::to_string(options.num_sources) + ")" +
          (options.num_sources == options.num_destinations
               ? ""
               : " and [0, " + std::to_string(options.num_destinations) + ")") +
          ", found " + std::to_string(bad.source) + "," + std::to_string(bad.destination)
  );
}

bool is_in_range(const CscOptions& options, int64_t source, int64_t destination) {
  return source >= 0 && source < options.num_sources && destination >= 0 &&
         destination < options.num_destinations;
}

// By position; empty if ids are positions.
std::span<const int64_t> ids_of_input(const CscOptions& options) {
  return options.input_ids.defined() ? options.input_ids.view<int64_t>()
                                     : std::span<const int64_t>();
}

// Counts in-degrees, duplicates included, into indptr[0 .. n), checking each id.
Status count_degrees(
    const EdgeSource& edges,
    const CscOptions& options,
    std::span<int64_t> indptr,
    ProgressBar& progress
) {
  int64_t position = 0;
  std::optional<BadEdge> bad;
  progress.begin("counting", edges.num_edges(), "edges");
  edges.for_each_chunk([&](std::span<const int64_t> sources,
                           std::span<const int64_t> destinations) {
    for (size_t i = 0; i < sources.size() && !bad; ++i) {
      const int64_t source = sources[i];
      const int64_t destination = destinations[i];
      if (!is_in_range(options, source, destination)) {
        bad = {position + static_cast<int64_t>(i), source, destination};
      } else if (!drops_loops(options) || source != destination) {
        ++indptr[static_cast<size_t>(destination)];
        if (options.to_undirected) {
          ++indptr[static_cast<size_t>(source)];
        }
      }
    }
    position += static_cast<int64_t>(sources.size());
    progress.advance_to(position, {});
  });
  progress.end();
  if (bad) {
    return out_of_range(edges, options, *bad);
  }
  for (int64_t node = 0; adds_loops(options) && node < options.num_destinations; ++node) {
    ++indptr[static_cast<size_t>(node)];
  }
  return {};
}

// Calls visit(source, destination, position) for every edge of the result, duplicates included.
// The position of an added self-loop is -1.
template <class Visit>
void for_each_final_edge(const EdgeSource& edges, const CscOptions& options, const Visit& visit) {
  int64_t position = 0;
  edges.for_each_chunk([&](std::span<const int64_t> sources,
                           std::span<const int64_t> destinations) {
    for (size_t i = 0; i < sources.size(); ++i, ++position) {
      const int64_t source = sources[i];
      const int64_t destination = destinations[i];
      if (drops_loops(options) && source == destination) {
        continue;
      }
      visit(source, destination, position);
      if (options.to_undirected) {
        visit(destination, source, position);
      }
    }
  });
  for (int64_t node = 0; adds_loops(options) && node < options.num_destinations; ++node) {
    visit(node, node, -1);
  }
}

// Makes the lists in the result's own memory, which is not limited: counts, places and sorts. At first
// indptr[v] counts the edges of v's list, then is its end, and at last its begin without duplicates.
template <class Index>
Result<int64_t> fill_in_memory(
    const EdgeSource& edges,
    const CscOptions& options,
    std::span<int64_t> indptr,
    const Lists<Index>& out,
    ProgressBar& progress
) {
  const std::span<const int64_t> input_ids = ids_of_input(options);
  const auto total = static_cast<int64_t>(out.indices.size());
  int64_t seen = 0;
  progress.begin("placing", total, "edges");
  for_each_final_edge(edges, options, [&](int64_t source, int64_t destination, int64_t position) {
    const auto slot = static_cast<size_t>(--indptr[static_cast<size_t>(destination)]);
    out.indices[slot] = static_cast<Index>(source);
    if (!out.edge_ids.empty()) {
      out.edge_ids[slot] = input_ids.empty() ? position : input_ids[static_cast<size_t>(position)];
    }
    if (++seen % kProgressStep == 0) {
      progress.advance_to(seen);
    }
  });
  progress.advance_to(seen);
  progress.end();
  ListAppender<Index> appender(out, drops_duplicates(options), progress);
  const ListRange all{.first = 0, .last = indptr.size() - 1, .begin = 0, .end = total};
  progress.begin("sorting", total, "edges");
  appender.append(all, out, indptr, indptr);
  progress.end();
  indptr.back() = appender.written();
  return appender.written();
}

// Removes undirected edges until `wanted` are left and returns the number of list entries left.
// Lists are ascending, symmetric and without self-loops.
template <class Index>
int64_t drop_pairs(std::span<int64_t> indptr, std::span<Index> indices, int64_t wanted) {
  const auto nodes = static_cast<Index>(indptr.size() - 1);
  const int64_t pairs = indptr.back() / 2;
  const int64_t surplus = pairs - wanted;
  if (surplus <= 0) {
    return indptr.back();
  }
  // 1. Mark every (pairs / surplus)-th edge at both ends by its complement, which is negative.
  const auto plain = [](Index index) { return index < 0 ? static_cast<Index>(~index) : index; };
  const auto mark = [&](Index list, Index member) {
    const auto from = indices.begin() + indptr[static_cast<size_t>(list)];
    const auto to = indices.begin() + indptr[static_cast<size_t>(list) + 1];
    const auto at = std::lower_bound(from, to, member, [&](Index entry, Index value) {
      return plain(entry) < value;
    });
    GNN_ASSERT(at != to && plain(*at) == member, "every edge has its reverse");
    *at = static_cast<Index>(~member);
  };
  int64_t credit = 0;
  for (Index node = 0; node < nodes; ++node) {
    for (int64_t edge = indptr[static_cast<size_t>(node)];
         edge < indptr[static_cast<size_t>(node) + 1];
         ++edge) {
      const Index other = plain(indices[static_cast<size_t>(edge)]);
      if (other > node) {
        break;
      }
      credit += surplus;
      if (credit >= pairs) {
        credit -= pairs;
        indices[static_cast<size_t>(edge)] = static_cast<Index>(~other);
        mark(other, node);
      }
    }
  }
  // 2. Close the gaps.
  int64_t written = 0;
  int64_t begin = 0;
  for (size_t node = 0; node + 1 < indptr.size(); ++node) {
    const int64_t end = indptr[node + 1];
    indptr[node] = written;
    for (int64_t edge = begin; edge < end; ++edge) {
      if (const Index index = indices[static_cast<size_t>(edge)]; index >= 0) {
        indices[static_cast<size_t>(written++)] = index;
      }
    }
    begin = end;
  }
  indptr.back() = written;
  return written;
}

// Of lists that are ascending, symmetric and without self-loops, the edges that drop_pairs() removes,
// in both directions.
template <class Index>
class SurplusPairs final : public EdgeSource {
 public:
  SurplusPairs(std::span<const int64_t> indptr, std::span<const Index> indices, int64_t wanted)
      : indptr_(indptr), indices_(indices), surplus_(indptr.back() / 2 - wanted) {}

  [[nodiscard]] int64_t num_edges() const override { return 2 * surplus_; }
  void for_each_chunk(const Chunk& chunk) const override {
    const int64_t pairs = indptr_.back() / 2;
    int64_t credit = 0;
    for (size_t node = 0; node + 1 < indptr_.size(); ++node) {
      const auto end = static_cast<int64_t>(node);
      for (int64_t edge = indptr_[node]; edge < indptr_[node + 1]; ++edge) {
        const int64_t other = indices_[static_cast<size_t>(edge)];
        if (other > end) {
          break;
        }
        credit += surplus_;
        if (credit >= pairs) {
          credit -= pairs;
          chunk(std::array{end, other}, std::array{other, end});
        }
      }
    }
  }

 private:
  std::span<const int64_t> indptr_;
  std::span<const Index> indices_;
  int64_t surplus_;
};

// drop_pairs() for lists in files: the lists of what is to go are made, and then taken out of them in
// one pass.
template <class Index>
Result<int64_t> drop_pairs_in_order(
    std::span<int64_t> indptr,
    std::span<Index> indices,
    const CscOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  if (indptr.back() / 2 <= options.max_pairs) {
    return indptr.back();
  }
  const SurplusPairs<Index> surplus(indptr, indices, options.max_pairs);
  const CscOptions plain{
      .num_sources = options.num_sources, .num_destinations = options.num_destinations
  };
  ScratchStorage scratch(storage);
  GNN_ASSIGN_OR_RETURN(
      const CscArrays gone, build_csc(surplus, plain, scratch, "surplus", progress)
  );
  const auto gone_indices = gone.indices.view<Index>();
  size_t next_gone = 0;  // both are in the same order
  int64_t written = 0;
  int64_t begin = 0;
  const auto gone_indptr = gone.indptr.view<int64_t>();
  for (size_t node = 0; node + 1 < indptr.size(); ++node) {
    const int64_t end = indptr[node + 1];
    const auto last_gone = static_cast<size_t>(gone_indptr[node + 1]);
    indptr[node] = written;
    for (int64_t edge = begin; edge < end; ++edge) {
      const Index index = indices[static_cast<size_t>(edge)];
      if (next_gone < last_gone && gone_indices[next_gone] == index) {
        ++next_gone;
      } else {
        indices[static_cast<size_t>(written++)] = index;
      }
    }
    begin = end;
  }
  indptr.back() = written;
  return written;
}

template <class Id>
struct BareEdge {
  Id source;
  Id destination;
};
template <class Id>
struct NumberedEdge {
  Id source;
  Id destination;
  int64_t id;
};

// All edges of the result, checked and dealt to buckets.
template <class Edge>
Result<EdgeBuckets<Edge>> fill_buckets(
    const EdgeSource& edges, const CscOptions& options, ArrayStorage& storage, ProgressBar& progress
) {
  const std::span<const int64_t> input_ids = ids_of_input(options);
  const int64_t expected = edges.num_edges() * (options.to_undirected ? 2 : 1) +
                           (adds_loops(options) ? options.num_destinations : 0);
  EdgeBuckets<Edge> buckets(
      plan_buckets(
          expected, options.num_destinations, int64_t{sizeof(Edge)}, storage.memory_bytes()
      ),
      storage
  );
  std::optional<BadEdge> bad;
  Status status;
  int64_t seen = 0;
  progress.begin("dealing", expected, "edges");
  for_each_final_edge(edges, options, [&](int64_t source, int64_t destination, int64_t position) {
    if (bad || !status) {
      return;
    }
    if (!is_in_range(options, source, destination)) {
      bad = {position, source, destination};
      return;
    }
    Edge edge{};
    edge.source = static_cast<decltype(edge.source)>(source);
    edge.destination = static_cast<decltype(edge.destination)>(destination);
    if constexpr (requires { edge.id; }) {
      edge.id = input_ids.empty() ? position : input_ids[static_cast<size_t>(position)];
    }
    status = buckets.add(edge);
    if (++seen % kProgressStep == 0) {
      progress.advance_to(seen);
    }
  });
  progress.end();
  if (bad) {
    return out_of_range(edges, options, *bad);
  }
  GNN_RETURN_IF_ERROR(status);
  return buckets;
}

// Makes the lists of one bucket after the other, in memory, and writes the result in order. A bucket
// with too many edges takes several passes over it.
template <class Index, class Edge>
void fill_from_buckets(
    const EdgeBuckets<Edge>& buckets,
    const CscOptions& options,
    int64_t memory_bytes,
    std::span<int64_t> indptr,
    const Lists<Index>& out,
    ProgressBar& progress
) {
  const bool with_ids = !out.edge_ids.empty();
  const auto place_bytes = static_cast<int64_t>(sizeof(Index) + (with_ids ? sizeof(int64_t) : 0));
  const int64_t most = memory_bytes / 2 / place_bytes;
  ListAppender<Index> appender(out, drops_duplicates(options), progress);
  std::vector<int64_t> ends;  // of the bucket's lists; at last their begins
  // At once, as vectors that grow take several times their size. What is not used takes no memory.
  const auto room = static_cast<size_t>(std::min(most, buckets.num_edges()));
  std::vector<Index> indices;
  std::vector<int64_t> ids;
  indices.reserve(room);
  ids.reserve(with_ids ? room : 0);
  progress.begin("sorting", buckets.num_edges(), "edges");
  for (size_t bucket = 0; bucket < buckets.num_buckets(); ++bucket) {
    const int64_t first = buckets.first_destination(bucket);
    const int64_t last = bucket + 1 < buckets.num_buckets() ? buckets.first_destination(bucket + 1)
                                                            : options.num_destinations;
    ends.assign(static_cast<size_t>(last - first), 0);
    buckets.for_each(bucket, [&](const Edge& edge) {
      ++ends[static_cast<size_t>(edge.destination - first)];
    });
    int64_t total = 0;
    for (int64_t& end : ends) {
      total += end;
      end = total;
    }
    for (ListRange range; range.last < ends.size();) {
      range = next_range(ends, range, most);
      indices.resize(range.size());
      ids.resize(with_ids ? range.size() : 0);
      buckets.for_each(bucket, [&](const Edge& edge) {
        const auto list = static_cast<size_t>(edge.destination - first);
        if (list < range.first || list >= range.last) {
          return;
        }
        const auto slot = static_cast<size_t>(--ends[list] - range.begin);
        indices[slot] = static_cast<Index>(edge.source);
        if constexpr (requires { edge.id; }) {
          ids[slot] = edge.id;
        }
      });
      appender.append(
          range,
          {.indices = indices, .edge_ids = ids},
          ends,
          indptr.subspan(static_cast<size_t>(first), ends.size())
      );
    }
  }
  progress.end();
  indptr.back() = appender.written();
}

template <class Index>
void array_chunks(
    const Array& sources, const Array& destinations, int64_t count, const EdgeSource::Chunk& chunk
) {
  std::array<int64_t, kChunk> source{};
  std::array<int64_t, kChunk> destination{};
  const auto from = sources.view<Index>();
  const auto to = destinations.view<Index>();
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const auto size = static_cast<size_t>(std::min(kChunk, count - begin));
    for (size_t i = 0; i < size; ++i) {
      source[i] = from[static_cast<size_t>(begin) + i];
      destination[i] = to[static_cast<size_t>(begin) + i];
    }
    chunk(std::span(source).first(size), std::span(destination).first(size));
  }
}

template <class Index>
void csc_chunks(
    std::span<const int64_t> indptr, std::span<const Index> indices, const EdgeSource::Chunk& chunk
) {
  std::array<int64_t, kChunk> source{};
  std::array<int64_t, kChunk> destination{};
  size_t used = 0;
  for (size_t node = 0; node + 1 < indptr.size(); ++node) {
    for (int64_t edge = indptr[node]; edge < indptr[node + 1]; ++edge) {
      source[used] = indices[static_cast<size_t>(edge)];
      destination[used] = static_cast<int64_t>(node);
      if (++used == source.size()) {
        chunk(source, destination);
        used = 0;
      }
    }
  }
  if (used > 0) {
    chunk(std::span(source).first(used), std::span(destination).first(used));
  }
}

}  // namespace

ArrayEdges::ArrayEdges(
    Array sources, Array destinations, int64_t count, std::string where_prefix, int64_t first_number
)
    : sources_(std::move(sources)),
      destinations_(std::move(destinations)),
      count_(count),
      where_prefix_(std::move(where_prefix)),
      first_number_(first_number) {
  GNN_ASSERT(
      sources_.dtype() == destinations_.dtype() && count_ <= sources_.num_elements() &&
          count_ <= destinations_.num_elements(),
      "readers make both arrays alike"
  );
}

void ArrayEdges::for_each_chunk(const Chunk& chunk) const {
  if (sources_.dtype() == DType::Int32) {
    array_chunks<int32_t>(sources_, destinations_, count_, chunk);
  } else {
    array_chunks<int64_t>(sources_, destinations_, count_, chunk);
  }
}

std::string ArrayEdges::where(int64_t index) const {
  return where_prefix_ + std::to_string(index + first_number_);
}

void ReversedEdges::for_each_chunk(const Chunk& chunk) const {
  edges_.for_each_chunk([&chunk](
                            std::span<const int64_t> sources, std::span<const int64_t> destinations
                        ) { chunk(destinations, sources); });
}

CscEdges::CscEdges(Array indptr, Array indices)
    : indptr_(std::move(indptr)), indices_(std::move(indices)) {}

void CscEdges::for_each_chunk(const Chunk& chunk) const {
  if (indices_.dtype() == DType::Int32) {
    csc_chunks<int32_t>(indptr_.view<int64_t>(), indices_.view<int32_t>(), chunk);
  } else {
    csc_chunks<int64_t>(indptr_.view<int64_t>(), indices_.view<int64_t>(), chunk);
  }
}

Result<CscArrays> find_csc(ArrayStorage& storage, const std::string& name, bool edge_ids) {
  CscArrays found;
  GNN_ASSIGN_OR_RETURN(found.indptr, storage.find(name + ".indptr"));
  GNN_ASSIGN_OR_RETURN(found.indices, storage.find(name + ".indices"));
  if (edge_ids) {
    GNN_ASSIGN_OR_RETURN(found.edge_ids, storage.find(name + ".edge_ids"));
  }
  if (!found.indptr.defined() || !found.indices.defined() ||
      (edge_ids && !found.edge_ids.defined())) {
    return CscArrays{};
  }
  return found;
}

namespace {

// The arrays of a result before they are committed.
struct NewArrays {
  CscArrays csc;
  std::span<int64_t> indptr;
  std::span<int64_t> edge_ids;  // empty if they are not wanted
};

// Arrays for `total` edges. The index array has type Index.
template <class Index>
Status create_lists(
    NewArrays& arrays, int64_t total, bool with_ids, ArrayStorage& storage, const std::string& name
) {
  GNN_ASSIGN_OR_RETURN(
      arrays.csc.indices, storage.create(name + ".indices", DTypeOf<Index>::kValue, {total})
  );
  if (with_ids) {
    GNN_ASSIGN_OR_RETURN(
        arrays.csc.edge_ids, storage.create(name + ".edge_ids", DType::Int64, {total})
    );
    arrays.edge_ids = arrays.csc.edge_ids.template mutable_view<int64_t>();
  }
  return {};
}

Status create_indptr(
    NewArrays& arrays, const CscOptions& options, ArrayStorage& storage, const std::string& name
) {
  GNN_ASSIGN_OR_RETURN(
      arrays.csc.indptr,
      storage.create(name + ".indptr", DType::Int64, {options.num_destinations + 1})
  );
  arrays.indptr = arrays.csc.indptr.mutable_view<int64_t>();
  return {};
}

// Each returns the number of edges in the result, in the first places of the arrays.
template <class Index>
Result<int64_t> make_in_memory(
    const EdgeSource& edges,
    const CscOptions& options,
    ArrayStorage& storage,
    const std::string& name,
    NewArrays& arrays,
    ProgressBar& progress
) {
  GNN_RETURN_IF_ERROR(create_indptr(arrays, options, storage, name));
  GNN_RETURN_IF_ERROR(count_degrees(edges, options, arrays.indptr, progress));
  int64_t total = 0;
  for (int64_t& entry : arrays.indptr) {
    total += entry;
    entry = total;
  }
  GNN_RETURN_IF_ERROR(create_lists<Index>(arrays, total, wants_ids(options), storage, name));
  const std::span<Index> indices = arrays.csc.indices.mutable_view<Index>();
  GNN_ASSIGN_OR_RETURN(
      const int64_t length,
      fill_in_memory<Index>(
          edges, options, arrays.indptr, {.indices = indices, .edge_ids = arrays.edge_ids}, progress
      )
  );
  return options.max_pairs > 0 ? drop_pairs<Index>(arrays.indptr, indices, options.max_pairs)
                               : length;
}

template <class Index, class Edge>
Result<int64_t> make_by_buckets(
    const EdgeSource& edges,
    const CscOptions& options,
    ArrayStorage& storage,
    const std::string& name,
    NewArrays& arrays,
    ProgressBar& progress
) {
  std::span<Index> indices;
  {
    GNN_ASSIGN_OR_RETURN(
        const EdgeBuckets<Edge> buckets, fill_buckets<Edge>(edges, options, storage, progress)
    );
    GNN_RETURN_IF_ERROR(create_indptr(arrays, options, storage, name));
    GNN_RETURN_IF_ERROR(
        create_lists<Index>(arrays, buckets.num_edges(), wants_ids(options), storage, name)
    );
    indices = arrays.csc.indices.mutable_view<Index>();
    fill_from_buckets<Index>(
        buckets,
        options,
        storage.memory_bytes(),
        arrays.indptr,
        {.indices = indices, .edge_ids = arrays.edge_ids},
        progress
    );
  }
  if (options.max_pairs == 0) {
    return arrays.indptr.back();
  }
  return drop_pairs_in_order<Index>(arrays.indptr, indices, options, storage, progress);
}

// The way for this storage; ids of sources and destinations fit into Id, those of sources into Index.
template <class Index, class Id>
Result<int64_t> make_lists(
    const EdgeSource& edges,
    const CscOptions& options,
    ArrayStorage& storage,
    const std::string& name,
    NewArrays& arrays,
    ProgressBar& progress
) {
  if (storage.memory_bytes() == std::numeric_limits<int64_t>::max()) {
    return make_in_memory<Index>(edges, options, storage, name, arrays, progress);
  }
  return wants_ids(options) ? make_by_buckets<Index, NumberedEdge<Id>>(
                                  edges, options, storage, name, arrays, progress
                              )
                            : make_by_buckets<Index, BareEdge<Id>>(
                                  edges, options, storage, name, arrays, progress
                              );
}

}  // namespace

Result<CscArrays> build_csc(
    const EdgeSource& edges,
    const CscOptions& options,
    ArrayStorage& storage,
    const std::string& name,
    ProgressBar& progress
) {
  GNN_RETURN_IF_ERROR(check_options(options));
  const bool with_ids = wants_ids(options);
  GNN_ASSIGN_OR_RETURN(CscArrays csc, find_csc(storage, name, with_ids));
  if (csc.indptr.defined()) {
    return csc;
  }
  constexpr int64_t kMostNarrow = std::numeric_limits<int32_t>::max();
  const bool narrow_sources = options.num_sources <= kMostNarrow;
  const bool narrow = narrow_sources && options.num_destinations <= kMostNarrow;
  const auto make = narrow           ? &make_lists<int32_t, int32_t>
                    : narrow_sources ? &make_lists<int32_t, int64_t>
                                     : &make_lists<int64_t, int64_t>;
  NewArrays arrays;
  GNN_ASSIGN_OR_RETURN(const int64_t left, make(edges, options, storage, name, arrays, progress));
  csc = std::move(arrays.csc);
  if (options.link_ids != LinkIds::No) {
    GNN_RETURN_IF_ERROR(number_links(
        {.indptr = csc.indptr, .indices = first_of(csc.indices, left)},
        first_of(csc.edge_ids, left),
        options.link_ids,
        storage,
        progress
    ));
  }
  GNN_ASSIGN_OR_RETURN(csc.indptr, storage.commit(std::move(csc.indptr)));
  GNN_ASSIGN_OR_RETURN(csc.indices, storage.commit(std::move(csc.indices), left));
  if (with_ids) {
    GNN_ASSIGN_OR_RETURN(csc.edge_ids, storage.commit(std::move(csc.edge_ids), left));
  }
  return csc;
}

}  // namespace gnn::data
