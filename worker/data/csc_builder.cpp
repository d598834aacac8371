#include "worker/data/csc_builder.h"

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

// Calls visit(source, destination, position) for every edge of the result, duplicates included.
// The position of an added self-loop is -1.
template <class Visit>
void for_each_final_edge(const EdgeSource& edges, const CscOptions& options, const Visit& visit) {
  const bool drop_loops =
      options.self_loops == SelfLoops::Remove || options.self_loops == SelfLoops::AddRemaining;
  int64_t position = 0;
  edges.for_each_chunk([&](std::span<const int64_t> sources,
                           std::span<const int64_t> destinations) {
    for (size_t i = 0; i < sources.size(); ++i, ++position) {
      const int64_t source = sources[i];
      const int64_t destination = destinations[i];
      if (drop_loops && source == destination) {
        continue;
      }
      visit(source, destination, position);
      if (options.to_undirected) {
        visit(destination, source, position);
      }
    }
  });
  if (options.self_loops == SelfLoops::Add || options.self_loops == SelfLoops::AddRemaining) {
    for (int64_t node = 0; node < options.num_destinations; ++node) {
      visit(node, node, -1);
    }
  }
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
  if (options.edge_ids &&
      (options.self_loops == SelfLoops::Add || options.self_loops == SelfLoops::AddRemaining)) {
    return fail(
        ErrorKind::Configuration, "added self-loops have no edge ids: choose one of the two"
    );
  }
  const bool loops_added =
      options.self_loops == SelfLoops::Add || options.self_loops == SelfLoops::AddRemaining;
  GNN_ASSERT(
      options.max_pairs == 0 || (options.to_undirected && !options.edge_ids && !loops_added),
      "only generators limit the number of pairs"
  );
  return {};
}

