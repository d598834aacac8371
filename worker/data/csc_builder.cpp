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

bool wants_ids(const CscOptions& options) {
  return options.edge_ids || options.link_ids != LinkIds::No;
}

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
  if (wants_ids(options) &&
      (options.self_loops == SelfLoops::Add || options.self_loops == SelfLoops::AddRemaining)) {
    return fail(
        ErrorKind::Configuration,
        "added self-loops have no edge ids, and so can't be links: choose one of the two"
    );
  }
  const bool loops_added =
      options.self_loops == SelfLoops::Add || options.self_loops == SelfLoops::AddRemaining;
  GNN_ASSERT(
      options.max_pairs == 0 || (options.to_undirected && !wants_ids(options) && !loops_added),
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

// Neighbour lists under construction, or a part of them.
template <class Index>
struct Lists {
  std::span<Index> indices;
  std::span<int64_t> edge_ids;  // empty if they are not wanted
};

// The nodes [first, last), whose lists take the places [begin, end) before duplicates are removed.
struct NodeRange {
  size_t first = 0;
  size_t last = 0;
  int64_t begin = 0;
  int64_t end = 0;

  [[nodiscard]] size_t size() const { return static_cast<size_t>(end - begin); }
};

// The nodes from `previous.last` on whose lists have at most `most` places, at least one node.
// indptr[v] is the end of v's list.
NodeRange next_range(std::span<const int64_t> indptr, const NodeRange& previous, int64_t most) {
  NodeRange range{
      .first = previous.last, .last = previous.last + 1, .begin = previous.end, .end = previous.end
  };
  const size_t nodes = indptr.size() - 1;
  while (range.last < nodes && indptr[range.last] - range.begin <= most) {
    ++range.last;
  }
  range.end = indptr[range.last - 1];
  return range;
}

// Sorts one list. `pairs` is memory that is used again.
template <class Index>
void sort_list(const Lists<Index>& list, std::vector<std::pair<Index, int64_t>>& pairs) {
  if (list.edge_ids.empty()) {
    std::sort(list.indices.begin(), list.indices.end());
    return;
  }
  pairs.clear();
  for (size_t edge = 0; edge < list.indices.size(); ++edge) {
    pairs.emplace_back(list.indices[edge], list.edge_ids[edge]);
  }
  std::sort(pairs.begin(), pairs.end());
  for (size_t edge = 0; edge < pairs.size(); ++edge) {
    list.indices[edge] = pairs[edge].first;
    list.edge_ids[edge] = pairs[edge].second;
  }
}

// Places and sorts the edges, range by range. indptr[v] is first the end of v's list, where it ends
// with its duplicates; at last the begin of v's list without them.
template <class Index>
class ListMaker {
 public:
  ListMaker(
      const EdgeSource& edges,
      const CscOptions& options,
      std::span<int64_t> indptr,
      const Lists<Index>& out,
      ProgressBar& progress
  )
      : edges_(edges), options_(options), indptr_(indptr), out_(out), progress_(progress) {
    if (options.input_ids.defined()) {
      input_ids_ = options.input_ids.view<int64_t>();
    }
  }

  // Makes all lists and returns their length: in place if they take no more than `memory_bytes`,
  // else in memory of that size, since random writes to a file that is larger than memory would read
  // and write each of its pages many times.
  int64_t make(int64_t memory_bytes);

 private:
  // Puts the edges that end in the range into `lists`, which has its places. indptr[v] moves to the
  // begin of v's list.
  void place(const NodeRange& range, const Lists<Index>& lists);
  // Sorts the lists, removes duplicates if asked to, and appends the lists to the result.
  void append(const NodeRange& range, const Lists<Index>& lists);

  const EdgeSource& edges_;
  const CscOptions& options_;
  std::span<int64_t> indptr_;
  Lists<Index> out_;
  ProgressBar& progress_;
  std::span<const int64_t> input_ids_;  // by position; empty if ids are positions
  int64_t written_ = 0;
};

template <class Index>
int64_t ListMaker<Index>::make(int64_t memory_bytes) {
  const bool with_ids = !out_.edge_ids.empty();
  const auto place_bytes = static_cast<int64_t>(sizeof(Index) + (with_ids ? sizeof(int64_t) : 0));
  const int64_t most = memory_bytes / place_bytes;
  const bool in_place = static_cast<int64_t>(out_.indices.size()) <= most;
  std::vector<Index> indices;
  std::vector<int64_t> edge_ids;
  NodeRange range;
  while (range.last + 1 < indptr_.size()) {
    range = next_range(indptr_, range, most);
    Lists<Index> lists = out_;
    if (!in_place) {
      indices.resize(range.size());
      edge_ids.resize(with_ids ? range.size() : 0);
      lists = {.indices = indices, .edge_ids = edge_ids};
    }
    place(range, lists);
    append(range, lists);
  }
  indptr_.back() = written_;
  return written_;
}

template <class Index>
void ListMaker<Index>::place(const NodeRange& range, const Lists<Index>& lists) {
  int64_t seen = 0;
  int64_t placed = 0;
  progress_.begin("placing", range.end - range.begin, "edges");
  for_each_final_edge(edges_, options_, [&](int64_t source, int64_t destination, int64_t position) {
    if (++seen % kProgressStep == 0) {
      progress_.advance_to(placed);
    }
    const auto node = static_cast<size_t>(destination);
    if (node < range.first || node >= range.last) {
      return;
    }
    const auto slot = static_cast<size_t>(--indptr_[node] - range.begin);
    lists.indices[slot] = static_cast<Index>(source);
    if (!lists.edge_ids.empty()) {
      lists.edge_ids[slot] =
          input_ids_.empty() ? position : input_ids_[static_cast<size_t>(position)];
    }
    ++placed;
  });
  progress_.advance_to(placed);
  progress_.end();
}

template <class Index>
void ListMaker<Index>::append(const NodeRange& range, const Lists<Index>& lists) {
  const bool drop_duplicates = options_.coalesce || options_.to_undirected;
  const bool with_ids = !lists.edge_ids.empty();
  std::vector<std::pair<Index, int64_t>> pairs;
  int64_t begin = range.begin;
  progress_.begin("sorting", range.end - range.begin, "edges");
  for (size_t node = range.first; node < range.last; ++node) {
    const int64_t end = node + 1 < range.last ? indptr_[node + 1] : range.end;
    const auto at = static_cast<size_t>(begin - range.begin);
    const auto count = static_cast<size_t>(end - begin);
    const Lists<Index> list{
        .indices = lists.indices.subspan(at, count),
        .edge_ids = with_ids ? lists.edge_ids.subspan(at, count) : std::span<int64_t>()
    };
    sort_list(list, pairs);
    const int64_t first = written_;
    for (size_t edge = 0; edge < count; ++edge) {
      const Index index = list.indices[edge];
      if (drop_duplicates && written_ > first &&
          out_.indices[static_cast<size_t>(written_ - 1)] == index) {
        continue;
      }
      if (with_ids) {
        out_.edge_ids[static_cast<size_t>(written_)] = list.edge_ids[edge];
      }
      out_.indices[static_cast<size_t>(written_++)] = index;
    }
    begin = end;
    indptr_[node] = first;
    if ((node & 0xFFFU) == 0) {
      progress_.advance_to(begin - range.begin);
    }
  }
  progress_.advance_to(begin - range.begin);
  progress_.end();
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
  if (with_ids) {
    GNN_ASSIGN_OR_RETURN(csc.edge_ids, storage.create(name + ".edge_ids", DType::Int64, {total}));
    edge_ids = csc.edge_ids.mutable_view<int64_t>();
  }
  const auto fill = [&]<class Index>(std::span<Index> indices) {
    const Lists<Index> out{.indices = indices, .edge_ids = edge_ids};
    const int64_t length =
        ListMaker<Index>(edges, options, indptr, out, progress).make(storage.memory_bytes());
    return options.max_pairs > 0 ? drop_pairs<Index>(indptr, indices, options.max_pairs) : length;
  };
  const int64_t left = narrow ? fill(csc.indices.mutable_view<int32_t>())
                              : fill(csc.indices.mutable_view<int64_t>());
  if (options.link_ids != LinkIds::No) {
    const auto count = static_cast<size_t>(left);
    const std::span<int64_t> ids = edge_ids.first(count);
    GNN_RETURN_IF_ERROR(
        narrow
            ? number_links(indptr, csc.indices.view<int32_t>().first(count), ids, options.link_ids)
            : number_links(indptr, csc.indices.view<int64_t>().first(count), ids, options.link_ids)
    );
  }
  GNN_ASSIGN_OR_RETURN(csc.indptr, storage.commit(std::move(csc.indptr)));
  GNN_ASSIGN_OR_RETURN(csc.indices, storage.commit(std::move(csc.indices), left));
  if (with_ids) {
    GNN_ASSIGN_OR_RETURN(csc.edge_ids, storage.commit(std::move(csc.edge_ids), left));
  }
  return csc;
}

}  // namespace gnn::data
