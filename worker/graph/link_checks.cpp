#include "worker/graph/link_checks.h"

#include "worker/data/mapped_pages.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace gnn::graph {
namespace {

constexpr int64_t kNodesPerReport = int64_t{1} << 16;
// Pairs are read in the order of the lists, so at random places: far enough ahead to hide memory.
constexpr int64_t kPrefetch = 16;
constexpr int64_t kBytesPerPair = 2 * sizeof(int64_t);

tl::unexpected<Error> link_problem(std::string_view where, const std::string& what) {
  return fail(ErrorKind::Data, std::string(where) + ": " + what);
}

std::string link_type_text(const EdgeTypeData& type) {
  return "edge type " + text_of(type);
}

std::string edge_text(int64_t source, int64_t destination) {
  return "(" + std::to_string(source) + ", " + std::to_string(destination) + ")";
}

bool is_undirected(const LinkData& links) {
  return links.reverse_edge_type == links.edge_type;
}

// Whether the numbers of list entries tell that of the links.
bool has_all_lists(const Dataset& dataset) {
  return !dataset.partitions || !dataset.partitions->only;
}

// How the entries of an edge type's lists relate to the links.
enum class Direction { Forward, Reverse, Both };

// The link that an entry of the lists stands for.
struct Ends {
  int64_t source;
  int64_t destination;
};
Ends ends_of(int64_t source, int64_t destination, Direction direction) {
  const bool exchanged =
      direction == Direction::Reverse || (direction == Direction::Both && source > destination);
  return exchanged ? Ends{destination, source} : Ends{source, destination};
}

// Link ids [first, first + count).
struct IdWindow {
  int64_t first;
  int64_t count;
  [[nodiscard]] bool contains(int64_t id) const { return id >= first && id - first < count; }
};

// Checks the lists of the share's nodes, the first of which is `first_node`; lists of other shares may
// be wrong.
template <class Index>
class EntryCheck {
 public:
  EntryCheck(
      const EdgeTypeData& type,
      int64_t first_node,
      const at::Tensor& links,
      Direction direction,
      std::string_view where,
      const data::IdRange& rows,
      Share share
  )
      : type_(type),
        where_(where),
        direction_(direction),
        first_node_(first_node),
        indptr_(type.graph.indptr().const_data_ptr<int64_t>()),
        indices_(type.graph.indices().const_data_ptr<Index>()),
        ids_(
            type.graph.edge_ids().defined() ? type.graph.edge_ids().const_data_ptr<int64_t>()
                                            : nullptr
        ),
        pairs_(links.const_data_ptr<int64_t>()),
        count_(links.size(0)),
        edges_(type.graph.num_edges()),
        first_(rows.begin + share.begin_of(rows.size())),
        last_(rows.begin + share.end_of(rows.size())),
        readable_(std::min(indptr_[last_], edges_)) {}

  Status run(ProgressBar& progress) const {
    // A pass reads the pairs of a range of ids: beside the lists, they must fit what files may take.
    const int64_t most = std::max<int64_t>(data::mapped_pages_limit() / 2 / kBytesPerPair, 1);
    const int64_t passes = count_ / most + (count_ % most > 0 ? 1 : 0);
    const int64_t nodes = last_ - first_;
    progress.begin("checking links", passes * nodes, "nodes");
    for (int64_t pass = 0; pass < passes; ++pass) {
      const int64_t first_id = pass * most;
      const IdWindow window{.first = first_id, .count = std::min(most, count_ - first_id)};
      GNN_RETURN_IF_ERROR(check_lists(window, pass * nodes, progress));
    }
    progress.advance_to(passes * nodes);
    progress.end();
    return {};
  }

 private:
  [[nodiscard]] int64_t id_of(int64_t entry) const { return ids_ == nullptr ? entry : ids_[entry]; }

  Status check_lists(const IdWindow& window, int64_t done, ProgressBar& progress) const {
    for (int64_t node = first_; node < last_; ++node) {
      GNN_RETURN_IF_ERROR(check_list(node, window));
      if (node % kNodesPerReport == 0) {
        progress.advance_to(done + node - first_);
      }
    }
    return {};
  }

