#include "worker/partition/assign.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace gnn::partition {
namespace {

constexpr int kPasses = 10;
constexpr double kSlack = 1.01;

// One edge type's lists, seen from the nodes that have them.
struct Lists {
  HotnessEdges edges;
  size_t table;  // of the neighbours
};

// The nodes and items that parts have, and how many they may have.
class Loads {
 public:
  Loads(int64_t nodes, int64_t items, int64_t most_items, int64_t parts)
      : nodes_(static_cast<size_t>(parts)),
        items_(static_cast<size_t>(parts)),
        most_nodes_(
            static_cast<int64_t>(kSlack * static_cast<double>(nodes) / static_cast<double>(parts)) +
            1
        ),
        most_items_(
            static_cast<int64_t>(kSlack * static_cast<double>(items) / static_cast<double>(parts)) +
            most_items
        ) {}

  // 1 of an empty part, 0 of one that may take no more.
  [[nodiscard]] double room(size_t part, uint32_t items) const {
    const double of_nodes = left(nodes_[part], 1, most_nodes_);
    return items == 0 ? of_nodes : std::min(of_nodes, left(items_[part], items, most_items_));
  }
  void add(size_t part, uint32_t items) {
    ++nodes_[part];
    items_[part] += items;
  }

 private:
  static double left(int64_t load, int64_t more, int64_t most) {
    return load + more > most ? 0.0 : 1 - static_cast<double>(load) / static_cast<double>(most);
  }

  std::vector<int64_t> nodes_;
  std::vector<int64_t> items_;
  int64_t most_nodes_;
  int64_t most_items_;
};

class Ldg {
 public:
  explicit Ldg(const AssignInput& input)
      : input_(input), counts_(static_cast<size_t>(input.parts)) {
    const size_t tables = input.dataset.node_tables.size();
    lists_.resize(tables);
    for (const HotnessEdges& edges : hotness_input(input.dataset, input.draws).edges) {
      if (!is_sampled(edges)) continue;
      lists_[edges.destination].push_back({.edges = edges, .table = edges.source});
    }
    for (const data::NodeTable& table : input.dataset.node_tables) {
      assignment_.emplace_back(static_cast<size_t>(table.num_nodes), kNoPart);
    }
  }

  void pass() {
    for (size_t table = 0; table < assignment_.size(); ++table) {
      if (!lists_[table].empty()) deal_by_neighbours(table);
    }
    for (size_t table = 0; table < assignment_.size(); ++table) {
      if (lists_[table].empty()) deal_by_readers(table);
    }
  }

  Assignment result() && { return std::move(assignment_); }

 private:
  [[nodiscard]] uint32_t items_of(size_t table, size_t node) const {
    return table == input_.seeds.table ? input_.seeds.items[node] : 0;
  }

  [[nodiscard]] Loads empty_loads(size_t table) const {
    const auto nodes = static_cast<int64_t>(assignment_[table].size());
    if (table != input_.seeds.table) {
      return {nodes, 0, 0, input_.parts};
    }
    const auto& items = input_.seeds.items;
    return {nodes, input_.seeds.total, *std::max_element(items.begin(), items.end()), input_.parts};
  }

  template <class Index>
  void count(std::span<const Index> indices, const Lists& lists, size_t node) {
    const std::vector<uint16_t>& parts = assignment_[lists.table];
    const auto begin = static_cast<size_t>(lists.edges.indptr[node]);
    const auto end = static_cast<size_t>(lists.edges.indptr[node + 1]);
    for (size_t entry = begin; entry < end; ++entry) {
      const uint16_t part = parts[static_cast<size_t>(indices[entry])];
      if (part != kNoPart) ++counts_[part];
    }
  }

  // The part with the best score; of equal ones that with the most room, then the lowest.
  [[nodiscard]] size_t best_part(const Loads& loads, uint32_t items) const {
    size_t best = 0;
    double best_score = -1;
    double best_room = -1;
    for (size_t part = 0; part < counts_.size(); ++part) {
      const double room = loads.room(part, items);
      const double score = static_cast<double>(counts_[part]) * room;
      if (score > best_score || (score == best_score && room > best_room)) {
        best = part;
        best_score = score;
        best_room = room;
      }
    }
    // Where no part has room for both, items give way.
    return best_room <= 0 && items > 0 ? best_part(loads, 0) : best;
  }

  void deal_by_neighbours(size_t table) {
    Loads loads = empty_loads(table);
    for (size_t node = 0; node < assignment_[table].size(); ++node) {
      std::fill(counts_.begin(), counts_.end(), 0);
      for (const Lists& lists : lists_[table]) {
        std::visit([&](auto indices) { count(indices, lists, node); }, lists.edges.indices);
      }
      const uint32_t items = items_of(table, node);
      const size_t part = best_part(loads, items);
      loads.add(part, items);
      assignment_[table][node] = static_cast<uint16_t>(part);
    }
  }

  // The vote of Boyer and Moore: whoever has more than half of the votes is its result.
  struct Vote {
    uint16_t part = kNoPart;
    uint32_t lead = 0;

    void add(uint16_t voted) {
      if (lead == 0) part = voted;
      lead = part == voted ? lead + 1 : lead - 1;
    }
  };

  template <class Index>
  void vote(
      std::span<const Index> indices, const Lists& lists, size_t readers, std::vector<Vote>& votes
  ) {
    for (size_t reader = 0; reader < assignment_[readers].size(); ++reader) {
      const auto begin = static_cast<size_t>(lists.edges.indptr[reader]);
      const auto end = static_cast<size_t>(lists.edges.indptr[reader + 1]);
      for (size_t entry = begin; entry < end; ++entry) {
        votes[static_cast<size_t>(indices[entry])].add(assignment_[readers][reader]);
      }
    }
  }

  void deal_by_readers(size_t table) {
    std::vector<Vote> votes(assignment_[table].size());
    for (size_t readers = 0; readers < lists_.size(); ++readers) {
      for (const Lists& lists : lists_[readers]) {
        if (lists.table != table) continue;
        std::visit(
            [&](auto indices) { vote(indices, lists, readers, votes); }, lists.edges.indices
        );
      }
    }
    Loads loads = empty_loads(table);
    for (size_t node = 0; node < votes.size(); ++node) {
      std::fill(counts_.begin(), counts_.end(), 0);
      if (votes[node].part != kNoPart) counts_[votes[node].part] = 1;
      const uint32_t items = items_of(table, node);
      const size_t part = best_part(loads, items);
      loads.add(part, items);
      assignment_[table][node] = static_cast<uint16_t>(part);
    }
  }

  const AssignInput& input_;
  std::vector<std::vector<Lists>> lists_;  // by table of the nodes that have them
  Assignment assignment_;
  std::vector<int64_t> counts_;  // of the node at hand, by part
};

}  // namespace

Assignment assign_ldg(const AssignInput& input, const AssignTools& tools) {
  Ldg ldg(input);
  tools.progress.begin("dealing nodes", kPasses, "passes");
  for (int pass = 0; pass < kPasses; ++pass) {
    ldg.pass();
    tools.progress.advance_to(pass + 1);
  }
  tools.progress.end();
  return std::move(ldg).result();
}

}  // namespace gnn::partition
