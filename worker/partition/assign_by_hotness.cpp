#include "worker/partition/assign.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace gnn::partition {
namespace {

// Of a chunk. GraphLearn-for-PyTorch takes the larger number always; but the part whose turn is first gets the
// nodes that are hot for all, which have the longest lists, and all parts should be first several times.
constexpr int64_t kMostNodesPerPart = 10'000;
constexpr int64_t kFewestNodesPerPart = 10;
constexpr int64_t kTurnsPerPart = 16;

int64_t nodes_per_chunk(int64_t nodes, int64_t parts) {
  const int64_t for_turns = nodes / (kTurnsPerPart * parts * parts);
  return std::clamp(for_turns, kFewestNodesPerPart, kMostNodesPerPart) * parts;
}

// Hotness by part of one node table.
using HotnessByPart = std::vector<data::Array>;

struct Candidate {
  double score;
  size_t node;

  // The order in which a part takes them.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score > b.score : a.node < b.node;
  }
};

class Dealer {
 public:
  Dealer(const AssignInput& input, const HotnessByPart& hotness, std::vector<uint16_t>& parts)
      : input_(input), parts_(parts), taken_(static_cast<size_t>(input.parts)) {
    for (const data::Array& array : hotness) hotness_.push_back(array.view<double>());
    const auto nodes = static_cast<int64_t>(parts.size());
    for (int64_t part = 0; part < input.parts; ++part) {
      room_.push_back(fair_share(nodes, input.parts, part));
    }
    for (const uint16_t part : parts) {
      if (part != kNoPart) --room_[part];
    }
    free_ = std::accumulate(room_.begin(), room_.end(), int64_t{0});
  }

  // Deals the chunk [begin, end), of which each part takes the share that it will have of all.
  void deal(size_t begin, size_t end, int64_t first_part) {
    seen_ += std::count(
        parts_.begin() + static_cast<std::ptrdiff_t>(begin),
        parts_.begin() + static_cast<std::ptrdiff_t>(end),
        kNoPart
    );
    for (int64_t turn = 0; turn < input_.parts; ++turn) {
      const auto part = static_cast<size_t>((first_part + turn) % input_.parts);
      const int64_t most = free_ == 0 ? 0 : (room_[part] * seen_ + free_ - 1) / free_;
      take(begin, end, part, static_cast<size_t>(most - taken_[part]));
    }
  }

 private:
  void take(size_t begin, size_t end, size_t part, size_t quota) {
    candidates_.clear();
    for (size_t node = begin; node < end; ++node) {
      if (parts_[node] != kNoPart) continue;
      double all = 0;
      for (const std::span<const double> hotness : hotness_) all += hotness[node];
      const auto weight = static_cast<double>(input_.parts + 1);
      candidates_.push_back({.score = weight * hotness_[part][node] - all, .node = node});
    }
    const size_t count = std::min(quota, candidates_.size());
    const auto last = candidates_.begin() + static_cast<std::ptrdiff_t>(count);
    std::nth_element(candidates_.begin(), last, candidates_.end());
    for (size_t i = 0; i < count; ++i) {
      parts_[candidates_[i].node] = static_cast<uint16_t>(part);
    }
    taken_[part] += static_cast<int64_t>(count);
  }

  const AssignInput& input_;
  std::vector<uint16_t>& parts_;
  std::vector<std::span<const double>> hotness_;
  std::vector<int64_t> room_;   // by part: nodes to take in all
  std::vector<int64_t> taken_;  // by part: nodes taken so far
  int64_t free_ = 0;            // nodes to deal in all
  int64_t seen_ = 0;            // of those, in the chunks up to this one
  std::vector<Candidate> candidates_;
};

// By node table: the hotness of its nodes for each part's batches.
Result<std::vector<HotnessByPart>> hotness_by_part(
    const AssignInput& input, const Assignment& seeds_dealt, const AssignTools& tools
) {
  std::vector<HotnessByPart> result(input.dataset.node_tables.size());
  const HotnessInput graph = hotness_input(input.dataset, input.draws);
  tools.progress.begin("hotness", input.parts, "parts");
  for (int64_t part = 0; part < input.parts; ++part) {
    const auto found = hotness(
        graph,
        seed_probabilities(input.dataset, input.draws, input.seeds, seeds_dealt, part),
        tools.others
    );
    for (size_t table = 0; table < result.size(); ++table) {
      GNN_ASSIGN_OR_RETURN(
          data::Array kept,
          tools.storage.scratch(data::DType::Float64, {static_cast<int64_t>(found[table].size())})
      );
      std::copy(found[table].begin(), found[table].end(), kept.mutable_view<double>().begin());
      result[table].push_back(std::move(kept));
    }
    tools.progress.advance_to(part + 1);
  }
  tools.progress.end();
  return result;
}

}  // namespace

Result<Assignment> assign_by_hotness(const AssignInput& input, const AssignTools& tools) {
  Assignment assignment = deal_seeds(input);
  GNN_ASSIGN_OR_RETURN(const auto hotness, hotness_by_part(input, assignment, tools));
  for (size_t table = 0; table < assignment.size(); ++table) {
    const size_t nodes = assignment[table].size();
    const auto chunk =
        static_cast<size_t>(nodes_per_chunk(static_cast<int64_t>(nodes), input.parts));
    Dealer dealer(input, hotness[table], assignment[table]);
    int64_t first_part = 0;
    for (size_t begin = 0; begin < nodes; begin += chunk) {
      dealer.deal(begin, std::min(nodes, begin + chunk), first_part++);
    }
  }
  return assignment;
}

}  // namespace gnn::partition
