#include "worker/tasks/hot_rows.h"

#include "common/thread_pool.h"
#include "worker/data/memory_plan.h"
#include "worker/partition/hotness.h"
#include "worker/partition/seeds.h"
#include "worker/shards/row_cache.h"
#include "worker/tasks/values.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <variant>

namespace gnn::tasks {
namespace {

using HotRowsByType = std::vector<graph::HotRowsData>;

data::BatchDraws draws_of(size_t num_edge_types, const TrainingBatches& batches) {
  const sampling::NeighborSamplerOptions& sampling = batches.sampler.options;
  data::BatchDraws draws{
      .fanouts = {},
      .batch_size = batches.items.batch_size,
      .replace = sampling.replace,
      .rule = sampling.rule == sampling::SamplingRule::AllSeen ? data::HopRule::AllSeen
                                                               : data::HopRule::NewNodes,
      .negatives = batches.items.links ? batches.items.links->negatives : 0
  };
  draws.fanouts.assign(num_edge_types, std::vector<int64_t>(sampling.fanout.size(), 0));
  const std::vector<shards::PartRelation>& relations = batches.sampler.relations;
  for (size_t i = 0; i < relations.size(); ++i) {
    const int64_t lane = relations[i].lane;
    draws.fanouts.at(lane < 0 ? i : static_cast<size_t>(lane)) =
        relations[i].fanout.empty() ? sampling.fanout : relations[i].fanout;
  }
  return draws;
}

// Without lists where the caller takes none.
partition::HotnessInput input_of(
    const TrainingBatches& batches,
    const data::BatchDraws& draws,
    const std::vector<int64_t>& num_nodes,
    bool takes_lists
) {
  partition::HotnessInput input{
      .num_nodes = num_nodes, .edges = {}, .replace = draws.replace, .rule = draws.rule
  };
  const std::vector<shards::PartRelation>& relations = batches.sampler.relations;
  for (size_t i = 0; i < relations.size(); ++i) {
    const shards::PartRelation& relation = relations[i];
    const shards::PartLists& lists = relation.lists;
    partition::HotnessEdges edges{
        .source = static_cast<size_t>(relation.source_type),
        .destination = static_cast<size_t>(relation.destination_type),
        .indptr = {},
        .indices = {},
        .fanout = draws.fanouts.at(relation.lane < 0 ? i : static_cast<size_t>(relation.lane)),
        .first = lists.nodes.begin
    };
    if (lists.indices.scalar_type() == at::kInt) {
      edges.indices = values_of<int32_t>(lists.indices);
    } else {
      edges.indices = values_of<int64_t>(lists.indices);
    }
    if (takes_lists) edges.indptr = values_of<int64_t>(lists.indptr);
    if (takes_lists && relation.ends.defined()) edges.ends = values_of<int64_t>(relation.ends);
    input.edges.push_back(edges);
  }
  return input;
}

// Of the batches of those who own these nodes of the items' type.
std::vector<std::vector<double>> seeds_of(
    const TrainingItems& items,
    const data::BatchDraws& draws,
    const std::vector<int64_t>& num_nodes,
    const data::IdRange& owned
) {
  const at::Tensor ids = items.ids.contiguous();
  const auto type = static_cast<size_t>(items.node_type);
  if (!items.links) {
    std::vector<int64_t> own;
    for (const int64_t id : values_of<int64_t>(ids)) {
      if (owned.contains(id)) own.push_back(id);
    }
    std::vector<std::vector<double>> seeds(num_nodes.size());
    seeds[type] = partition::node_seed_probabilities(own, num_nodes[type], items.batch_size);
    return seeds;
  }
  partition::PartLinks links{
      .pairs = values_of<int64_t>(ids),
      .source = static_cast<size_t>(items.links->source_type),
      .destination = type,
      .is_owned = [owned](int64_t destination) { return owned.contains(destination); }
  };
  for (size_t end = 0; end < links.negative_weights.size(); ++end) {
    const at::Tensor& weights = items.links->weights.at(end);
    if (weights.defined()) links.negative_weights.at(end) = values_of<double>(weights);
  }
  return partition::link_seed_probabilities(num_nodes, links, draws);
}

// Of local rank 0, on whose result the other ranks of its node wait: a sign of life at each step.
class Signs {
 public:
  Signs(const comm::RankGroups& groups, ProgressBar& progress, int64_t steps)
      : node_(*groups.node), progress_(progress), steps_(steps) {
    progress_.begin("hotness of rows", steps, "steps");
  }
  ~Signs() { progress_.end(); }
  Signs(const Signs&) = delete;
  Signs& operator=(const Signs&) = delete;

