#include "worker/partition/assign.h"
#include "worker/partition/child.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <metis.h>
#include <numeric>
#include <span>
#include <string>
#include <sys/mman.h>
#include <vector>

namespace gnn::partition {
namespace {

static_assert(
    sizeof(idx_t) == sizeof(int32_t), "the limits below are those of METIS' 32-bit build"
);

// An entry of our graph takes 8 bytes before entries are merged. The others are measured: METIS takes 18 to
// 55 bytes for a merged entry, most where edges lie at random, so that its coarser graphs merge few.
constexpr int64_t kBytesPerEntry = 8;
constexpr int64_t kBytesPerMergedEntry = 56;
constexpr int64_t kBytesPerNode = 160;

constexpr int64_t kSampledEdges = 10'000;

constexpr idx_t kUnbalance = 30;  // in thousandths

// All sampled edges in both directions, as one graph: an edge stands in the lists of both ends.
class UndirectedGraph {
 public:
  explicit UndirectedGraph(const AssignInput& input) {
    for (const data::NodeTable& table : input.dataset.node_tables) {
      first_.push_back(num_nodes_);
      num_nodes_ += table.num_nodes;
    }
    for (const HotnessEdges& edges : hotness_input(input.dataset, input.draws).edges) {
      if (!is_sampled(edges)) continue;
      edges_.push_back(edges);
      num_entries_ += 2 * edges.indptr.back();
    }
  }

  [[nodiscard]] int64_t num_nodes() const { return num_nodes_; }
  // Before edges between the same nodes are merged.
  [[nodiscard]] int64_t num_entries() const { return num_entries_; }
  // About how many are left when an edge and its reverse, if the graph has both, are merged.
  [[nodiscard]] int64_t num_merged_entries() const {
    int64_t entries = num_entries_;
    for (const HotnessEdges& edges : edges_) {
      if (edges.source != edges.destination || edges.indptr.back() == 0) continue;
      const double share = std::visit(
          [&](auto indices) { return share_with_reverse(edges, indices); }, edges.indices
      );
      entries -= static_cast<int64_t>(share * static_cast<double>(edges.indptr.back()));
    }
    return entries;
  }
  [[nodiscard]] int64_t first(size_t table) const { return first_[table]; }

  // Calls visit(u, v) for each edge and its reverse, but not for self-loops.
  template <class Visit>
  void for_each_entry(const Visit& visit) const {
    for (const HotnessEdges& edges : edges_) {
      std::visit([&](auto indices) { visit_lists(edges, indices, visit); }, edges.indices);
    }
  }

 private:
  // Of a sample of the edges.
  template <class Index>
  static double share_with_reverse(const HotnessEdges& edges, std::span<const Index> indices) {
    const int64_t count = edges.indptr.back();
    const int64_t sampled = std::min(count, kSampledEdges);
    int64_t found = 0;
    for (int64_t sample = 0; sample < sampled; ++sample) {
      const int64_t entry = count / sampled * sample;
      const auto after = std::upper_bound(edges.indptr.begin(), edges.indptr.end(), entry);
      const auto node = static_cast<Index>(after - edges.indptr.begin() - 1);
      const auto neighbour = static_cast<size_t>(indices[static_cast<size_t>(entry)]);
      const auto list = indices.subspan(
          static_cast<size_t>(edges.indptr[neighbour]),
          static_cast<size_t>(edges.indptr[neighbour + 1] - edges.indptr[neighbour])
      );
      if (std::find(list.begin(), list.end(), node) != list.end()) ++found;
    }
    return static_cast<double>(found) / static_cast<double>(sampled);
  }

