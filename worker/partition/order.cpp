#include "worker/partition/order.h"

#include "worker/data/native.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

namespace gnn::partition {
namespace {

struct HotNode {
  double hotness;
  int64_t id;

  friend bool operator<(const HotNode& a, const HotNode& b) {
    return a.hotness != b.hotness ? a.hotness > b.hotness : a.id < b.id;
  }
};

// Keeps the hottest of the nodes that it is shown, in memory for twice as many.
class Hottest {
 public:
  explicit Hottest(size_t most) : most_(most) { nodes_.reserve(2 * most); }

  void add(const HotNode& node) {
    if (most_ == 0) return;
    nodes_.push_back(node);
    if (nodes_.size() >= 2 * most_) cut();
  }
  // Hottest first.
  std::vector<HotNode> result() && {
    cut();
    std::sort(nodes_.begin(), nodes_.end());
    return std::move(nodes_);
  }

 private:
  void cut() {
    if (nodes_.size() <= most_) return;
    const auto last = nodes_.begin() + static_cast<std::ptrdiff_t>(most_);
    std::nth_element(nodes_.begin(), last, nodes_.end());
    nodes_.erase(last, nodes_.end());
  }

  size_t most_;
  std::vector<HotNode> nodes_;
};

size_t most_hot_rows(int64_t num_nodes, double share) {
  return static_cast<size_t>(std::floor(share * static_cast<double>(num_nodes)));
}

std::vector<int64_t> inverse_of(const data::Array& original_ids) {
  const auto ids = original_ids.view<int64_t>();
  std::vector<int64_t> inverse(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    inverse[static_cast<size_t>(ids[i])] = static_cast<int64_t>(i);
  }
  return inverse;
}

std::string originals_name(const data::NodeTable& table) {
  return "partitions.originals." + table.name;
}
std::string hot_name(const char* what, int64_t part, const data::NodeTable& table) {
  return std::string("partitions.") + what + "." + std::to_string(part) + "." + table.name;
}
// Reads of each table and part, local and remote.
const std::string kReadsName = std::string(data::kWorkPrefix) + "reads";

// Hot rows of one part and table before nodes were renumbered, in scratch memory.
struct OldHotRows {
  data::Array ids;
  data::Array hotness;
};

class Ordering {
 public:
  Ordering(
      const AssignInput& input,
      const Assignment& assignment,
      const OrderOptions& options,
      const AssignTools& tools
  )
      : input_(input), assignment_(assignment), options_(options), tools_(tools) {}

  Result<data::Partitions> run() {
    start_book();
    GNN_ASSIGN_OR_RETURN(const bool complete, find_all());
    if (complete) return std::move(made_);
    GNN_RETURN_IF_ERROR(create_all());
    const HotnessInput graph = hotness_input(input_.dataset, input_.draws);
    tools_.progress.begin("ordering nodes", options_.parts, "parts");
    for (int64_t part = 0; part < options_.parts; ++part) {
      const auto found = hotness(
          graph,
          seed_probabilities(input_.dataset, input_.draws, input_.seeds, assignment_, part),
          tools_.others
      );
      for (size_t table = 0; table < found.size(); ++table) {
        GNN_RETURN_IF_ERROR(order_part(table, part, found[table]));
      }
      tools_.progress.advance_to(part + 1);
    }
    tools_.progress.end();
    GNN_RETURN_IF_ERROR(commit_all());
    return std::move(made_);
  }

 private:
  [[nodiscard]] const data::NodeTable& table_at(size_t table) const {
    return input_.dataset.node_tables[table];
  }
  [[nodiscard]] size_t num_tables() const { return input_.dataset.node_tables.size(); }

  void start_book() {
    made_.book.parts = options_.parts;
    for (size_t table = 0; table < num_tables(); ++table) {
      std::vector<int64_t> offsets(static_cast<size_t>(options_.parts) + 1);
      for (const uint16_t part : assignment_[table]) ++offsets[size_t{part} + 1];
      std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
      made_.book.offsets.push_back(std::move(offsets));
      made_.hot.emplace_back(static_cast<size_t>(options_.parts));
      made_.original_ids.emplace_back();
    }
  }