  Status check_list(int64_t node, const IdWindow& window) const {
    const int64_t begin = std::max<int64_t>(indptr_[node], 0);
    const int64_t end = std::min(indptr_[node + 1], edges_);
    for (int64_t entry = begin; entry < end; ++entry) {
      if (entry + kPrefetch < readable_) {
        const int64_t ahead = id_of(entry + kPrefetch);
        __builtin_prefetch(pairs_ + 2 * (window.contains(ahead) ? ahead : window.first));
      }
      const int64_t id = id_of(entry);
      if (id < 0 || id >= count_) {
        return problem_of(
            entry,
            "expected an edge id in [0, " + std::to_string(count_) + "), found " +
                std::to_string(id)
        );
      }
      if (!window.contains(id)) continue;
      GNN_RETURN_IF_ERROR(check_ends(entry, id, first_node_ + node));
      if (entry > begin && !is_after(entry, entry - 1)) {
        return problem_of(
            entry, "expected ascending sources, and ascending edge ids of one source"
        );
      }
    }
    return {};
  }

  [[nodiscard]] Status check_ends(int64_t entry, int64_t id, int64_t destination) const {
    const Ends ends = ends_of(indices_[entry], destination, direction_);
    const int64_t* pair = pairs_ + 2 * id;
    if (pair[0] == ends.source && pair[1] == ends.destination) return {};
    return problem_of(
        entry,
        "its edge id " + std::to_string(id) + " is of the link " + edge_text(pair[0], pair[1]) +
            ", expected " + edge_text(ends.source, ends.destination)
    );
  }

  [[nodiscard]] bool is_after(int64_t entry, int64_t other) const {
    if (indices_[entry] != indices_[other]) return indices_[entry] > indices_[other];
    return id_of(entry) > id_of(other);
  }

  [[nodiscard]] tl::unexpected<Error> problem_of(int64_t entry, const std::string& what) const {
    return link_problem(
        where_, link_type_text(type_) + ": entry " + std::to_string(entry) + ": " + what
    );
  }

  const EdgeTypeData& type_;
  std::string_view where_;
  Direction direction_;
  int64_t first_node_;
  const int64_t* indptr_;
  const Index* indices_;
  const int64_t* ids_;    // nullptr: an entry's id is its place
  const int64_t* pairs_;  // [count_, 2]
  int64_t count_;
  int64_t edges_;
  int64_t first_;
  int64_t last_;
  int64_t readable_;  // entries of the share's lists end here
};

template <class Index, class... Arguments>
Status check_entries(ProgressBar& progress, const Arguments&... arguments) {
  return EntryCheck<Index>(arguments...).run(progress);
}

Status check_type(
    const Dataset& dataset,
    const EdgeTypeData& type,
    Direction direction,
    std::string_view where,
    const PartCheck& part,
    Share share,
    ProgressBar& progress
) {
  const at::Tensor& pairs = dataset.links->pairs;
  const int64_t node = dataset.held(type.destination_index).begin;
  const data::IdRange rows = dataset.rows_of(type.destination_index, part.lists);
  return type.graph.indices().scalar_type() == at::kInt
             ? check_entries<int32_t>(progress, type, node, pairs, direction, where, rows, share)
             : check_entries<int64_t>(progress, type, node, pairs, direction, where, rows, share);
}

Status check_range(
    const Dataset& dataset, const EdgeTypeData& type, std::string_view where, Share share
) {
  const at::Tensor& pairs = dataset.links->pairs;
  const auto* ends = pairs.const_data_ptr<int64_t>();
  const auto nodes_of = [&dataset](int64_t index) {
    return dataset.node_types[static_cast<size_t>(index)].num_nodes;
  };
  const int64_t sources = nodes_of(type.source_index);
  const int64_t destinations = nodes_of(type.destination_index);
  for (int64_t id = share.begin_of(pairs.size(0)); id < share.end_of(pairs.size(0)); ++id) {
    const int64_t source = ends[2 * id];
    const int64_t destination = ends[2 * id + 1];
    if (source < 0 || source >= sources || destination < 0 || destination >= destinations) {
      return link_problem(
          where,
          "link " + std::to_string(id) + ": expected nodes in [0, " + std::to_string(sources) +
              ") and [0, " + std::to_string(destinations) + "), found " +
              edge_text(source, destination)
      );
    }
  }
  return {};
}

// Undirected edges are in the lists twice, but self-loops once.
Status check_entry_count(const LinkData& links, const EdgeTypeData& type, std::string_view where) {
  const auto* ends = links.pairs.const_data_ptr<int64_t>();
  int64_t expected = 0;
  for (int64_t id = 0; id < links.pairs.size(0); ++id) {
    expected += ends[2 * id] == ends[2 * id + 1] ? 1 : 2;
  }
  if (type.graph.num_edges() != expected) {
    return link_problem(
        where,
        link_type_text(type) + ": expected " + std::to_string(expected) +
            " list entries for its undirected links, found " +
            std::to_string(type.graph.num_edges())
    );
  }
  return {};
}

Status check_reverse_form(const Dataset& dataset, std::string_view where) {
  const LinkData& links = *dataset.links;
  const EdgeTypeData& type = dataset.edge_types[static_cast<size_t>(links.edge_type)];
  const EdgeTypeData& reverse = dataset.edge_types[static_cast<size_t>(*links.reverse_edge_type)];
  if (reverse.source_index != type.destination_index ||
      reverse.destination_index != type.source_index) {
    return link_problem(
        where,
        link_type_text(reverse) + ": not from destination to source of " + link_type_text(type)
    );
  }
  if (!is_undirected(links) && has_all_lists(dataset) &&
      reverse.graph.num_edges() != type.graph.num_edges()) {
    return link_problem(
        where,
        link_type_text(reverse) + ": expected " + std::to_string(type.graph.num_edges()) +
            " edges as the links it reverses, found " + std::to_string(reverse.graph.num_edges())
    );
  }
  return {};
}

}  // namespace