  template <class Index, class Visit>
  void visit_lists(const HotnessEdges& edges, std::span<const Index> indices, const Visit& visit)
      const {
    for (size_t node = 0; node + 1 < edges.indptr.size(); ++node) {
      const auto v = static_cast<idx_t>(first_[edges.destination] + static_cast<int64_t>(node));
      const auto begin = static_cast<size_t>(edges.indptr[node]);
      for (size_t entry = begin; entry < static_cast<size_t>(edges.indptr[node + 1]); ++entry) {
        const auto u =
            static_cast<idx_t>(first_[edges.source] + static_cast<int64_t>(indices[entry]));
        if (u == v) continue;
        visit(u, v);
        visit(v, u);
      }
    }
  }

  std::vector<HotnessEdges> edges_;
  std::vector<int64_t> first_;  // number of each table's first node
  int64_t num_nodes_ = 0;
  int64_t num_entries_ = 0;
};

// METIS' form of a graph: entries are in [begins[v], begins[v + 1]).
struct MetisGraph {
  std::vector<idx_t> begins;
  std::vector<idx_t> neighbours;
  std::vector<idx_t> weights;
};

MetisGraph to_metis(const UndirectedGraph& graph) {
  MetisGraph made;
  made.begins.resize(static_cast<size_t>(graph.num_nodes()) + 1);
  graph.for_each_entry([&](idx_t u, idx_t) { ++made.begins[static_cast<size_t>(u) + 1]; });
  std::partial_sum(made.begins.begin(), made.begins.end(), made.begins.begin());
  made.neighbours.resize(static_cast<size_t>(made.begins.back()));
  {
    std::vector<idx_t> next(made.begins.begin(), made.begins.end() - 1);
    graph.for_each_entry([&](idx_t u, idx_t v) {
      made.neighbours[static_cast<size_t>(next[static_cast<size_t>(u)]++)] = v;
    });
  }
  // Merged in place: what is written is never ahead of what is read.
  made.weights.resize(made.neighbours.size());
  size_t written = 0;
  size_t begin = 0;
  for (size_t node = 0; node + 1 < made.begins.size(); ++node) {
    const auto end = static_cast<size_t>(made.begins[node + 1]);
    const auto at = [&](size_t entry) {
      return made.neighbours.begin() + static_cast<std::ptrdiff_t>(entry);
    };
    std::sort(at(begin), at(end));
    const size_t first = written;
    for (size_t entry = begin; entry < end; ++entry) {
      const idx_t neighbour = made.neighbours[entry];
      if (written > first && made.neighbours[written - 1] == neighbour) {
        ++made.weights[written - 1];
        continue;
      }
      made.neighbours[written] = neighbour;
      made.weights[written++] = 1;
    }
    made.begins[node + 1] = static_cast<idx_t>(written);
    begin = end;
  }
  made.neighbours.resize(written);
  made.weights.resize(written);
  return made;
}

// What is balanced: by node one weight for each node table, and its items where not all nodes have one.
struct NodeWeights {
  idx_t kinds = 0;
  std::vector<idx_t> weights;  // [nodes, kinds]
};

NodeWeights node_weights(const AssignInput& input, const UndirectedGraph& graph) {
  const size_t tables = input.dataset.node_tables.size();
  const bool with_items =
      input.seeds.total < std::numeric_limits<idx_t>::max() &&
      std::any_of(input.seeds.items.begin(), input.seeds.items.end(), [](uint32_t items) {
        return items != 1;
      });
  NodeWeights made;
  made.kinds = static_cast<idx_t>(tables + (with_items ? 1 : 0));
  const auto kinds = static_cast<size_t>(made.kinds);
  made.weights.resize(static_cast<size_t>(graph.num_nodes()) * kinds);
  for (size_t table = 0; table < tables; ++table) {
    const auto nodes = static_cast<size_t>(input.dataset.node_tables[table].num_nodes);
    for (size_t node = 0; node < nodes; ++node) {
      idx_t* weights = &made.weights[(static_cast<size_t>(graph.first(table)) + node) * kinds];
      weights[table] = 1;
      if (with_items && table == input.seeds.table) {
        weights[tables] = static_cast<idx_t>(input.seeds.items[node]);
      }
    }
  }
  return made;
}

// In the child: fills `parts` [nodes].
Status call_metis(const AssignInput& input, const UndirectedGraph& graph, idx_t* parts) {
  MetisGraph form = to_metis(graph);
  NodeWeights weights = node_weights(input, graph);
  std::vector<idx_t> options(METIS_NOPTIONS);
  METIS_SetDefaultOptions(options.data());
  options[METIS_OPTION_SEED] = static_cast<idx_t>(input.seed % std::numeric_limits<idx_t>::max());
  options[METIS_OPTION_UFACTOR] = kUnbalance;
  auto nodes = static_cast<idx_t>(graph.num_nodes());
  auto count = static_cast<idx_t>(input.parts);
  idx_t cut = 0;
  const int code = METIS_PartGraphKway(
      &nodes,
      &weights.kinds,
      form.begins.data(),
      form.neighbours.data(),
      weights.weights.data(),
      nullptr,
      form.weights.data(),
      &count,
      nullptr,
      nullptr,
      options.data(),
      &cut,
      parts
  );
  if (code == METIS_OK) {
    return {};
  }
  return fail(
      code == METIS_ERROR_MEMORY ? ErrorKind::OutOfMemory : ErrorKind::Internal,
      code == METIS_ERROR_MEMORY ? "ran out of memory" : "failed with code " + std::to_string(code)
  );
}

Status check_size(const UndirectedGraph& graph, const AssignInput& input, int64_t memory_bytes) {
  constexpr int64_t kMost = std::numeric_limits<idx_t>::max();
  if (graph.num_entries() > kMost || graph.num_nodes() >= kMost) {
    return fail(
        ErrorKind::Configuration,
        "--method metis: both directions of all edges are " + std::to_string(graph.num_entries()) +
            ", METIS takes at most " + std::to_string(kMost) + "; use ldg"
    );
  }
  const auto kinds = static_cast<int64_t>(input.dataset.node_tables.size()) + 1;
  const int64_t need = graph.num_entries() * kBytesPerEntry +
                       graph.num_merged_entries() * kBytesPerMergedEntry +
                       graph.num_nodes() * (kBytesPerNode + kinds * 2 * int64_t{sizeof(idx_t)});
  if (need > memory_bytes) {
    return fail(
        ErrorKind::Configuration,
        "--method metis: METIS needs about " + short_count(static_cast<double>(need)) + "B" +
            ", --memory leaves it " + short_count(static_cast<double>(memory_bytes)) + "B" +
            "; allow more, or use ldg"
    );
  }
  return {};
}

}  // namespace

Result<Assignment> assign_by_metis(
    const AssignInput& input, const AssignTools& tools, int64_t memory_bytes
) {
  const UndirectedGraph graph(input);
  GNN_RETURN_IF_ERROR(check_size(graph, input, memory_bytes));
  const auto bytes = static_cast<size_t>(graph.num_nodes()) * sizeof(idx_t);
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return fail(ErrorKind::OutOfMemory, "METIS: no memory for its result");
  }
  const std::shared_ptr<void> shared(address, [bytes](void* begin) { munmap(begin, bytes); });
  auto* parts = static_cast<idx_t*>(address);
  tools.progress.begin("METIS", 1, "run");
  GNN_RETURN_IF_ERROR(run_in_child("METIS", memory_bytes, [&] {
    return call_metis(input, graph, parts);
  }));
  tools.progress.end();
  Assignment assignment;
  for (size_t table = 0; table < input.dataset.node_tables.size(); ++table) {
    const idx_t* first = parts + graph.first(table);
    const auto nodes = input.dataset.node_tables[table].num_nodes;
    std::vector<uint16_t>& made = assignment.emplace_back(static_cast<size_t>(nodes));
    std::transform(first, first + nodes, made.begin(), [](idx_t part) {
      return static_cast<uint16_t>(part);
    });
  }
  return assignment;
}

}  // namespace gnn::partition
