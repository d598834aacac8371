#include "worker/data/co_occurrence.h"

#include "common/recycler.h"
#include "worker/data/csc_builder.h"
#include "worker/data/readers/edge_spool.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace gnn::data {
namespace {

constexpr int64_t kMaxAtLeast = int64_t{1} << 31U;
constexpr int64_t kRowsPerPiece = 256;
constexpr size_t kPairsPerFlush = size_t{1} << 16U;

// The edges that count, by destination.
template <class Index>
class VisibleEdges {
 public:
  VisibleEdges(const EdgeTable& edges, const CoOccurrenceOptions& options)
      : indptr_(edges.indptr.view<int64_t>()),
        indices_(edges.indices.view<Index>()),
        ends_(options.ends),
        mask_(options.mask) {
    if (edges.edge_ids.defined()) {
      edge_ids_ = edges.edge_ids.view<int64_t>();
    }
  }

  [[nodiscard]] size_t num_destinations() const { return indptr_.size() - 1; }

  // Calls visit(source) for each edge of the destination.
  template <class Visit>
  void for_each(size_t destination, const Visit& visit) const {
    const auto begin = static_cast<size_t>(indptr_[destination]);
    const auto end =
        static_cast<size_t>(ends_.empty() ? indptr_[destination + 1] : ends_[destination]);
    for (size_t place = begin; place < end; ++place) {
      if (mask_.empty() || mask_[id_at(place)] != 0) {
        visit(static_cast<size_t>(indices_[place]));
      }
    }
  }

 private:
  [[nodiscard]] size_t id_at(size_t place) const {
    return edge_ids_.empty() ? place : static_cast<size_t>(edge_ids_[place]);
  }

  std::span<const int64_t> indptr_;
  std::span<const Index> indices_;
  std::span<const int64_t> ends_;
  std::span<const uint8_t> mask_;
  std::span<const int64_t> edge_ids_;
};

// A non-zero element of M in its source's list.
struct Element {
  uint32_t rank;   // of the destination
  uint32_t count;  // of edges, at most at_least
};

// The destinations by falling number of edges, those of equal number by id.
struct Ranking {
  std::vector<uint32_t> order;  // by rank
  int64_t max_degree = 0;
};

template <class Index>
Ranking rank_by_degree(const VisibleEdges<Index>& edges) {
  std::vector<uint64_t> keys(edges.num_destinations());  // the degree's complement, then the id
  for (size_t node = 0; node < keys.size(); ++node) {
    uint32_t degree = 0;
    edges.for_each(node, [&](size_t) { degree += degree < UINT32_MAX ? 1 : 0; });
    keys[node] = (static_cast<uint64_t>(~degree) << 32U) | node;
  }
  std::sort(keys.begin(), keys.end());
  Ranking ranking;
  ranking.order.resize(keys.size());
  std::transform(keys.begin(), keys.end(), ranking.order.begin(), [](uint64_t key) {
    return static_cast<uint32_t>(key);
  });
  if (!ranking.order.empty()) {
    edges.for_each(ranking.order.front(), [&](size_t) { ++ranking.max_degree; });
  }
  return ranking;
}

// M by source: each list has ascending ranks.
struct SourceLists {
  std::vector<int64_t> starts;      // [number of sources + 1]
  std::vector<uint32_t> max_count;  // the largest count in the list
  Array memory;                     // of the elements
  int64_t num_sums = 0;             // products that the rows add up

  [[nodiscard]] const Element* elements() const {
    return reinterpret_cast<const Element*>(memory.bytes());
  }
};

template <class Index>
Result<SourceLists> make_lists(
    const VisibleEdges<Index>& edges,
    std::span<const uint32_t> order,
    const CoOccurrenceOptions& options,
    ArrayStorage& storage
) {
  constexpr uint32_t kNone = UINT32_MAX;
  const auto num_sources = static_cast<size_t>(options.num_sources);
  SourceLists lists;
  // 1. Count the elements. Equal edges stand together only within one part of a cut list.
  lists.starts.resize(num_sources + 1);
  lists.max_count.resize(num_sources);
  std::vector<uint32_t> last(num_sources, kNone);
  for (uint32_t rank = 0; rank < order.size(); ++rank) {
    edges.for_each(order[rank], [&](size_t source) {
      lists.starts[source + 1] += last[source] == rank ? 0 : 1;
      last[source] = rank;
    });
  }
  for (size_t source = 0; source < num_sources; ++source) {
    const int64_t size = lists.starts[source + 1];
    lists.num_sums += size * (size - 1) / 2;
    lists.starts[source + 1] += lists.starts[source];
  }
  // 2. Place them, by rank, so that each list becomes ascending. starts[u] moves to the end of u's
  // list.
  GNN_ASSIGN_OR_RETURN(lists.memory, storage.scratch(DType::Int32, {2 * lists.starts.back()}));
  auto* const elements = reinterpret_cast<Element*>(lists.memory.mutable_bytes());
  std::fill(last.begin(), last.end(), kNone);
  const auto most = static_cast<uint32_t>(options.at_least);
  for (uint32_t rank = 0; rank < order.size(); ++rank) {
    edges.for_each(order[rank], [&](size_t source) {
      if (last[source] != rank) {
        elements[lists.starts[source]++] = {.rank = rank, .count = 0};
        last[source] = rank;
      }
      // A product with a count of at_least is enough already; more could overflow the sums.
      uint32_t& count = elements[lists.starts[source] - 1].count;
      count = std::min(count + 1, most);
      lists.max_count[source] = std::max(lists.max_count[source], count);
    });
  }
  // 3. Move the ends back to the starts.
  std::move_backward(lists.starts.begin(), lists.starts.end() - 1, lists.starts.end());
  lists.starts.front() = 0;
  return lists;
}

// Joined pairs, collected from all threads.
class PairCollector {
 public:
  PairCollector(ArrayStorage& storage, std::span<const uint32_t> order)
      : spool_(storage, "co-occurring pair "), order_(order) {}