Status check_links_form(const Dataset& dataset, std::string_view where) {
  const LinkData& links = *dataset.links;
  const auto types = static_cast<int64_t>(dataset.edge_types.size());
  const int64_t reverse = links.reverse_edge_type.value_or(0);
  if (links.edge_type < 0 || links.edge_type >= types || reverse < 0 || reverse >= types) {
    return link_problem(where, "links are of an edge type that does not exist");
  }
  if (dataset.graphs) {
    return link_problem(where, "a collection of graphs can't have links");
  }
  const EdgeTypeData& type = dataset.edge_types[static_cast<size_t>(links.edge_type)];
  const at::Tensor& pairs = links.pairs;
  if (!pairs.defined() || pairs.dim() != 2 || pairs.size(1) != 2 || pairs.size(0) < 1 ||
      pairs.scalar_type() != at::kLong || !pairs.device().is_cpu() || !pairs.is_contiguous()) {
    return link_problem(where, "links: expected int64 pairs [E, 2] of at least one edge");
  }
  if (!is_undirected(links) && has_all_lists(dataset) && pairs.size(0) != type.graph.num_edges()) {
    return link_problem(
        where,
        link_type_text(type) + ": expected " + std::to_string(type.graph.num_edges()) +
            " links, one for each edge, found " + std::to_string(pairs.size(0))
    );
  }
  return links.reverse_edge_type ? check_reverse_form(dataset, where) : Status();
}

Status check_links(
    const Dataset& dataset,
    std::string_view where,
    Share share,
    ProgressBar& progress,
    const PartCheck& part
) {
  const LinkData& links = *dataset.links;
  const EdgeTypeData& type = dataset.edge_types[static_cast<size_t>(links.edge_type)];
  GNN_RETURN_IF_ERROR(check_range(dataset, type, where, share));
  if (is_undirected(links)) {
    if (share.index == 0 && has_all_lists(dataset) && !part.lists) {
      GNN_RETURN_IF_ERROR(check_entry_count(links, type, where));
    }
    return check_type(dataset, type, Direction::Both, where, part, share, progress);
  }
  GNN_RETURN_IF_ERROR(check_type(dataset, type, Direction::Forward, where, part, share, progress));
  if (!links.reverse_edge_type) {
    return {};
  }
  const EdgeTypeData& reverse = dataset.edge_types[static_cast<size_t>(*links.reverse_edge_type)];
  return check_type(dataset, reverse, Direction::Reverse, where, part, share, progress);
}

}  // namespace gnn::graph
