#include "worker/data/co_occurrence.h"

#include "common/recycler.h"
#include "worker/data/csc_builder.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gnn::data {
namespace {

constexpr int64_t kMaxAtLeast = int64_t{1} << 31U;
constexpr int64_t kRowsPerPiece = 256;
constexpr size_t kIdsPerTake = size_t{1} << 16U;
constexpr int64_t kEntriesPerBlock = int64_t{1} << 23U;
constexpr int64_t kMaxBlocks = 64;
constexpr int64_t kBytesPerSource = 16;
constexpr int64_t kBytesPerNode = 24;

struct Run {
  ThreadPool& pool;
  ProgressBar& progress;
};

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

// What adding up takes, without the lists that come out of it.
int64_t bytes_to_add(
    const CoOccurrenceOptions& options, size_t num_nodes, int64_t num_elements, const Run& run
) {
  const auto threads = static_cast<int64_t>(run.pool.num_threads()) + 1;
  const int64_t per_node = kBytesPerNode + static_cast<int64_t>(sizeof(uint32_t)) * threads;
  return kBytesPerSource * options.num_sources + per_node * static_cast<int64_t>(num_nodes) +
         static_cast<int64_t>(sizeof(Element)) * num_elements;
}

// M by source: each list has ascending ranks.
struct SourceLists {
  std::vector<int64_t> starts;      // [number of sources + 1]
  std::vector<uint32_t> max_count;  // the largest count in the list
  Array memory;                     // of the elements
  int64_t num_products = 0;         // that the rows add up

