// The hit rate that hotness predicts for caches of remote rows, beside that of the sampler's batches. One JSON line
// for each part, sampling rule and cache.

#include "common/progress_bar.h"
#include "worker/data/array.h"
#include "worker/data/counter_random.h"
#include "worker/data/generate.h"
#include "worker/partition/hotness.h"
#include "worker/partition/partition.h"
#include "worker/partition/report.h"
#include "worker/partition/seeds.h"
#include "worker/sampling/core/neighbor_kernel.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace gnn::bench {
namespace {

struct Options {
  std::string shape = "ogbn-products";
  double scale = 0.1;
  int64_t parts = 2;
  std::string method = "hotness";
  std::vector<int64_t> fanout{15, 10, 5};
  int64_t batch_size = 1024;
  int64_t batches = 40;
  bool replace = false;
  uint64_t seed = 1;
};

partition::Method method_of(const std::string& name) {
  for (const auto method :
       {partition::Method::Random,
        partition::Method::Hotness,
        partition::Method::Ldg,
        partition::Method::Metis}) {
    if (partition::method_name(method) == name) return method;
  }
  throw CLI::ValidationError("--method", "unknown: " + name);
}

data::DatasetArrays partitioned(const Options& options, ThreadPool& others) {
  data::MemoryStorage memory;
  SilentProgressBar silent;
  const data::DatasetArrays whole =
      data::generate(
          {.shape = data::parse_shape(options.shape).value(), .scale = options.scale},
          memory,
          silent
      )
          .value();
  return partition::partition(
             whole,
             {.parts = options.parts,
              .method = method_of(options.method),
              .fanout = options.fanout,
              .batch_size = options.batch_size,
              .replace = options.replace,
              .hot_rows = 0.01},
             memory,
             others,
             silent
  )
      .value();
}

// How many batches of a part read each node.
std::vector<double> counted_reads(
    const data::DatasetArrays& set,
    const data::BatchDraws& draws,
    std::vector<int64_t> items,
    const Options& options
) {
  namespace core = sampling::core;
  const partition::HotnessInput input = partition::hotness_input(set, draws);
  const partition::HotnessEdges& edges = input.edges.at(0);
  core::NeighborKernel kernel(
      input.num_nodes,
      {{.indptr = edges.indptr.data(),
        .indices32 = std::get<std::span<const int32_t>>(edges.indices).data(),
        .source_type = 0,
        .destination_type = 0,
        .lane = 0,
        .fanout = options.fanout}},
      {.fanout = options.fanout,
       .replace = draws.replace,
       .rule = draws.rule == data::HopRule::AllSeen ? core::SamplingRule::AllSeen
                                                    : core::SamplingRule::NewNodes}
  );
  core::SampleArena arena;
  std::vector<double> reads(static_cast<size_t>(input.num_nodes[0]));
  const data::CounterRandom random(options.seed, 9);
  uint64_t draw = 0;
  const auto size = std::min(items.size(), static_cast<size_t>(options.batch_size));
  for (int64_t batch = 0; batch < options.batches; ++batch) {
    for (size_t i = 0; i < size; ++i) {
      const auto left = static_cast<int64_t>(items.size() - i);
      std::swap(items[i], items[i + static_cast<size_t>(random.below(draw++, left))]);
    }
    const std::vector<std::span<const int64_t>> seeds{std::span(items).first(size)};
    kernel.sample(
        seeds, {.seed = options.seed, .epoch = 0, .batch = static_cast<uint64_t>(batch)}, arena
    );
    for (int64_t i = 0; i < arena.nodes[0].up_to.back(); ++i) {
      reads[static_cast<size_t>(arena.nodes[0].ids.data()[i])] += 1;
    }
  }
  for (double& node : reads) node /= static_cast<double>(options.batches);
  return reads;
}

double share(double part, double all) {
  return all > 0 ? part / all : 1;
}

void compare(
    const data::DatasetArrays& set,
    const data::BatchDraws& draws,
    int64_t part,
    const Options& options,
    ThreadPool& others
) {
  const data::IdRange own = set.partitions->book.range_of(0, part);
  std::vector<int64_t> items;
  for (const int64_t id : set.train.view<int64_t>()) {
    if (own.contains(id)) items.push_back(id);
  }
  const int64_t nodes = set.node_tables[0].num_nodes;
  const std::vector<double> expected =
      partition::hotness(
          partition::hotness_input(set, draws),
          {partition::node_seed_probabilities(items, nodes, options.batch_size)},
          others
      )
          .at(0);
  const std::vector<double> counted = counted_reads(set, draws, items, options);
  std::vector<size_t> remote;
  double local_expected = 0;
  double local_counted = 0;
  for (size_t node = 0; node < expected.size(); ++node) {
    if (!own.contains(static_cast<int64_t>(node))) {
      remote.push_back(node);
    } else {
      local_expected += expected[node];
      local_counted += counted[node];
    }
  }
  std::sort(remote.begin(), remote.end(), [&](size_t a, size_t b) {
    return expected[a] > expected[b];
  });
  std::vector<double> best;
  for (const size_t node : remote) best.push_back(counted[node]);
  std::sort(best.rbegin(), best.rend());
  double all_expected = 0;
  double all_counted = 0;
  for (const size_t node : remote) {
    all_expected += expected[node];
    all_counted += counted[node];
  }
  for (const double cache : partition::kCacheShares) {
    const auto rows = std::min(
        remote.size(),
        static_cast<size_t>(cache * static_cast<double>(set.node_tables[0].num_nodes))
    );
    double hits_expected = 0;
    double hits_counted = 0;
    for (size_t i = 0; i < rows; ++i) {
      hits_expected += expected[remote[i]];
      hits_counted += counted[remote[i]];
    }
    const double most = std::accumulate(best.begin(), best.begin() + static_cast<long>(rows), 0.0);
    const nlohmann::ordered_json line{
        {"part", part},
        {"rule", draws.rule == data::HopRule::AllSeen ? "AllSeen" : "NewNodes"},
        {"cache", cache},
        {"predicted", share(hits_expected, all_expected)},
        {"measured", share(hits_counted, all_counted)},
        {"ofBest", share(hits_counted, most)},
        {"remoteReads", {{"predicted", all_expected}, {"measured", all_counted}}},
        {"localReads", {{"predicted", local_expected}, {"measured", local_counted}}}
    };
    std::printf("%s\n", line.dump().c_str());
  }
  std::fflush(stdout);
}

int run(const Options& options) {
  ThreadPool others(std::max(1U, std::thread::hardware_concurrency()) - 1);
  const data::DatasetArrays set = partitioned(options, others);
  std::printf("%s", partition::report_text(partition::make_report(set)).c_str());
  for (const auto rule : {data::HopRule::NewNodes, data::HopRule::AllSeen}) {
    const data::BatchDraws draws{
        .fanouts = {options.fanout},
        .batch_size = options.batch_size,
        .replace = options.replace,
        .rule = rule
    };
    for (int64_t part = 0; part < options.parts; ++part) compare(set, draws, part, options, others);
  }
  return 0;
}

}  // namespace
}  // namespace gnn::bench

int main(int argc, char** argv) {
  gnn::bench::Options options;
  CLI::App app{"The hit rate that hotness predicts beside that of the sampler's batches"};
  app.add_option("--shape", options.shape, "a homogeneous shape of gnn-worker data generate");
  app.add_option("--scale", options.scale);
  app.add_option("--parts", options.parts);
  app.add_option("--method", options.method);
  app.add_option("--fanout", options.fanout)->delimiter(',');
  app.add_option("--batch-size", options.batch_size);
  app.add_option("--batches", options.batches, "of each part, counted");
  app.add_flag("--replace", options.replace);
  app.add_option("--seed", options.seed);
  CLI11_PARSE(app, argc, argv);
  return gnn::bench::run(options);
}
