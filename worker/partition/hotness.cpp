#include "worker/partition/hotness.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gnn::partition {
namespace {

constexpr int64_t kNodesPerPiece = int64_t{1} << 16;

// By node of one type.
struct TypeState {
  std::vector<double> expanded;  // e_h
  std::vector<double> missed;    // log(1 - p_{h+1})
  std::vector<double> unread;    // sum of log(1 - p_j) up to hop h
};

// The probability that one entry of a list of `degree` is drawn.
double draw_probability(int64_t degree, int64_t fanout, bool replace) {
  const auto draws = static_cast<double>(fanout);
  const auto entries = static_cast<double>(degree);
  if (fanout < 0) {
    return 1;
  }
  if (replace) {
    return -std::expm1(draws * std::log1p(-1 / entries));
  }
  return std::min(1.0, draws / entries);
}

// The lists of one edge type in one hop.
struct HopLists {
  const HotnessEdges& edges;
  int64_t fanout;
  bool replace;
  const std::vector<double>& expanded;  // by node
  // By list the probability that an entry was drawn in a hop before; empty where nodes are expanded once.
  const std::vector<double>& drawn;

  [[nodiscard]] size_t count() const { return edges.indptr.empty() ? 0 : edges.indptr.size() - 1; }
  [[nodiscard]] int64_t begin(size_t list) const { return edges.indptr[list]; }
  [[nodiscard]] int64_t end(size_t list) const {
    return edges.ends.empty() ? edges.indptr[list + 1] : edges.ends[list];
  }
  [[nodiscard]] double mass(size_t list) const {
    return expanded[static_cast<size_t>(edges.first) + list];
  }
  // The probability that one entry is drawn now, if it never was before.
  [[nodiscard]] double draws(size_t list) const {
    const double draw = draw_probability(end(list) - begin(list), fanout, replace);
    if (drawn.empty()) return std::min(1.0, draw * mass(list));
    if (drawn[list] >= 1) return 0;
    return std::clamp(draw * (mass(list) - drawn[list]) / (1 - drawn[list]), 0.0, 1.0);
  }
  [[nodiscard]] bool may_draw(size_t list) const {
    return mass(list) > 0 && begin(list) < end(list);
  }
};

// Adds what the lists tell of the neighbours in [first, last).
template <class Index>
void add_lists(
    const HopLists& lists,
    std::span<const Index> indices,
    std::vector<double>& missed,
    data::IdRange neighbours
) {
  const bool all = neighbours.size() == static_cast<int64_t>(missed.size());
  for (size_t list = 0; list < lists.count(); ++list) {
    if (!lists.may_draw(list)) continue;
    const double log_missed = std::log1p(-lists.draws(list));
    const int64_t end = lists.end(list);
    for (int64_t entry = lists.begin(list); entry < end; ++entry) {
      const auto neighbour = static_cast<int64_t>(indices[static_cast<size_t>(entry)]);
      if (all || neighbours.contains(neighbour)) {
        missed[static_cast<size_t>(neighbour)] += log_missed;
      }
    }
  }
}

// Each thread adds to its own range of neighbours, in the order of the lists: the sums do not depend on
// the number of threads.
void add_edges(const HopLists& lists, std::vector<double>& missed, ThreadPool& others) {
  const auto count = static_cast<int64_t>(missed.size());
  const auto pieces = static_cast<int64_t>(others.num_threads()) + 1;
  const auto piece = std::max<int64_t>((count + pieces - 1) / pieces, 1);
  others.parallel_for(count, piece, [&](int64_t begin, int64_t end) {
    std::visit(
        [&](const auto& indices) { add_lists(lists, indices, missed, {begin, end}); },
        lists.edges.indices
    );
  });
}

// To what was drawn before, what a hop draws.
void add_drawn(const HopLists& lists, std::vector<double>& drawn, ThreadPool& others) {
  const auto count = static_cast<int64_t>(lists.count());
  others.parallel_for(count, kNodesPerPiece, [&](int64_t begin, int64_t end) {
    for (auto list = static_cast<size_t>(begin); list < static_cast<size_t>(end); ++list) {
      if (lists.may_draw(list)) drawn[list] += (1 - drawn[list]) * lists.draws(list);
    }
  });
}

// From the hop that `missed` was computed for to the masses of the next.
void end_hop(TypeState& state, data::HopRule rule, ThreadPool& others) {
  const auto count = static_cast<int64_t>(state.missed.size());
  others.parallel_for(count, kNodesPerPiece, [&](int64_t begin, int64_t end) {
    for (auto node = static_cast<size_t>(begin); node < static_cast<size_t>(end); ++node) {
      const double missed = state.missed[node];
      if (rule == data::HopRule::NewNodes) {
        state.expanded[node] = -std::expm1(missed) * std::exp(state.unread[node]);
      }
      state.unread[node] += missed;
      if (rule == data::HopRule::AllSeen) {
        state.expanded[node] = -std::expm1(state.unread[node]);
      }
    }
  });
}

}  // namespace