  [[nodiscard]] const Element* elements() const {
    return reinterpret_cast<const Element*>(memory.bytes());
  }
};

template <class Index>
Result<SourceLists> make_lists(
    const VisibleEdges<Index>& edges,
    std::span<const uint32_t> order,
    const CoOccurrenceOptions& options,
    ArrayStorage& storage,
    const Run& run
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
    lists.num_products += size * (size - 1) / 2;
    lists.starts[source + 1] += lists.starts[source];
  }
  const int64_t bytes = bytes_to_add(options, order.size(), lists.starts.back(), run);
  if (bytes > options.memory_bytes) {
    return fail(
        ErrorKind::Configuration,
        "coOccurrence: counting shared nodes takes " + std::to_string(bytes) +
            " bytes of memory before the first edge is made, expected at most " +
            std::to_string(options.memory_bytes) + "; give the process more memory"
    );
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

// The neighbours of each node that have a lower rank number, by ascending id: half of the result.
class HalfLists {
 public:
  // How many ids may be kept, and what to say of more.
  struct Room {
    int64_t num_ids;
    std::string problem;
  };

  HalfLists(ArrayStorage& storage, size_t num_nodes, Room room)
      : storage_(storage),
        room_(room.num_ids),
        room_problem_(std::move(room.problem)),
        lists_(num_nodes) {}

  // Rows that one thread has made: nodes, the lengths of their lists and the lists.
  struct Rows {
    std::vector<uint32_t> nodes;
    std::vector<uint32_t> sizes;
    std::vector<uint32_t> ids;
    size_t num_ids = 0;  // of `ids`, which is longer

    void clear() {
      nodes.clear();
      sizes.clear();
      num_ids = 0;
    }
  };

  // Keeps the rows; any thread may call it.
  void take(const Rows& rows) {
    const std::lock_guard lock(mutex_);
    if (!status_) {
      return;
    }
    if (static_cast<size_t>(block_.num_elements()) - used_ < rows.num_ids) {
      const auto size = std::max(std::min(kIdsPerBlock, room_), static_cast<int64_t>(rows.num_ids));
      auto block = size <= room_ ? storage_.scratch(DType::Int32, {size})
                                 : fail(ErrorKind::Configuration, room_problem_);
      if (!block) {
        status_ = tl::make_unexpected(std::move(block).error());
        failed_.store(true, std::memory_order_relaxed);
        return;
      }
      room_ -= size;
      block_ = *std::move(block);
      blocks_.push_back(block_);
      used_ = 0;
    }
    auto* next = reinterpret_cast<uint32_t*>(block_.mutable_bytes()) + used_;
    std::copy_n(rows.ids.begin(), rows.num_ids, next);
    for (size_t row = 0; row < rows.nodes.size(); ++row) {
      lists_[rows.nodes[row]] = {next, rows.sizes[row]};
      next += rows.sizes[row];
    }
    used_ += rows.num_ids;
    num_ids_ += static_cast<int64_t>(rows.num_ids);
  }

  // Whether all rows were kept.
  [[nodiscard]] const Status& status() const { return status_; }
  // Whether rows were lost, so that more are of no use; any thread may call it.
  [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_relaxed); }
  [[nodiscard]] size_t num_nodes() const { return lists_.size(); }
  [[nodiscard]] int64_t num_ids() const { return num_ids_; }
  [[nodiscard]] std::span<const uint32_t> of(size_t node) const { return lists_[node]; }

 private:
  static constexpr int64_t kIdsPerBlock = int64_t{1} << 22U;

  ArrayStorage& storage_;
  std::mutex mutex_;
  int64_t room_;  // for ids of further blocks
  const std::string room_problem_;
  std::vector<Array> blocks_;
  Array block_;      // the last one
  size_t used_ = 0;  // ids in it
  int64_t num_ids_ = 0;
  std::vector<std::span<const uint32_t>> lists_;
  Status status_;
  std::atomic<bool> failed_ = false;  // relaxed: only to stop early, status_ is what counts
};

// Half lists have room beside what adding up takes, and beside the result, which has each id twice.
HalfLists::Room room_for_halves(
    const CoOccurrenceOptions& options, size_t num_nodes, int64_t num_elements, const Run& run
) {
  const auto nodes = static_cast<int64_t>(num_nodes);
  const int64_t bytes_of_index = nodes <= std::numeric_limits<int32_t>::max() ? 4 : 8;
  const int64_t adding = bytes_to_add(options, num_nodes, num_elements, run);
  const int64_t most = std::min(
      (options.memory_bytes - adding) / 4,
      (options.memory_bytes - kBytesPerNode * nodes) / (4 + 2 * bytes_of_index)
  );
  return {
      .num_ids = most,
      .problem = "coOccurrence: more than " + std::to_string(most) + " pairs of nodes share " +
                 std::to_string(options.at_least) +
                 " or more, and joining them takes more than the " +
                 std::to_string(options.memory_bytes) +
                 " bytes of memory that there are; raise coOccurrence.atLeast, so that fewer pairs "
                 "are joined, or give the process more memory"
  };
}

// Sorts distinct ids below a bound by marking them: bits for ids, and bits for the words that have
// any. Long lists take a few nanoseconds an id, several times less than by comparisons.
class IdSorter {
 public:
  explicit IdSorter(size_t num_ids) : words_(num_ids / 64 + 1), summary_(words_.size() / 64 + 1) {}

  void sort(std::span<uint32_t> ids) {
    if (ids.size() < std::max<size_t>(32, summary_.size() / 8)) {
      std::sort(ids.begin(), ids.end());
      return;
    }
    for (const uint32_t id : ids) {
      words_[id / 64] |= uint64_t{1} << (id % 64);
      summary_[id / 4096] |= uint64_t{1} << (id / 64 % 64);
    }
    auto next = ids.begin();
    for (size_t i = 0; i < summary_.size(); ++i) {
      for (uint64_t marks = std::exchange(summary_[i], 0); marks != 0; marks &= marks - 1) {
        const size_t word = i * 64 + static_cast<size_t>(std::countr_zero(marks));
        for (uint64_t bits = std::exchange(words_[word], 0); bits != 0; bits &= bits - 1) {
          *next++ = static_cast<uint32_t>(word * 64 + static_cast<size_t>(std::countr_zero(bits)));
        }
      }
    }
  }

 private:
  std::vector<uint64_t> words_;
  std::vector<uint64_t> summary_;
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
        sums_(order.size()),
        sorter_(order.size()) {}