  struct Pair {
    uint32_t row;
    uint32_t column;
  };
  // Takes ranks, and leaves `pairs` empty.
  void take(std::vector<Pair>& pairs) {
    const std::lock_guard lock(mutex_);
    for (const Pair& pair : pairs) {
      if (status_) {
        status_ = spool_.add(order_[pair.row], order_[pair.column]);
      }
    }
    pairs.clear();
  }
  [[nodiscard]] Result<EdgeSpool> finish() {
    GNN_RETURN_IF_ERROR(status_);
    GNN_RETURN_IF_ERROR(spool_.finish());
    return std::move(spool_);
  }

 private:
  std::mutex mutex_;
  EdgeSpool spool_;
  Status status_;
  std::span<const uint32_t> order_;
};

// Adds up rows of M^T M, one thread's. Sums of earlier rows stay in place: they are at most `base_`,
// which rises from row to row, and count as zero.
template <class Index, class Sum>
class RowAdder {
 public:
  RowAdder(
      const VisibleEdges<Index>& edges,
      const SourceLists& lists,
      std::span<const uint32_t> order,
      int64_t at_least
  )
      : edges_(edges),
        lists_(lists),
        order_(order),
        at_least_(static_cast<Sum>(at_least)),
        sums_(order.size()) {}

  // Appends the pairs of the row with columns of lower rank number; returns how many products were
  // looked at.
  int64_t add(uint32_t rank, std::vector<PairCollector::Pair>& pairs) {
    // No sum of the row is larger.
    uint64_t bound = 0;
    edges_.for_each(order_[rank], [&](size_t source) { bound += lists_.max_count[source]; });
    if (bound < at_least_) {
      return 0;
    }
    if (bound > std::numeric_limits<Sum>::max() - base_) {
      std::fill(sums_.begin(), sums_.end(), Sum{0});
      base_ = 0;
    }
    const Element* const elements = lists_.elements();
    int64_t products = 0;
    size_t previous = std::numeric_limits<size_t>::max();
    Sum times = 0;
    const auto add_previous = [&] {
      if (times > 0) {
        products += add_list(elements + lists_.starts[previous], rank, times, pairs);
      }
    };
    edges_.for_each(order_[rank], [&](size_t source) {
      if (source != previous) {
        add_previous();
        previous = source;
        times = 0;
      }
      ++times;
    });
    add_previous();
    base_ += static_cast<Sum>(bound);
    return products;
  }

 private:
  // The list holds `rank` itself, where the row ends.
  int64_t add_list(
      const Element* list, uint32_t rank, Sum times, std::vector<PairCollector::Pair>& pairs
  ) {
    const Sum base = base_;
    const Sum enough = base + at_least_;
    const Element* element = list;
    for (; element->rank != rank; ++element) {
      Sum& sum = sums_[element->rank];
      const Sum before = std::max(sum, base);
      const Sum after = before + times * element->count;
      sum = after;
      if (after >= enough && before < enough) {
        pairs.push_back({.row = rank, .column = element->rank});
      }
    }
    return element - list;
  }

