#include "worker/partition/hotness.h"

#include "common/result.h"

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

// Adds what the lists tell of the neighbours in [first, last).
template <class Index>
void add_lists(
    const HotnessEdges& edges,
    std::span<const Index> indices,
    int64_t fanout,
    bool replace,
    const std::vector<double>& expanded,
    std::vector<double>& missed,
    data::IdRange neighbours
) {
  const bool all = neighbours.size() == static_cast<int64_t>(missed.size());
  for (size_t node = 0; node < expanded.size(); ++node) {
    const int64_t begin = edges.indptr[node];
    const int64_t end = edges.indptr[node + 1];
    if (expanded[node] <= 0 || begin == end) {
      continue;
    }
    const double drawn = draw_probability(end - begin, fanout, replace) * expanded[node];
    const double log_missed = std::log1p(-std::min(1.0, drawn));
    for (int64_t entry = begin; entry < end; ++entry) {
      const auto neighbour = static_cast<int64_t>(indices[static_cast<size_t>(entry)]);
      if (all || neighbours.contains(neighbour)) {
        missed[static_cast<size_t>(neighbour)] += log_missed;
      }
    }
  }
}

// Each thread adds to its own range of neighbours, in the order of the lists: the sums do not depend on
// the number of threads.
void add_edges(
    const HotnessEdges& edges,
    int64_t fanout,
    bool replace,
    std::vector<TypeState>& states,
    ThreadPool& others
) {
  const std::vector<double>& expanded = states[edges.destination].expanded;
  std::vector<double>& missed = states[edges.source].missed;
  const auto count = static_cast<int64_t>(missed.size());
  const auto pieces = static_cast<int64_t>(others.num_threads()) + 1;
  others.parallel_for(count, (count + pieces - 1) / pieces, [&](int64_t begin, int64_t end) {
    std::visit(
        [&](const auto& indices) {
          add_lists(edges, indices, fanout, replace, expanded, missed, {begin, end});
        },
        edges.indices
    );
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

int64_t hotness_bytes(const std::vector<int64_t>& num_nodes) {
  int64_t bytes = 0;
  for (const int64_t nodes : num_nodes) bytes += 3 * nodes * static_cast<int64_t>(sizeof(double));
  return bytes;
}

std::vector<std::vector<double>> hotness(
    const HotnessInput& input, std::vector<std::vector<double>> seeds, ThreadPool& others
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
  const size_t hops = input.edges.empty() ? 0 : input.edges.front().fanout.size();
  for (size_t hop = 0; hop < hops; ++hop) {
    for (TypeState& state : states) std::fill(state.missed.begin(), state.missed.end(), 0.0);
    for (const HotnessEdges& edges : input.edges) {
      GNN_ASSERT(edges.fanout.size() == hops, "draws have equally many hops for all edge types");
      if (edges.fanout[hop] != 0) {
        add_edges(edges, edges.fanout[hop], input.replace, states, others);
      }
    }
    for (TypeState& state : states) end_hop(state, input.rule, others);
  }
  std::vector<std::vector<double>> result;
  for (TypeState& state : states) {
    for (double& node : state.unread) node = -std::expm1(node);
    result.push_back(std::move(state.unread));
  }
  return result;
}

}  // namespace gnn::partition