  // Appends the row of that rank; returns how many products it has.
  int64_t add(uint32_t rank, HalfLists::Rows& rows) {
    const uint32_t node = order_[rank];
    // No sum of the row is larger than `bound`.
    uint64_t bound = 0;
    sources_.clear();
    edges_.for_each(node, [&](size_t source) {
      bound += lists_.max_count[source];
      if (sources_.empty() || sources_.back().source != source) {
        sources_.push_back({.source = source, .times = 0});
      }
      ++sources_.back().times;
    });
    if (bound < at_least_) {
      return 0;
    }
    if (bound > std::numeric_limits<Sum>::max() - base_) {
      std::fill(sums_.begin(), sums_.end(), Sum{0});
      base_ = 0;
    }
    const Element* const elements = lists_.elements();
    const size_t first = rows.num_ids;
    int64_t products = 0;
    for (size_t run = 0; run < sources_.size(); ++run) {
      if (run + 2 < sources_.size()) {
        __builtin_prefetch(elements + lists_.starts[sources_[run + 2].source]);
      }
      products +=
          add_list(elements + lists_.starts[sources_[run].source], rank, sources_[run].times, rows);
    }
    base_ += static_cast<Sum>(bound);
    const auto begin = rows.ids.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = rows.ids.begin() + static_cast<std::ptrdiff_t>(rows.num_ids);
    std::transform(begin, end, begin, [this](uint32_t column) { return order_[column]; });
    sorter_.sort({begin, end});
    rows.nodes.push_back(node);
    rows.sizes.push_back(static_cast<uint32_t>(rows.num_ids - first));
    return products;
  }

 private:
  struct Repeated {
    size_t source;
    Sum times;  // equal edges
  };

  // Adds a source's elements up to `rank` itself, where the row ends, and appends the ranks whose sums
  // reach at_least. That is as likely as not, so there is no branch on it.
  int64_t add_list(const Element* list, uint32_t rank, Sum times, HalfLists::Rows& rows) {
    const Element* end = list;
    while (end->rank != rank) {
      ++end;
    }
    const auto count = static_cast<size_t>(end - list);
    if (rows.ids.size() < rows.num_ids + count + 1) {
      rows.ids.resize(2 * (rows.num_ids + count + 1));
    }
    uint32_t* next = rows.ids.data() + rows.num_ids;
    Sum* const sums = sums_.data();
    const Sum base = base_;
    const Sum enough = base + at_least_;
    for (const Element* element = list; element != end; ++element) {
      const Sum before = std::max(sums[element->rank], base);
      const Sum after = before + times * element->count;
      sums[element->rank] = after;
      *next = element->rank;
      next += static_cast<int>(after >= enough) & static_cast<int>(before < enough);
    }
    rows.num_ids = static_cast<size_t>(next - rows.ids.data());
    return static_cast<int64_t>(count);
  }

  const VisibleEdges<Index>& edges_;
  const SourceLists& lists_;
  std::span<const uint32_t> order_;
  Sum at_least_;
  Sum base_ = 0;
  std::vector<Sum> sums_;  // by rank
  IdSorter sorter_;
  std::vector<Repeated> sources_;
};

// Runs body(begin, end) on the pool, as ThreadPool::parallel_for(); it returns the work that it did,
// which the calling thread shows.
template <class Body>
void parallel_with_progress(
    ThreadPool& pool, int64_t count, int64_t grain, ProgressBar& progress, const Body& body
) {
  std::atomic<int64_t> done = 0;  // relaxed: for the progress bar alone
  const std::thread::id caller = std::this_thread::get_id();
  pool.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    const int64_t work = body(begin, end);
    const int64_t so_far = done.fetch_add(work, std::memory_order_relaxed) + work;
    if (std::this_thread::get_id() == caller) {
      progress.advance_to(so_far);
    }
  });
}

template <class Index, class Sum>
void add_rows(
    const VisibleEdges<Index>& edges,
    const SourceLists& lists,
    std::span<const uint32_t> order,
    int64_t at_least,
    HalfLists& halves,
    const Run& run
) {
  struct Worker {
    RowAdder<Index, Sum> adder;
    HalfLists::Rows rows;
  };
  Recycler<Worker> workers([&] {
    return std::make_unique<Worker>(Worker{{edges, lists, order, at_least}, {}});
  });
  const auto rows = static_cast<int64_t>(order.size());
  run.progress.begin("counting shared neighbours", lists.num_products, "pairs");
  parallel_with_progress(
      run.pool,
      rows,
      kRowsPerPiece,
      run.progress,
      [&](int64_t begin, int64_t end) {
        const std::shared_ptr<Worker> worker = workers.borrow();
        int64_t products = 0;
        for (int64_t rank = begin; rank < end && !halves.failed(); ++rank) {
          products += worker->adder.add(static_cast<uint32_t>(rank), worker->rows);
          if (worker->rows.num_ids >= kIdsPerTake || rank + 1 == end) {
            halves.take(worker->rows);
            worker->rows.clear();
          }
        }
        return products;
      }
  );
  if (!halves.failed()) {
    run.progress.advance_to(lists.num_products);
  }
  run.progress.end();
}