  // Whether an earlier run has completed everything.
  Result<bool> find_all() {
    bool complete = true;
    const auto find = [&](data::Array& array, const std::string& name) -> Status {
      GNN_ASSIGN_OR_RETURN(array, tools_.storage.find(name));
      complete = complete && array.defined();
      return {};
    };
    for (size_t table = 0; table < num_tables(); ++table) {
      GNN_RETURN_IF_ERROR(find(made_.original_ids[table], originals_name(table_at(table))));
      for (int64_t part = 0; part < options_.parts; ++part) {
        data::HotRows& hot = made_.hot[table][static_cast<size_t>(part)];
        GNN_RETURN_IF_ERROR(find(hot.ids, hot_name("hot", part, table_at(table))));
        GNN_RETURN_IF_ERROR(find(hot.hotness, hot_name("hotness", part, table_at(table))));
      }
    }
    data::Array reads;
    GNN_RETURN_IF_ERROR(find(reads, kReadsName));
    if (complete) set_reads(reads);
    return complete;
  }

  void set_reads(const data::Array& reads) {
    auto next = reads.view<double>().begin();
    for (std::vector<data::HotRows>& parts : made_.hot) {
      for (data::HotRows& hot : parts) {
        hot.local_reads = *next++;
        hot.remote_reads = *next++;
      }
    }
  }

  Status create_all() {
    for (size_t table = 0; table < num_tables(); ++table) {
      data::Array& ids = made_.original_ids[table];
      is_found_.push_back(ids.defined());
      old_hot_.emplace_back();
      if (!ids.defined()) {
        GNN_ASSIGN_OR_RETURN(
            ids,
            tools_.storage.create(
                originals_name(table_at(table)), data::DType::Int64, {table_at(table).num_nodes}
            )
        );
      }
    }
    return {};
  }

  Status order_part(size_t table, int64_t part, const std::vector<double>& hotness) {
    const data::IdRange range = made_.book.range_of(table, part);
    std::vector<HotNode> own;
    own.reserve(static_cast<size_t>(range.size()));
    Hottest remote(most_hot_rows(table_at(table).num_nodes, options_.hot_rows));
    data::HotRows& hot = made_.hot[table][static_cast<size_t>(part)];
    for (size_t node = 0; node < hotness.size(); ++node) {
      const HotNode at{.hotness = hotness[node], .id = static_cast<int64_t>(node)};
      if (assignment_[table][node] == static_cast<uint16_t>(part)) {
        own.push_back(at);
        hot.local_reads += at.hotness;
      } else if (at.hotness > 0) {
        remote.add(at);
        hot.remote_reads += at.hotness;
      }
    }
    if (!is_found_[table]) {
      std::sort(own.begin(), own.end());
      const auto ids = made_.original_ids[table].mutable_view<int64_t>();
      for (size_t i = 0; i < own.size(); ++i) ids[static_cast<size_t>(range.begin) + i] = own[i].id;
    }
    own = {};
    const std::vector<HotNode> hottest = std::move(remote).result();
    const auto count = static_cast<int64_t>(hottest.size());
    OldHotRows& old = old_hot_[table].emplace_back();
    GNN_ASSIGN_OR_RETURN(old.ids, tools_.storage.scratch(data::DType::Int64, {count}));
    GNN_ASSIGN_OR_RETURN(old.hotness, tools_.storage.scratch(data::DType::Float64, {count}));
    for (size_t i = 0; i < hottest.size(); ++i) {
      old.ids.mutable_view<int64_t>()[i] = hottest[i].id;
      old.hotness.mutable_view<double>()[i] = hottest[i].hotness;
    }
    return {};
  }

