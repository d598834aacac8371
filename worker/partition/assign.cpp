#include "worker/partition/assign.h"

#include "worker/data/counter_random.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace gnn::partition {
namespace {

// Streams of random numbers, apart from each other.
constexpr uint64_t kSeedOrder = 1;
constexpr uint64_t kNodeOrder = 2;

// Fisher and Yates; the same order for the same seed and stream.
template <class T>
void shuffle(std::vector<T>& values, const data::CounterRandom& random) {
  for (size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[static_cast<size_t>(random.below(i, static_cast<int64_t>(i)))]);
  }
}

std::vector<int64_t> nodes_with_items(const Seeds& seeds) {
  std::vector<int64_t> nodes;
  for (size_t node = 0; node < seeds.items.size(); ++node) {
    if (seeds.items[node] > 0) nodes.push_back(static_cast<int64_t>(node));
  }
  return nodes;
}

}  // namespace

std::string_view method_name(Method method) {
  switch (method) {
    case Method::Random:
      return "random";
    case Method::Hotness:
      return "hotness";
    case Method::Ldg:
      return "ldg";
    case Method::Metis:
      return "metis";
  }
  return "";
}

Assignment deal_seeds(const AssignInput& input) {
  Assignment assignment;
  for (const data::NodeTable& table : input.dataset.node_tables) {
    assignment.emplace_back(static_cast<size_t>(table.num_nodes), kNoPart);
  }
  const auto parts = static_cast<size_t>(input.parts);
  std::vector<int64_t> nodes = nodes_with_items(input.seeds);
  shuffle(nodes, data::CounterRandom(input.seed, kSeedOrder));
  std::vector<int64_t> counts(parts);
  std::vector<int64_t> items(parts);
  for (const int64_t node : nodes) {
    size_t best = parts;
    for (size_t part = 0; part < parts; ++part) {
      const bool has_room = counts[part] < fair_share(
                                               static_cast<int64_t>(input.seeds.items.size()),
                                               input.parts,
                                               static_cast<int64_t>(part)
                                           );
      if (has_room && (best == parts || items[part] < items[best])) best = part;
    }
    ++counts[best];
    items[best] += input.seeds.items[static_cast<size_t>(node)];
    assignment[input.seeds.table][static_cast<size_t>(node)] = static_cast<uint16_t>(best);
  }
  return assignment;
}

Assignment assign_random(const AssignInput& input) {
  Assignment assignment = deal_seeds(input);
  for (size_t table = 0; table < assignment.size(); ++table) {
    std::vector<uint16_t>& parts = assignment[table];
    std::vector<int64_t> room;
    for (int64_t part = 0; part < input.parts; ++part) {
      room.push_back(fair_share(static_cast<int64_t>(parts.size()), input.parts, part));
    }
    for (const uint16_t part : parts) {
      if (part != kNoPart) --room[part];
    }
    std::vector<uint16_t> labels;
    for (size_t part = 0; part < room.size(); ++part) {
      labels.insert(labels.end(), static_cast<size_t>(room[part]), static_cast<uint16_t>(part));
    }
    shuffle(labels, data::CounterRandom(input.seed, kNodeOrder + table));
    size_t next = 0;
    for (uint16_t& part : parts) {
      if (part == kNoPart) part = labels[next++];
    }
  }
  return assignment;
}

}  // namespace gnn::partition