// Nodes whose lists have about the same number of entries in all.
struct NodeBlock {
  size_t first;
  size_t last;
};
std::vector<NodeBlock> equal_blocks(std::span<const int64_t> starts, int64_t entries) {
  std::vector<NodeBlock> blocks;
  for (size_t node = 0; node + 1 < starts.size();) {
    const auto next = std::upper_bound(
        starts.begin() + static_cast<std::ptrdiff_t>(node) + 1,
        starts.end() - 1,
        starts[node] + entries
    );
    const auto last = static_cast<size_t>(next - starts.begin());
    blocks.push_back({.first = node, .last = last});
    node = last;
  }
  return blocks;
}

// Calls visit(node, other) for each node whose half list names a node of the block, by ascending
// node.
template <class Visit>
void for_each_naming(const HalfLists& halves, const NodeBlock& block, const Visit& visit) {
  for (size_t node = 0; node < halves.num_nodes(); ++node) {
    const std::span<const uint32_t> half = halves.of(node);
    if (half.empty() || half.back() < block.first || half.front() >= block.last) {
      continue;
    }
    for (auto at = std::lower_bound(half.begin(), half.end(), block.first);
         at != half.end() && *at < block.last;
         ++at) {
      visit(node, static_cast<size_t>(*at));
    }
  }
}

// The lengths of the whole lists, summed up: [number of nodes + 1].
void fill_indptr(const HalfLists& halves, std::span<int64_t> indptr, ThreadPool& pool) {
  const size_t nodes = halves.num_nodes();
  const auto blocks = static_cast<int64_t>(2 * pool.num_threads() + 2);
  const auto per_block = static_cast<int64_t>(nodes) / blocks + 1;
  pool.parallel_for(static_cast<int64_t>(nodes), per_block, [&](int64_t begin, int64_t end) {
    const NodeBlock block{.first = static_cast<size_t>(begin), .last = static_cast<size_t>(end)};
    for_each_naming(halves, block, [&](size_t, size_t other) { ++indptr[other + 1]; });
    for (size_t node = block.first; node < block.last; ++node) {
      indptr[node + 1] += static_cast<int64_t>(halves.of(node).size());
    }
  });
  for (size_t node = 0; node < nodes; ++node) {
    indptr[node + 1] += indptr[node];
  }
}

// Merges `half` into `list`, whose other entries stand behind as many free places. All are ascending and
// distinct.
template <class Index>
void merge_behind(std::span<const uint32_t> half, std::span<Index> list) {
  size_t taken = 0;            // of `half`
  size_t other = half.size();  // what is written stays behind what is still to be read
  size_t out = 0;
  // Either is as likely as the other, so there is no branch on it.
  while (taken < half.size() && other < list.size()) {
    const auto left = static_cast<Index>(half[taken]);
    const Index right = list[other];
    const bool is_right = right < left;
    list[out++] = is_right ? right : left;
    other += static_cast<size_t>(is_right);
    taken += static_cast<size_t>(!is_right);
  }
  for (; taken < half.size(); ++taken) {
    list[out++] = static_cast<Index>(half[taken]);
  }
}

// Writes the whole lists of a block: each node's half and, behind it, the nodes whose halves name it,
// then both merged.
template <class Index>
int64_t write_block(
    const HalfLists& halves,
    const NodeBlock& block,
    std::span<const int64_t> indptr,
    std::span<Index> indices
) {
  std::vector<int64_t> ends(block.last - block.first);
  for (size_t node = block.first; node < block.last; ++node) {
    ends[node - block.first] = indptr[node] + static_cast<int64_t>(halves.of(node).size());
  }
  for_each_naming(halves, block, [&](size_t node, size_t other) {
    indices[static_cast<size_t>(ends[other - block.first]++)] = static_cast<Index>(node);
  });
  for (size_t node = block.first; node < block.last; ++node) {
    const auto first = static_cast<size_t>(indptr[node]);
    const auto size = static_cast<size_t>(indptr[node + 1] - indptr[node]);
    merge_behind(halves.of(node), indices.subspan(first, size));
  }
  return indptr[block.last] - indptr[block.first];
}