  Status give() {
    GNN_RETURN_IF_ERROR(node_.barrier());
    progress_.advance_to(++given_);
    return {};
  }
  Status give_all() {
    while (given_ < steps_) GNN_RETURN_IF_ERROR(give());
    return {};
  }

 private:
  comm::Communicator& node_;
  ProgressBar& progress_;
  const int64_t steps_;
  int64_t given_ = 0;
};

class HotRowsFinder {
 public:
  HotRowsFinder(
      const graph::Dataset& dataset,
      const shards::Part& part,
      const TrainingBatches& batches,
      const HotRowsOptions& options,
      const comm::RankGroups& groups
  )
      : dataset_(dataset),
        part_(part),
        batches_(batches),
        options_(options),
        groups_(groups),
        draws_(draws_of(dataset.edge_types.size(), batches)) {}

  Result<HotRowsByType> run() {
    GNN_ASSIGN_OR_RETURN(const Wish wish, agree());
    switch (wish) {
      case Wish::AsPartitioned:
        return HotRowsByType();
      case Wish::TooLarge:
        return without_hotness(
            "take " + short_count(static_cast<double>(memory_needed())) + "B of memory to find"
        );
      case Wish::Compute:
        if (options_.alone && is_apart())
          return without_hotness("are not to be found from one partition's lists");
        break;
    }
    HotRowsByType hot(dataset_.node_types.size());
    Signs signs(groups_, options_.progress, num_steps());
    if (groups_.node->rank() == 0) {
      GNN_ASSIGN_OR_RETURN(hot, compute(signs));
    } else {
      GNN_RETURN_IF_ERROR(signs.give_all());
    }
    GNN_RETURN_IF_ERROR(share(hot));
    return hot;
  }

 private:
  // The larger one counts, if not all ranks have the same.
  enum class Wish : int64_t { AsPartitioned, Compute, TooLarge };

  [[nodiscard]] bool is_apart() const { return part_.options().topology == shards::Held::Own; }
  [[nodiscard]] size_t num_types() const { return dataset_.node_types.size(); }
  [[nodiscard]] int64_t rows_of(size_t type) const {
    return static_cast<int64_t>(
        std::floor(options_.rows * static_cast<double>(part_.num_nodes()[type]))
    );
  }
  [[nodiscard]] const graph::HotRowsData& stored(size_t type) const {
    return dataset_.partitions->hot.at(type).at(static_cast<size_t>(part_.index()));
  }

  [[nodiscard]] bool has_enough_rows(size_t type) const {
    if (!dataset_.node_types[type].features) return true;
    const graph::HotRowsData& hot = stored(type);
    const int64_t kept = hot.ids.defined() ? hot.ids.numel() : 0;
    // All rows that are read at all may be fewer than the cache has room for.
    return kept >= rows_of(type) ||
           shards::hottest(hot, kept).expected_hit_rate.value_or(0) > 1 - 1e-9;
  }

  [[nodiscard]] int64_t memory_needed() const {
    const int64_t most = *std::max_element(part_.num_nodes().begin(), part_.num_nodes().end());
    return partition::hotness_bytes(input()) + most * int64_t{sizeof(int64_t)};
  }

  Result<Wish> agree() {
    Wish mine = Wish::AsPartitioned;
    bool fits = batches_.items.as_partitioned && draws_ == part_.book().draws;
    for (size_t type = 0; type < num_types(); ++type) fits = fits && has_enough_rows(type);
    if (!fits) mine = memory_needed() > options_.memory_bytes / 2 ? Wish::TooLarge : Wish::Compute;
    const at::Tensor wish = at::full({1}, static_cast<int64_t>(mine), at::kLong);
    GNN_RETURN_IF_ERROR(groups_.all->all_reduce(wish, comm::ReduceOp::Max));
    return static_cast<Wish>(wish.item<int64_t>());
  }

  Result<HotRowsByType> without_hotness(const std::string& why) {
    options_.progress.say(
        "The data set's hot rows are those of other batches than this job's, whose own " + why +
        ": the cache takes the data set's, and no hit rate is predicted"
    );
    HotRowsByType hot;
    for (size_t type = 0; type < num_types(); ++type)
      hot.push_back({.ids = stored(type).ids, .hotness = {}});
    return hot;
  }