  Status commit_all() {
    for (size_t table = 0; table < num_tables(); ++table) {
      if (!is_found_[table]) {
        GNN_ASSIGN_OR_RETURN(
            made_.original_ids[table], tools_.storage.commit(std::move(made_.original_ids[table]))
        );
      }
      const std::vector<int64_t> new_ids = inverse_of(made_.original_ids[table]);
      for (int64_t part = 0; part < options_.parts; ++part) {
        GNN_RETURN_IF_ERROR(commit_hot(table, part, new_ids));
      }
    }
    GNN_ASSIGN_OR_RETURN(data::Array reads, tools_.storage.find(kReadsName));
    if (reads.defined()) {
      return {};
    }
    const auto numbers = static_cast<int64_t>(2 * num_tables()) * options_.parts;
    GNN_ASSIGN_OR_RETURN(reads, tools_.storage.create(kReadsName, data::DType::Float64, {numbers}));
    auto next = reads.mutable_view<double>().begin();
    for (const std::vector<data::HotRows>& parts : made_.hot) {
      for (const data::HotRows& hot : parts) {
        *next++ = hot.local_reads;
        *next++ = hot.remote_reads;
      }
    }
    GNN_ASSIGN_OR_RETURN(reads, tools_.storage.commit(std::move(reads)));
    return {};
  }

  Status commit_hot(size_t table, int64_t part, const std::vector<int64_t>& new_ids) {
    data::HotRows& hot = made_.hot[table][static_cast<size_t>(part)];
    const OldHotRows& old = old_hot_[table][static_cast<size_t>(part)];
    const auto old_ids = old.ids.view<int64_t>();
    const auto old_hotness = old.hotness.view<double>();
    std::vector<HotNode> hottest;
    for (size_t i = 0; i < old_ids.size(); ++i) {
      hottest.push_back({.hotness = old_hotness[i], .id = new_ids[static_cast<size_t>(old_ids[i])]}
      );
    }
    std::sort(hottest.begin(), hottest.end());
    const auto count = static_cast<int64_t>(hottest.size());
    if (!hot.ids.defined()) {
      GNN_ASSIGN_OR_RETURN(
          data::Array ids,
          tools_.storage.create(hot_name("hot", part, table_at(table)), data::DType::Int64, {count})
      );
      std::transform(
          hottest.begin(),
          hottest.end(),
          ids.mutable_view<int64_t>().begin(),
          std::mem_fn(&HotNode::id)
      );
      GNN_ASSIGN_OR_RETURN(hot.ids, tools_.storage.commit(std::move(ids)));
    }
    if (!hot.hotness.defined()) {
      GNN_ASSIGN_OR_RETURN(
          data::Array values,
          tools_.storage.create(
              hot_name("hotness", part, table_at(table)), data::DType::Float64, {count}
          )
      );
      std::transform(
          hottest.begin(),
          hottest.end(),
          values.mutable_view<double>().begin(),
          std::mem_fn(&HotNode::hotness)
      );
      GNN_ASSIGN_OR_RETURN(hot.hotness, tools_.storage.commit(std::move(values)));
    }
    return {};
  }

  const AssignInput& input_;
  const Assignment& assignment_;
  const OrderOptions& options_;
  const AssignTools& tools_;
  data::Partitions made_;
  std::vector<bool> is_found_;                    // by table: original ids of an earlier run
  std::vector<std::vector<OldHotRows>> old_hot_;  // by table and part
};

}  // namespace

int64_t order_bytes(const HotnessInput& graph, const OrderOptions& options) {
  constexpr auto kNode = static_cast<double>(sizeof(HotNode));
  const double own = 1.05 / static_cast<double>(options.parts);
  double hotness_found = 0;
  double sorting = 0;  // of the largest table
  for (const int64_t num_nodes : graph.num_nodes) {
    const auto nodes = static_cast<double>(num_nodes);
    hotness_found += nodes * sizeof(double);
    sorting = std::max(sorting, nodes * kNode * (own + 2 * options.hot_rows));
  }
  // First the one, then the other. The new ids that come last take less.
  return std::max(hotness_bytes(graph), static_cast<int64_t>(hotness_found + sorting));
}

Result<data::Partitions> order_nodes(
    const AssignInput& input,
    const Assignment& assignment,
    const OrderOptions& options,
    const AssignTools& tools
) {
  return Ordering(input, assignment, options, tools).run();
}

std::vector<std::vector<int64_t>> new_ids_of(const data::Partitions& partitions) {
  std::vector<std::vector<int64_t>> ids;
  for (const data::Array& original_ids : partitions.original_ids) {
    ids.push_back(inverse_of(original_ids));
  }
  return ids;
}

}  // namespace gnn::partition