  const VisibleEdges<Index>& edges_;
  const SourceLists& lists_;
  std::span<const uint32_t> order_;
  Sum at_least_;
  Sum base_ = 0;
  std::vector<Sum> sums_;  // by rank
};

template <class Index, class Sum>
Result<EdgeSpool> add_rows(
    const VisibleEdges<Index>& edges,
    const SourceLists& lists,
    std::span<const uint32_t> order,
    int64_t at_least,
    ThreadPool& pool,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  struct Worker {
    RowAdder<Index, Sum> rows;
    std::vector<PairCollector::Pair> pairs;
  };
  Recycler<Worker> workers([&] {
    return std::make_unique<Worker>(Worker{{edges, lists, order, at_least}, {}});
  });
  PairCollector collector(storage, order);
  std::atomic<int64_t> done = 0;  // relaxed: for the progress bar alone
  const std::thread::id caller = std::this_thread::get_id();
  progress.begin("counting shared neighbours", lists.num_sums, "pairs");
  pool.parallel_for(
      static_cast<int64_t>(order.size()),
      kRowsPerPiece,
      [&](int64_t begin, int64_t end) {
        const std::shared_ptr<Worker> worker = workers.borrow();
        for (int64_t rank = begin; rank < end; ++rank) {
          const int64_t products = worker->rows.add(static_cast<uint32_t>(rank), worker->pairs);
          done.fetch_add(products, std::memory_order_relaxed);
          if (worker->pairs.size() >= kPairsPerFlush) {
            collector.take(worker->pairs);
          }
        }
        collector.take(worker->pairs);
        if (std::this_thread::get_id() == caller) {
          progress.advance_to(done.load(std::memory_order_relaxed));
        }
      }
  );
  progress.advance_to(lists.num_sums);
  progress.end();
  return collector.finish();
}

template <class Index>
Result<EdgeSpool> join(
    const EdgeTable& table,
    const CoOccurrenceOptions& options,
    ThreadPool& pool,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  const VisibleEdges<Index> edges(table, options);
  const Ranking ranking = rank_by_degree(edges);
  const std::span<const uint32_t> order = ranking.order;
  GNN_ASSIGN_OR_RETURN(const SourceLists lists, make_lists(edges, order, options, storage));
  const uint32_t largest = lists.max_count.empty()
                               ? 0
                               : *std::max_element(lists.max_count.begin(), lists.max_count.end());
  const double bound = static_cast<double>(largest) * static_cast<double>(ranking.max_degree);
  return bound < static_cast<double>(std::numeric_limits<uint32_t>::max())
             ? add_rows<Index, uint32_t>(
                   edges, lists, order, options.at_least, pool, storage, progress
               )
             : add_rows<Index, uint64_t>(
                   edges, lists, order, options.at_least, pool, storage, progress
               );
}

Status check_options(const EdgeTable& edges, const CoOccurrenceOptions& options) {
  if (options.at_least < 1 || options.at_least > kMaxAtLeast) {
    return fail(
        ErrorKind::Configuration,
        "co-occurrence: at least: expected a count in [1, " + std::to_string(kMaxAtLeast) +
            "], found " + std::to_string(options.at_least)
    );
  }
  const auto indptr = edges.indptr.view<int64_t>();
  const size_t nodes = indptr.size() - 1;
  if (nodes >= UINT32_MAX) {
    return fail(
        ErrorKind::Configuration,
        "co-occurrence: expected fewer than " + std::to_string(UINT32_MAX) +
            " destinations, found " + std::to_string(nodes)
    );
  }
  if (!options.ends.empty() && options.ends.size() != nodes) {
    return fail(
        ErrorKind::Configuration,
        "co-occurrence: ends: expected one for each of the " + std::to_string(nodes) +
            " destinations, found " + std::to_string(options.ends.size())
    );
  }
  for (size_t node = 0; node < options.ends.size(); ++node) {
    if (options.ends[node] < indptr[node] || options.ends[node] > indptr[node + 1]) {
      return fail(
          ErrorKind::Configuration,
          "co-occurrence: ends[" + std::to_string(node) + "]: expected a place in [" +
              std::to_string(indptr[node]) + ", " + std::to_string(indptr[node + 1]) + "], found " +
              std::to_string(options.ends[node])
      );
    }
  }
  const std::span<const int64_t> ids =
      edges.edge_ids.defined() ? edges.edge_ids.view<int64_t>() : std::span<const int64_t>();
  const int64_t largest =
      ids.empty() ? edges.indices.num_elements() - 1 : *std::max_element(ids.begin(), ids.end());
  if (!options.mask.empty() && static_cast<int64_t>(options.mask.size()) <= largest) {
    return fail(
        ErrorKind::Configuration,
        "co-occurrence: mask: expected a byte for each edge id up to " + std::to_string(largest) +
            ", found " + std::to_string(options.mask.size())
    );
  }
  return {};
}

}  // namespace

Result<EdgeTable> co_occurrence(
    const EdgeTable& edges,
    const CoOccurrenceOptions& options,
    ThreadPool& pool,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  GNN_RETURN_IF_ERROR(check_options(edges, options));
  EdgeTable joined{
      .source = edges.destination,
      .relation = "to",
      .destination = edges.destination,
      .indptr = {},
      .indices = {},
      .edge_ids = {},
      .features = {}
  };
  GNN_ASSIGN_OR_RETURN(CscArrays csc, find_csc(storage, options.name, false));
  if (!csc.indptr.defined()) {
    GNN_ASSIGN_OR_RETURN(
        const EdgeSpool pairs,
        edges.indices.dtype() == DType::Int32
            ? join<int32_t>(edges, options, pool, storage, progress)
            : join<int64_t>(edges, options, pool, storage, progress)
    );
    const int64_t nodes = edges.indptr.num_elements() - 1;
    const CscOptions both_ways{
        .num_sources = nodes, .num_destinations = nodes, .to_undirected = true
    };
    GNN_ASSIGN_OR_RETURN(csc, build_csc(pairs, both_ways, storage, options.name, progress));
  }
  joined.indptr = csc.indptr;
  joined.indices = csc.indices;
  return joined;
}

}  // namespace gnn::data
