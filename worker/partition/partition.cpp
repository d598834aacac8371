#include "worker/partition/partition.h"

#include "worker/data/native.h"
#include "worker/data/number_text.h"
#include "worker/partition/order.h"
#include "worker/partition/rewrite.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace gnn::partition {
namespace {

using data::kMostParts;
static_assert(kMostParts < kNoPart);

tl::unexpected<Error> wrong_option(const std::string& what) {
  return fail(ErrorKind::Configuration, what);
}

std::string numbers_text(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

Status check_options(const data::DatasetArrays& dataset, const PartitionOptions& options) {
  if (options.parts < 1 || options.parts > kMostParts) {
    return wrong_option(
        "--parts: expected 1 to " + std::to_string(kMostParts) + ", found " +
        std::to_string(options.parts)
    );
  }
  const auto is_wrong = [](const std::vector<int64_t>& fanout) {
    return fanout.empty() ||
           std::any_of(fanout.begin(), fanout.end(), [](int64_t f) { return f < -1; });
  };
  if (is_wrong(options.fanout)) {
    return wrong_option("--fanout: expected a list of numbers, each -1 or more");
  }
  if (options.batch_size < 1) {
    return wrong_option("--batch-size: expected at least 1");
  }
  if (!(options.hot_rows >= 0 && options.hot_rows <= 1)) {
    return wrong_option("--hot-rows: expected a share from 0 to 1");
  }
  // The manifest has no others.
  if (options.seed < 0) {
    return wrong_option("--seed: expected a number that is not negative");
  }
  if (!(options.negatives >= 0) || !std::isfinite(options.negatives)) {
    return wrong_option("--negatives: expected a number that is not negative");
  }
  for (const EdgeTypeFanout& own : options.fanout_by_edge_type) {
    if (!find_edge_table(dataset, own.edge_type)) {
      return wrong_option("--fanout-by-edge-type: no edge type " + text_of(own.edge_type));
    }
    if (is_wrong(own.fanout)) {
      return wrong_option(
          "--fanout-by-edge-type: expected numbers for " + text_of(own.edge_type) +
          ", each -1 or more"
      );
    }
    if (own.fanout.size() != options.fanout.size()) {
      return wrong_option(
          "--fanout-by-edge-type: expected " + std::to_string(options.fanout.size()) +
          " numbers for " + text_of(own.edge_type) + ", as in --fanout"
      );
    }
  }
  return {};
}

Status check_dataset(const data::DatasetArrays& dataset, const Seeds& seeds, int64_t parts) {
  const data::NodeTable& owners = dataset.node_tables[seeds.table];
  const auto with_items = std::count_if(seeds.items.begin(), seeds.items.end(), [](uint32_t items) {
    return items > 0;
  });
  if (owners.num_nodes < parts || with_items < parts) {
    return wrong_option(
        "--parts: " + std::to_string(parts) + " are more than the " + std::to_string(with_items) +
        " nodes of type " + owners.name + " that batches start from"
    );
  }
  return {};
}

data::BatchDraws draws_of(const data::DatasetArrays& dataset, const PartitionOptions& options) {
  data::BatchDraws draws{
      .fanouts = {},
      .batch_size = options.batch_size,
      .replace = options.replace,
      .rule = options.rule,
      .negatives = dataset.links ? options.negatives : 0
  };
  draws.fanouts.assign(dataset.edge_tables.size(), options.fanout);
  for (const EdgeTypeFanout& own : options.fanout_by_edge_type) {
    draws.fanouts[find_edge_table(dataset, own.edge_type).value()] = own.fanout;
  }
  return draws;
}

std::string assignment_name(const data::NodeTable& table) {
  return data::kWorkPrefix + ("assignment." + table.name);
}

Result<Assignment> find_assignment(
    const data::DatasetArrays& dataset, data::ArrayStorage& storage
) {
  Assignment assignment;
  for (const data::NodeTable& table : dataset.node_tables) {
    GNN_ASSIGN_OR_RETURN(const data::Array found, storage.find(assignment_name(table)));
    if (!found.defined()) return Assignment();
    const auto* parts = reinterpret_cast<const uint16_t*>(found.bytes());
    assignment.emplace_back(parts, parts + found.num_elements());
  }
  return assignment;
}

Status keep_assignment(
    const data::DatasetArrays& dataset, const Assignment& assignment, data::ArrayStorage& storage
) {
  for (size_t table = 0; table < assignment.size(); ++table) {
    const std::string name = assignment_name(dataset.node_tables[table]);
    GNN_ASSIGN_OR_RETURN(data::Array kept, storage.find(name));
    if (kept.defined()) continue;
    const auto nodes = static_cast<int64_t>(assignment[table].size());
    GNN_ASSIGN_OR_RETURN(kept, storage.create(name, data::DType::UInt16, {nodes}));
    std::memcpy(kept.mutable_bytes(), assignment[table].data(), assignment[table].size() * 2);
    GNN_ASSIGN_OR_RETURN(kept, storage.commit(std::move(kept)));
  }
  return {};
}

Result<Assignment> assign(
    const AssignInput& input, Method method, int64_t memory_bytes, const AssignTools& tools
) {
  switch (method) {
    case Method::Random:
      return assign_random(input);
    case Method::Hotness:
      return assign_by_hotness(input, tools);
    case Method::Ldg:
      return assign_ldg(input, tools);
    case Method::Metis:
      // One part is no task for METIS.
      return input.parts == 1 ? Result<Assignment>(assign_random(input))
                              : assign_by_metis(input, tools, memory_bytes);
  }
  return fail(ErrorKind::Internal, "unknown method");
}

int64_t num_nodes(const data::DatasetArrays& dataset) {
  int64_t nodes = 0;
  for (const data::NodeTable& table : dataset.node_tables) nodes += table.num_nodes;
  return nodes;
}

// What lives as long as the work on a data set: the part and items of each node.
int64_t kept_bytes(const data::DatasetArrays& dataset, const Seeds& seeds) {
  int64_t bytes = static_cast<int64_t>(seeds.items.size() * sizeof(uint32_t));
  for (const data::NodeTable& table : dataset.node_tables) {
    bytes += table.num_nodes * static_cast<int64_t>(sizeof(uint16_t));
  }
  return bytes;
}

// New ids of all nodes, and the lists' ends of the largest edge table.
int64_t rewriting_bytes(const data::DatasetArrays& dataset) {
  int64_t ids = 0;
  int64_t lists = 0;
  for (const data::NodeTable& table : dataset.node_tables) {
    ids += table.num_nodes * static_cast<int64_t>(sizeof(int64_t));
  }
  for (const data::EdgeTable& table : dataset.edge_tables) {
    lists = std::max(lists, rewrite_edges_bytes(table));
  }
  return ids + lists;
}

// Makes all arrays of the renumbered data set but those of its partitions.
class Renumbering {
 public:
  Renumbering(const data::DatasetArrays& from, const RewriteTools& tools)
      : from_(from), tools_(tools) {}

  Result<data::DatasetArrays> run(data::Partitions partitions) {
    made_ = from_;
    made_.read_from.clear();
    ids_ = new_ids_of(partitions);
    made_.partitions = std::move(partitions);
    for (size_t table = 0; table < made_.node_tables.size(); ++table) {
      GNN_RETURN_IF_ERROR(rewrite_nodes(made_.node_tables[table], ids_[table]));
    }
    for (size_t table = 0; table < made_.edge_tables.size(); ++table) {
      GNN_RETURN_IF_ERROR(rewrite_edge_table(made_.edge_tables[table], has_link_ids(table)));
    }
    const std::vector<int64_t>& target = ids_[node_table_index(from_, from_.target_node_type)];
    for (data::Array* ids : {&made_.train, &made_.validation, &made_.test}) {
      GNN_RETURN_IF_ERROR(rewrite_split(*ids, target));
    }
    if (made_.links) GNN_RETURN_IF_ERROR(rewrite_pairs(*made_.links));
    return std::move(made_);
  }

 private:
  Status rewrite_nodes(data::NodeTable& table, const std::vector<int64_t>& ids) {
    const auto rewrite = [&](data::Array& array) -> Status {
      if (!array.defined()) return {};
      GNN_ASSIGN_OR_RETURN(array, rewrite_rows(array, ids, array.name(), tools_));
      return {};
    };
    GNN_RETURN_IF_ERROR(rewrite(table.features));
    for (data::NamedFeatures& more : table.more_features) GNN_RETURN_IF_ERROR(rewrite(more.rows));
    return rewrite(table.labels);
  }

  [[nodiscard]] bool has_link_ids(size_t table) const {
    return from_.links &&
           (from_.links->edge_table == table || from_.links->reverse_edge_table == table);
  }

  Status rewrite_edge_table(data::EdgeTable& table, bool has_link_ids) {
    const std::vector<int64_t>& sources = ids_[node_table_index(from_, table.source)];
    const std::vector<int64_t>& destinations = ids_[node_table_index(from_, table.destination)];
    const bool keep_ids = has_link_ids || table.features.defined();
    GNN_ASSIGN_OR_RETURN(table, rewrite_edges(table, sources, destinations, keep_ids, tools_));
    if (!table.features.defined()) return {};
    // By edge id. A reverse edge type may share them.
    GNN_ASSIGN_OR_RETURN(table.features, copy(table.features));
    return {};
  }

  Result<data::Array> copy(const data::Array& array) {
    GNN_ASSIGN_OR_RETURN(data::Array made, tools_.storage.find(array.name()));
    if (made.defined()) return made;
    GNN_ASSIGN_OR_RETURN(made, tools_.storage.create(array.name(), array.dtype(), array.shape()));
    copy_in_pieces(array.bytes(), made.mutable_bytes(), array.num_bytes(), tools_.others);
    return tools_.storage.commit(std::move(made));
  }

  Status rewrite_split(data::Array& array, const std::vector<int64_t>& ids) {
    if (!array.defined()) return {};
    const data::Array from = array;
    GNN_ASSIGN_OR_RETURN(array, tools_.storage.find(from.name()));
    if (array.defined()) return {};
    GNN_ASSIGN_OR_RETURN(
        array, tools_.storage.create(from.name(), data::DType::Int64, from.shape())
    );
    const auto old_ids = from.view<int64_t>();
    std::vector<int64_t> sorted(old_ids.size());
    std::transform(old_ids.begin(), old_ids.end(), sorted.begin(), [&](int64_t id) {
      return ids[static_cast<size_t>(id)];
    });
    std::sort(sorted.begin(), sorted.end());
    std::copy(sorted.begin(), sorted.end(), array.mutable_view<int64_t>().begin());
    GNN_ASSIGN_OR_RETURN(array, tools_.storage.commit(std::move(array)));
    return {};
  }

  Status rewrite_pairs(data::LinkTable& links) {
    const data::Array from = links.pairs;
    GNN_ASSIGN_OR_RETURN(links.pairs, tools_.storage.find(from.name()));
    if (links.pairs.defined()) return {};
    GNN_ASSIGN_OR_RETURN(
        links.pairs, tools_.storage.create(from.name(), data::DType::Int64, from.shape())
    );
    const data::EdgeTable& table = from_.edge_tables[links.edge_table];
    const std::vector<int64_t>& sources = ids_[node_table_index(from_, table.source)];
    const std::vector<int64_t>& destinations = ids_[node_table_index(from_, table.destination)];
    const bool is_undirected = links.reverse_edge_table == links.edge_table;
    const auto old_pairs = from.view<int64_t>();
    const auto pairs = links.pairs.mutable_view<int64_t>();
    for (size_t at = 0; at + 1 < pairs.size(); at += 2) {
      int64_t source = sources[static_cast<size_t>(old_pairs[at])];
      int64_t destination = destinations[static_cast<size_t>(old_pairs[at + 1])];
      if (is_undirected && source > destination) std::swap(source, destination);
      pairs[at] = source;
      pairs[at + 1] = destination;
    }
    GNN_ASSIGN_OR_RETURN(links.pairs, tools_.storage.commit(std::move(links.pairs)));
    return {};
  }

  const data::DatasetArrays& from_;
  const RewriteTools& tools_;
  std::vector<std::vector<int64_t>> ids_;
  data::DatasetArrays made_;
};

}  // namespace

std::string describe(const PartitionOptions& options) {
  std::string text = "parts=" + std::to_string(options.parts) +
                     ", method=" + std::string(method_name(options.method)) +
                     ", fanout=" + numbers_text(options.fanout);
  for (const EdgeTypeFanout& own : options.fanout_by_edge_type) {
    text += ", fanout of " + text_of(own.edge_type) + "=" + numbers_text(own.fanout);
  }
  return text + ", batchSize=" + std::to_string(options.batch_size) +
         ", replace=" + (options.replace ? "true" : "false") +
         ", rule=" + (options.rule == data::HopRule::AllSeen ? "AllSeen" : "NewNodes") +
         ", negatives=" + data::number_text(options.negatives) +
         ", hotRows=" + data::number_text(options.hot_rows) +
         ", seed=" + std::to_string(options.seed);
}

Result<data::DatasetArrays> partition(
    const data::DatasetArrays& dataset,
    const PartitionOptions& options,
    data::ArrayStorage& storage,
    ThreadPool& others,
    ProgressBar& progress
) {
  if (dataset.graph_labels.defined()) {
    return wrong_option("--input: a collection of graphs has no partitions; its ranks share it");
  }
  if (dataset.partitions) {
    return wrong_option("--input: is partitioned already; partition the data set it was made from");
  }
  GNN_RETURN_IF_ERROR(check_options(dataset, options));
  const data::BatchDraws draws = draws_of(dataset, options);
  const Seeds seeds = seeds_of(dataset);
  GNN_RETURN_IF_ERROR(check_dataset(dataset, seeds, options.parts));

  // 1. Memory: what nodes take leaves the rest for the edges and rows of a pass.
  const OrderOptions ordering{.parts = options.parts, .hot_rows = options.hot_rows};
  const int64_t left_for_metis = storage.memory_bytes() - kept_bytes(dataset, seeds);
  GNN_ASSIGN_OR_RETURN(
      const data::MemoryHold hold,
      storage.hold(
          kept_bytes(dataset, seeds) +
              std::max(
                  order_bytes(hotness_input(dataset, draws), ordering), rewriting_bytes(dataset)
              ),
          "partitioning " + std::to_string(num_nodes(dataset)) + " nodes"
      )
  );
  const AssignTools tools{.storage = storage, .others = others, .progress = progress};
  const AssignInput input{
      .dataset = dataset,
      .draws = draws,
      .seeds = seeds,
      .parts = options.parts,
      .seed = static_cast<uint64_t>(options.seed)
  };

  // 2. The part of each node. It may have cost hours, so it is kept for a run that resumes this one.
  GNN_ASSIGN_OR_RETURN(Assignment assignment, find_assignment(dataset, storage));
  if (assignment.empty()) {
    GNN_ASSIGN_OR_RETURN(assignment, assign(input, options.method, left_for_metis, tools));
    GNN_RETURN_IF_ERROR(keep_assignment(dataset, assignment, storage));
  }

  // 3. The order of the nodes of each part.
  GNN_ASSIGN_OR_RETURN(
      data::Partitions partitions, order_nodes(input, assignment, ordering, tools)
  );
  assignment = {};
  partitions.book.method = method_name(options.method);
  partitions.book.seed = options.seed;
  partitions.book.draws = draws;

  // 4. Everything else in that order.
  const RewriteTools rewriting{
      .storage = storage,
      .pass_bytes = storage.memory_bytes(),
      .others = others,
      .progress = progress
  };
  GNN_ASSIGN_OR_RETURN(
      data::DatasetArrays made, Renumbering(dataset, rewriting).run(std::move(partitions))
  );
  made.origin.options += (made.origin.options.empty() ? "" : ", ") + describe(options);
  return made;
}

}  // namespace gnn::partition