// Counts in-degrees, duplicates included, into indptr[0 .. n), checking each id.
Status count_degrees(
    const EdgeSource& edges,
    const CscOptions& options,
    std::span<int64_t> indptr,
    ProgressBar& progress
) {
  const bool drop_loops =
      options.self_loops == SelfLoops::Remove || options.self_loops == SelfLoops::AddRemaining;
  const bool add_loops =
      options.self_loops == SelfLoops::Add || options.self_loops == SelfLoops::AddRemaining;
  int64_t position = 0;
  std::optional<int64_t> bad_position;
  std::array<int64_t, 2> bad{};
  progress.begin("counting", edges.num_edges(), "edges");
  edges.for_each_chunk([&](std::span<const int64_t> sources,
                           std::span<const int64_t> destinations) {
    for (size_t i = 0; i < sources.size() && !bad_position; ++i) {
      const int64_t source = sources[i];
      const int64_t destination = destinations[i];
      if (source < 0 || source >= options.num_sources || destination < 0 ||
          destination >= options.num_destinations) {
        bad_position = position + static_cast<int64_t>(i);
        bad = {source, destination};
      } else if (!drop_loops || source != destination) {
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
  if (bad_position) {
    return fail(
        ErrorKind::Data,
        edges.where(*bad_position) + ": expected node ids in [0, " +
            std::to_string(options.num_sources) + ")" +
            (options.num_sources == options.num_destinations
                 ? ""
                 : " and [0, " + std::to_string(options.num_destinations) + ")") +
            ", found " + std::to_string(bad[0]) + "," + std::to_string(bad[1])
    );
  }
  for (int64_t node = 0; add_loops && node < options.num_destinations; ++node) {
    ++indptr[static_cast<size_t>(node)];
  }
  return {};
}

// Sorts each list in place, removes duplicates if asked to, closes the gaps and returns the number
// of edges left.
template <class Index>
int64_t sort_lists(
    std::span<int64_t> indptr,
    std::span<Index> indices,
    std::span<int64_t> edge_ids,
    bool drop_duplicates,
    ProgressBar& progress
) {
  const size_t nodes = indptr.size() - 1;
  std::vector<std::pair<Index, int64_t>> list;
  int64_t written = 0;
  int64_t begin = 0;
  progress.begin("sorting", static_cast<int64_t>(indices.size()), "edges");
  for (size_t node = 0; node < nodes; ++node) {
    const int64_t end = indptr[node + 1];
    const auto from = indices.begin() + begin;
    const auto to = indices.begin() + end;
    const int64_t first = written;
    if (edge_ids.empty()) {
      std::sort(from, to);
      for (auto at = from; at != to; ++at) {
        const Index index = *at;
        if (!drop_duplicates || written == first ||
            indices[static_cast<size_t>(written - 1)] != index) {
          indices[static_cast<size_t>(written++)] = index;
        }
      }
    } else {
      list.clear();
      for (int64_t edge = begin; edge < end; ++edge) {
        list.emplace_back(indices[static_cast<size_t>(edge)], edge_ids[static_cast<size_t>(edge)]);
      }
      std::sort(list.begin(), list.end());
      for (const auto& [index, id] : list) {
        if (!drop_duplicates || written == first ||
            indices[static_cast<size_t>(written - 1)] != index) {
          indices[static_cast<size_t>(written)] = index;
          edge_ids[static_cast<size_t>(written++)] = id;
        }
      }
    }
    begin = end;
    indptr[node] = first;
    if ((node & 0xFFFU) == 0) {
      progress.advance_to(begin);
    }
  }
  indptr[nodes] = written;
  progress.advance_to(begin);
  progress.end();
  return written;
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

template <class Index>
int64_t fill_and_sort(
    const EdgeSource& edges,
    const CscOptions& options,
    std::span<int64_t> indptr,
    std::span<Index> indices,
    std::span<int64_t> edge_ids,
    ProgressBar& progress
) {
  int64_t filled = 0;
  progress.begin("placing", static_cast<int64_t>(indices.size()), "edges");
  // indptr[v] starts at the end of v's list and moves down to its begin.
  for_each_final_edge(edges, options, [&](int64_t source, int64_t destination, int64_t position) {
    const auto slot = static_cast<size_t>(--indptr[static_cast<size_t>(destination)]);
    indices[slot] = static_cast<Index>(source);
    if (!edge_ids.empty()) {
      edge_ids[slot] = position;
    }
    if (++filled % kProgressStep == 0) {
      progress.advance_to(filled);
    }
  });
  progress.advance_to(filled);
  progress.end();
  const int64_t left = sort_lists<Index>(
      indptr, indices, edge_ids, options.coalesce || options.to_undirected, progress
  );
  return options.max_pairs > 0 ? drop_pairs<Index>(indptr, indices, options.max_pairs) : left;
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

Result<CscArrays> build_csc(
    const EdgeSource& edges,
    const CscOptions& options,
    ArrayStorage& storage,
    const std::string& name,
    ProgressBar& progress
) {
  GNN_RETURN_IF_ERROR(check_options(options));
  GNN_ASSIGN_OR_RETURN(CscArrays csc, find_csc(storage, name, options.edge_ids));
  if (csc.indptr.defined()) {
    return csc;
  }
  // 1. Count.
  GNN_ASSIGN_OR_RETURN(
      csc.indptr, storage.create(name + ".indptr", DType::Int64, {options.num_destinations + 1})
  );
  const std::span<int64_t> indptr = csc.indptr.mutable_view<int64_t>();
  GNN_RETURN_IF_ERROR(count_degrees(edges, options, indptr, progress));
  // 2. Make each entry the end of its list.
  int64_t total = 0;
  for (int64_t& entry : indptr) {
    total += entry;
    entry = total;
  }
  // 3. Place and sort.
  const bool narrow = options.num_sources <= std::numeric_limits<int32_t>::max();
  GNN_ASSIGN_OR_RETURN(
      csc.indices, storage.create(name + ".indices", narrow ? DType::Int32 : DType::Int64, {total})
  );
  std::span<int64_t> edge_ids;
  if (options.edge_ids) {
    GNN_ASSIGN_OR_RETURN(csc.edge_ids, storage.create(name + ".edge_ids", DType::Int64, {total}));
    edge_ids = csc.edge_ids.mutable_view<int64_t>();
  }
  const int64_t left =
      narrow ? fill_and_sort<int32_t>(
                   edges, options, indptr, csc.indices.mutable_view<int32_t>(), edge_ids, progress
               )
             : fill_and_sort<int64_t>(
                   edges, options, indptr, csc.indices.mutable_view<int64_t>(), edge_ids, progress
               );
  GNN_ASSIGN_OR_RETURN(csc.indptr, storage.commit(std::move(csc.indptr)));
  GNN_ASSIGN_OR_RETURN(csc.indices, storage.commit(std::move(csc.indices), left));
  if (options.edge_ids) {
    GNN_ASSIGN_OR_RETURN(csc.edge_ids, storage.commit(std::move(csc.edge_ids), left));
  }
  return csc;
}

}  // namespace gnn::data