Result<CscArrays> write_lists(
    const HalfLists& halves, const std::string& name, ArrayStorage& storage, const Run& run
) {
  const auto nodes = static_cast<int64_t>(halves.num_nodes());
  CscArrays csc;
  GNN_ASSIGN_OR_RETURN(csc.indptr, storage.create(name + ".indptr", DType::Int64, {nodes + 1}));
  const std::span<int64_t> indptr = csc.indptr.mutable_view<int64_t>();
  fill_indptr(halves, indptr, run.pool);
  const int64_t entries = 2 * halves.num_ids();
  const bool narrow = nodes <= std::numeric_limits<int32_t>::max();
  GNN_ASSIGN_OR_RETURN(
      csc.indices,
      storage.create(name + ".indices", narrow ? DType::Int32 : DType::Int64, {entries})
  );
  // Each block is written at random places, and takes a pass over the halves.
  const auto threads = static_cast<int64_t>(run.pool.num_threads()) + 1;
  const int64_t num_blocks =
      std::clamp(entries / kEntriesPerBlock, std::min(2 * threads, kMaxBlocks), kMaxBlocks);
  const std::vector<NodeBlock> blocks = equal_blocks(indptr, entries / num_blocks + 1);
  const auto write_all = [&]<class Index>(std::span<Index> indices) {
    run.progress.begin("joining", entries, "edges");
    const auto count = static_cast<int64_t>(blocks.size());
    parallel_with_progress(run.pool, count, 1, run.progress, [&](int64_t block, int64_t) {
      return write_block<Index>(halves, blocks[static_cast<size_t>(block)], indptr, indices);
    });
    run.progress.advance_to(entries);
    run.progress.end();
  };
  if (narrow) {
    write_all(csc.indices.mutable_view<int32_t>());
  } else {
    write_all(csc.indices.mutable_view<int64_t>());
  }
  GNN_ASSIGN_OR_RETURN(csc.indptr, storage.commit(std::move(csc.indptr)));
  GNN_ASSIGN_OR_RETURN(csc.indices, storage.commit(std::move(csc.indices)));
  return csc;
}

template <class Index>
Result<CscArrays> join(
    const EdgeTable& table,
    const CoOccurrenceOptions& options,
    ArrayStorage& storage,
    const Run& run
) {
  const VisibleEdges<Index> edges(table, options);
  std::optional<HalfLists> halves;
  {
    const Ranking ranking = rank_by_degree(edges);
    const std::span<const uint32_t> order = ranking.order;
    GNN_ASSIGN_OR_RETURN(const SourceLists lists, make_lists(edges, order, options, storage, run));
    halves.emplace(
        storage, order.size(), room_for_halves(options, order.size(), lists.starts.back(), run)
    );
    const uint32_t largest =
        lists.max_count.empty() ? 0
                                : *std::max_element(lists.max_count.begin(), lists.max_count.end());
    const double bound = static_cast<double>(largest) * static_cast<double>(ranking.max_degree);
    if (bound < static_cast<double>(std::numeric_limits<uint32_t>::max())) {
      add_rows<Index, uint32_t>(edges, lists, order, options.at_least, *halves, run);
    } else {
      add_rows<Index, uint64_t>(edges, lists, order, options.at_least, *halves, run);
    }
    GNN_RETURN_IF_ERROR(halves->status());
  }
  return write_lists(*halves, options.name, storage, run);
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
    const Run run{.pool = pool, .progress = progress};
    GNN_ASSIGN_OR_RETURN(
        csc,
        edges.indices.dtype() == DType::Int32 ? join<int32_t>(edges, options, storage, run)
                                              : join<int64_t>(edges, options, storage, run)
    );
  }
  joined.indptr = csc.indptr;
  joined.indices = csc.indices;
  return joined;
}

}  // namespace gnn::data