int64_t hotness_bytes(const HotnessInput& input) {
  int64_t numbers = 0;
  for (const int64_t nodes : input.num_nodes) numbers += 3 * nodes;
  if (input.rule == data::HopRule::AllSeen) {
    for (const HotnessEdges& edges : input.edges) {
      numbers += static_cast<int64_t>(edges.indptr.size());
    }
  }
  return numbers * static_cast<int64_t>(sizeof(double));
}

std::vector<std::vector<double>> hotness(
    const HotnessInput& input, std::vector<std::vector<double>> seeds, ThreadPool& others
) {
  const auto alone = [](std::span<double>) { return Status(); };
  return hotness_together(input, std::move(seeds), others, alone).value();
}

Result<std::vector<std::vector<double>>> hotness_together(
    const HotnessInput& input,
    std::vector<std::vector<double>> seeds,
    ThreadPool& others,
    const SumOverLists& sum
) {
  std::vector<TypeState> states(input.num_nodes.size());
  for (size_t type = 0; type < states.size(); ++type) {
    TypeState& state = states[type];
    const auto nodes = static_cast<size_t>(input.num_nodes[type]);
    state.expanded = std::move(seeds[type]);
    state.expanded.resize(nodes);
    state.missed.resize(nodes);
    state.unread.resize(nodes);
    std::transform(
        state.expanded.begin(),
        state.expanded.end(),
        state.unread.begin(),
        [](double seed) { return std::log1p(-seed); }
    );
  }
  std::vector<std::vector<double>> drawn(input.edges.size());
  if (input.rule == data::HopRule::AllSeen) {
    for (size_t i = 0; i < drawn.size(); ++i) drawn[i].resize(input.edges[i].indptr.size());
  }
  const size_t hops = input.edges.empty() ? 0 : input.edges.front().fanout.size();
  for (size_t hop = 0; hop < hops; ++hop) {
    for (TypeState& state : states) std::fill(state.missed.begin(), state.missed.end(), 0.0);
    for (size_t i = 0; i < input.edges.size(); ++i) {
      const HotnessEdges& edges = input.edges[i];
      GNN_ASSERT(edges.fanout.size() == hops, "draws have equally many hops for all edge types");
      if (edges.fanout[hop] == 0) continue;
      const HopLists lists{
          .edges = edges,
          .fanout = edges.fanout[hop],
          .replace = input.replace,
          .expanded = states[edges.destination].expanded,
          .drawn = drawn[i]
      };
      add_edges(lists, states[edges.source].missed, others);
      if (!drawn[i].empty()) add_drawn(lists, drawn[i], others);
    }
    for (TypeState& state : states) {
      GNN_RETURN_IF_ERROR(sum(state.missed));
      end_hop(state, input.rule, others);
    }
  }
  std::vector<std::vector<double>> result;
  for (TypeState& state : states) {
    for (double& node : state.unread) node = -std::expm1(node);
    result.push_back(std::move(state.unread));
  }
  return result;
}

}  // namespace gnn::partition