  [[nodiscard]] int64_t num_steps() const {
    const auto hops = static_cast<int64_t>(batches_.sampler.options.fanout.size());
    return (is_apart() ? part_.book().parts : 1) * hops * static_cast<int64_t>(num_types());
  }

  // Of the nodes that hold a part, the first one takes its lists.
  [[nodiscard]] bool takes_lists() const {
    return !is_apart() || groups_.peers->rank() < part_.book().parts;
  }

  [[nodiscard]] std::vector<std::vector<double>> seeds_of_part(int64_t part) const {
    const auto type = static_cast<size_t>(batches_.items.node_type);
    return seeds_of(batches_.items, draws_, part_.num_nodes(), part_.book().range_of(type, part));
  }

  [[nodiscard]] partition::HotnessInput input() const {
    return input_of(batches_, draws_, part_.num_nodes(), takes_lists());
  }

  // On local rank 0.
  Result<HotRowsByType> compute(Signs& signs) {
    // The other ranks of the node wait.
    const int64_t cpus = std::max<int64_t>(options_.num_cpus, 1) * groups_.node->world_size();
    ThreadPool others(static_cast<size_t>(cpus - 1));
    const partition::HotnessInput graph = input();
    const auto sum = [&](std::span<double> values) -> Status {
      if (is_apart()) {
        const auto size = static_cast<int64_t>(values.size());
        GNN_RETURN_IF_ERROR(
            groups_.peers->all_reduce(at::from_blob(values.data(), {size}, at::kDouble))
        );
      }
      return signs.give();
    };
    HotRowsByType hot;
    for (int64_t part = 0; part < part_.book().parts; ++part) {
      if (!is_apart() && part != part_.index()) continue;
      GNN_ASSIGN_OR_RETURN(
          const auto reads, partition::hotness_together(graph, seeds_of_part(part), others, sum)
      );
      if (part != part_.index()) continue;
      for (size_t type = 0; type < num_types(); ++type) {
        const data::IdRange own = part_.own(static_cast<int64_t>(type));
        const int64_t rows = dataset_.node_types[type].features ? rows_of(type) : 0;
        hot.push_back(shards::hot_rows(reads[type], own, rows));
      }
    }
    return hot;
  }

  // From local rank 0 to the other ranks of the node.
  Status share(HotRowsByType& hot) {
    const bool has_them = groups_.node->rank() == 0;
    const auto types = static_cast<int64_t>(num_types());
    const at::Tensor counts = at::zeros({types}, at::kLong);
    const at::Tensor reads = at::zeros({types, 2}, at::kDouble);
    for (int64_t type = 0; has_them && type < types; ++type) {
      const graph::HotRowsData& of_type = hot[static_cast<size_t>(type)];
      counts[type] = of_type.ids.numel();
      reads[type][0] = of_type.local_reads;
      reads[type][1] = of_type.remote_reads;
    }
    GNN_RETURN_IF_ERROR(groups_.node->broadcast(counts, 0));
    GNN_RETURN_IF_ERROR(groups_.node->broadcast(reads, 0));
    for (int64_t type = 0; type < types; ++type) {
      graph::HotRowsData& of_type = hot[static_cast<size_t>(type)];
      const auto count = counts[type].item<int64_t>();
      if (!has_them) {
        of_type = {
            .ids = at::empty({count}, at::kLong),
            .hotness = at::empty({count}, at::kDouble),
            .local_reads = reads[type][0].item<double>(),
            .remote_reads = reads[type][1].item<double>()
        };
      }
      GNN_RETURN_IF_ERROR(groups_.node->broadcast(of_type.ids, 0));
      GNN_RETURN_IF_ERROR(groups_.node->broadcast(of_type.hotness, 0));
    }
    return {};
  }

  const graph::Dataset& dataset_;
  const shards::Part& part_;
  const TrainingBatches& batches_;
  const HotRowsOptions& options_;
  const comm::RankGroups& groups_;
  const data::BatchDraws draws_;
};

// The nodes of the largest values, those of the lowest ids among equals, hottest first.
template <class Value>
at::Tensor largest(const std::vector<Value>& values, int64_t most) {
  std::vector<int64_t> ids(values.size());
  std::iota(ids.begin(), ids.end(), int64_t{0});
  shards::keep_largest(ids, values, most);
  return at::tensor(ids, at::kLong);
}

// By how many entries of the lists name a node.
std::vector<at::Tensor> most_named(
    const partition::HotnessInput& graph, std::span<const int64_t> rows
) {
  std::vector<at::Tensor> found;
  for (size_t type = 0; type < graph.num_nodes.size(); ++type) {
    std::vector<uint32_t> counts(static_cast<size_t>(rows[type] > 0 ? graph.num_nodes[type] : 0));
    for (const partition::HotnessEdges& edges : graph.edges) {
      if (edges.source == type && rows[type] > 0)
        std::visit([&](const auto& ids) { shards::count_names(ids, counts); }, edges.indices);
    }
    found.push_back(largest(counts, rows[type]));
  }
  return found;
}

class HottestFinder {
 public:
  HottestFinder(
      const std::vector<int64_t>& num_nodes,
      const std::vector<int64_t>& rows,
      const TrainingBatches& batches,
      const HotRowsOptions& options,
      const comm::RankGroups& groups
  )
      : rows_(rows),
        batches_(batches),
        options_(options),
        groups_(groups),
        draws_(draws_of(num_edge_types(batches), batches)),
        graph_(input_of(batches, draws_, num_nodes, true)) {}

  Result<std::vector<at::Tensor>> run() {
    const auto hops = static_cast<int64_t>(batches_.sampler.options.fanout.size());
    Signs signs(groups_, options_.progress, hops * static_cast<int64_t>(rows_.size()));
    std::vector<at::Tensor> found(rows_.size());
    if (groups_.node->rank() == 0) {
      GNN_ASSIGN_OR_RETURN(found, find(signs));
    }
    GNN_RETURN_IF_ERROR(signs.give_all());
    for (size_t type = 0; type < rows_.size(); ++type) {
      if (!found[type].defined()) {
        const int64_t count = std::min(rows_[type], graph_.num_nodes[type]);
        found[type] = at::empty({count}, at::kLong);
      }
      GNN_RETURN_IF_ERROR(groups_.node->broadcast(found[type], 0));
    }
    return found;
  }

 private:
  static size_t num_edge_types(const TrainingBatches& batches) {
    int64_t count = 0;
    for (const shards::PartRelation& relation : batches.sampler.relations)
      count = std::max(count, relation.lane + 1);
    return std::max(static_cast<size_t>(count), batches.sampler.relations.size());
  }

  // On local rank 0.
  Result<std::vector<at::Tensor>> find(Signs& signs) {
    const int64_t needed = partition::hotness_bytes(graph_);
    if (needed > options_.memory_bytes / 2) {
      options_.progress.say(
          "Which rows batches read most would take " + data::bytes_text(needed) +
          " of memory to find: the rows on the GPU are those that most lists of neighbours name"
      );
      return most_named(graph_, rows_);
    }
    const int64_t cpus = std::max<int64_t>(options_.num_cpus, 1) * groups_.node->world_size();
    ThreadPool others(static_cast<size_t>(cpus - 1));
    const auto type = static_cast<size_t>(batches_.items.node_type);
    const data::IdRange all{.begin = 0, .end = graph_.num_nodes[type]};
    GNN_ASSIGN_OR_RETURN(
        const auto reads,
        partition::hotness_together(
            graph_,
            seeds_of(batches_.items, draws_, graph_.num_nodes, all),
            others,
            [&](std::span<double>) { return signs.give(); }
        )
    );
    options_.progress.say("The rows on the GPU are those that training batches read most");
    std::vector<at::Tensor> found;
    for (size_t each = 0; each < reads.size(); ++each)
      found.push_back(largest(reads[each], rows_[each]));
    return found;
  }

  const std::vector<int64_t>& rows_;
  const TrainingBatches& batches_;
  const HotRowsOptions& options_;
  const comm::RankGroups& groups_;
  const data::BatchDraws draws_;
  const partition::HotnessInput graph_;
};

}  // namespace

Result<std::vector<at::Tensor>> hottest_nodes(
    const std::vector<int64_t>& num_nodes,
    const std::vector<int64_t>& rows,
    const TrainingBatches& batches,
    const HotRowsOptions& options,
    const comm::RankGroups& groups
) {
  return HottestFinder(num_nodes, rows, batches, options, groups).run();
}

Result<std::vector<graph::HotRowsData>> hot_rows_of_job(
    const graph::Dataset& dataset,
    const shards::Part& part,
    const TrainingBatches& batches,
    const HotRowsOptions& options,
    const comm::RankGroups& groups
) {
  return HotRowsFinder(dataset, part, batches, options, groups).run();
}

}  // namespace gnn::tasks
