// Sampling and gathering on a graph of ogbn-products' shape, beside the machine's own limits. With
// --npy-graph and --seeds: one measurement on a given graph, to be compared with another program's.

#include "tests/bench/sampling/bench_graph.h"
#include "tests/bench/sampling/limits.h"
#include "tests/bench/sampling/side_by_side.h"
#include "worker/data/gather.h"
#include "worker/sampling/core/neighbor_kernel.h"

#include <CLI/CLI.hpp>
#include <benchmark/benchmark.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <span>
#include <string>
#include <time.h>
#include <vector>

namespace gnn::bench {
namespace {

using sampling::core::NeighborKernel;
using sampling::core::SampleArena;
using sampling::core::SamplingRule;

constexpr size_t kBatch = 1024;
constexpr int64_t kLoads = 20'000'000;
constexpr size_t kGatheredRows = 500'000;  // about the nodes of one batch

enum class Map { Direct, Hash };

struct SampleCase {
  std::string rule;
  Map map = Map::Direct;
};

// The CPU time of the calling thread. On a shared machine a rate by CPU time says what the code
// does, one by wall time also what else ran.
class CpuClock {
 public:
  [[nodiscard]] double seconds() const { return now() - start_; }

 private:
  static double now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }
  double start_ = now();
};

// `amount` of one thread: summed over threads by wall time, averaged by CPU time.
void count_rate(benchmark::State& state, double amount, const CpuClock& clock) {
  state.counters["rate"] = benchmark::Counter(amount, benchmark::Counter::kIsRate);
  state.counters["per_cpu"] =
      benchmark::Counter(amount / clock.seconds(), benchmark::Counter::kAvgThreads);
}

void random_loads(benchmark::State& state, const BenchGraph& graph) {
  uint64_t seed = static_cast<uint64_t>(state.thread_index()) + 1;
  const CpuClock clock;
  for (auto _ : state) {
    benchmark::DoNotOptimize(load_at_random(
        graph.relation.indices32, static_cast<uint64_t>(graph.num_edges), kLoads, ++seed
    ));
  }
  count_rate(state, static_cast<double>(kLoads * state.iterations()), clock);
}

void sample(benchmark::State& state, const BenchGraph& graph, const SampleCase& each) {
  sampling::core::KernelOptions options;
  options.fanout = {15, 10, 5};
  options.rule = each.rule == "all-seen" ? SamplingRule::AllSeen : SamplingRule::NewNodes;
  if (each.map == Map::Hash) options.sampler_memory_bytes = 0;
  NeighborKernel kernel({graph.num_nodes}, {graph.relation}, options);
  SampleArena arena;
  auto batch = static_cast<uint64_t>(state.thread_index()) << 32;
  const auto run = [&] {
    ++batch;
    const auto seeds = random_nodes(kBatch, graph.num_nodes, batch);
    const std::span<const int64_t> span(seeds);
    kernel.sample({&span, 1}, {.batch = batch}, arena);
    return arena.edges[0].up_to.back();
  };
  for (int i = 0; i < 3; ++i) run();  // the arena grows to its size
  int64_t edges = 0;
  const CpuClock clock;
  for (auto _ : state) edges += run();
  count_rate(state, static_cast<double>(edges), clock);
  state.counters["state_bytes"] = benchmark::Counter(
      static_cast<double>(kernel.state_bytes()), benchmark::Counter::kAvgThreads
  );
}

void copy_memory(benchmark::State& state, const BenchGraph& graph) {
  const size_t bytes = kGatheredRows * graph.row_bytes;
  PageBuffer out;
  out.reserve(bytes);
  std::memcpy(out.data(), graph.features, bytes);
  size_t at = 0;
  const CpuClock clock;
  for (auto _ : state) {
    // Another stretch each time: a copy's source is as cold as a gather's.
    at = at == 0 ? static_cast<size_t>(graph.num_nodes) * graph.row_bytes / 2 : 0;
    std::memcpy(out.data(), graph.features + at, bytes);
    benchmark::ClobberMemory();
  }
  count_rate(state, static_cast<double>(bytes) * static_cast<double>(state.iterations()), clock);
}

void gather(benchmark::State& state, const BenchGraph& graph) {
  std::vector<std::vector<int64_t>> batches;
  for (uint64_t i = 0; i < 4; ++i)
    batches.push_back(random_nodes(kGatheredRows, graph.num_nodes, 1000 + i));
  PageBuffer out;
  out.reserve(kGatheredRows * graph.row_bytes);
  size_t turn = 0;
  const auto run = [&] {
    const auto& ids = batches[turn++ % batches.size()];
    data::gather_rows(graph.features, graph.row_bytes, ids, static_cast<std::byte*>(out.data()));
    benchmark::ClobberMemory();
  };
  run();
  const CpuClock clock;
  for (auto _ : state) run();
  count_rate(
      state,
      static_cast<double>(kGatheredRows * graph.row_bytes) *
          static_cast<double>(state.iterations()),
      clock
  );
}

// Keeps the medians that the summary is made of.
class SummaryReporter final : public benchmark::ConsoleReporter {
 public:
  SummaryReporter() : ConsoleReporter(OO_Tabular) {}

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.aggregate_name != "median") continue;
      for (const auto& [name, counter] : run.counters) {
        medians_[run.run_name.function_name][name] = counter.value;
      }
    }
    ConsoleReporter::ReportRuns(runs);
  }

  [[nodiscard]] double median(const std::string& benchmark, const std::string& counter) const {
    return medians_.at(benchmark).at(counter);
  }

 private:
  std::map<std::string, std::map<std::string, double>> medians_;
};

// The summary by one of the two clocks. Two threads by CPU time: their mean rate times two.
nlohmann::json summarise(const SummaryReporter& report, const std::string& counter) {
  const auto median = [&](const std::string& name) { return report.median(name, counter); };
  const double both = counter == "per_cpu" ? 2 : 1;
  const double loads = median("random_loads");
  const double one = median("sample_new_nodes");
  return {
      {"random_loads_per_second", loads},
      {"edges_per_second",
       {{"new_nodes", one},
        {"all_seen", median("sample_all_seen")},
        {"new_nodes_hash", median("sample_new_nodes_hash")},
        {"new_nodes_two_threads", both * median("sample_new_nodes_two_threads")}}},
      {"share_of_half_the_random_loads", one / (loads / 2)},
      {"two_threads_over_one", both * median("sample_new_nodes_two_threads") / one},
      {"random_loads_two_threads_over_one", both * median("random_loads_two_threads") / loads},
      {"memcpy_bytes_per_second", median("memcpy")},
      {"gather_bytes_per_second", median("gather_100_floats")},
      {"gather_over_memcpy", median("gather_100_floats") / median("memcpy")}
  };
}

nlohmann::json summarise(const SummaryReporter& report, const BenchGraph& graph) {
  return {
      {"nodes", graph.num_nodes},
      {"edges", graph.num_edges},
      {"fanout", {15, 10, 5}},
      {"batch_size", kBatch},
      {"by_wall_time", summarise(report, std::string("rate"))},
      {"by_cpu_time", summarise(report, std::string("per_cpu"))},
      {"state_bytes_per_thread",
       {{"direct", report.median("sample_new_nodes", "state_bytes")},
        {"hash", report.median("sample_new_nodes_hash", "state_bytes")}}}
  };
}

int run_benchmarks(const std::string& summary_path, int repetitions) {
  const BenchGraph graph = make_products_shape();
  const auto configure = [&](benchmark::internal::Benchmark* each) {
    // Interleaved, so that a limit and what is held against it meet the same state of a shared
    // machine.
    each->UseRealTime()
        ->Unit(benchmark::kMillisecond)
        ->MinTime(0.5)
        ->Repetitions(repetitions)
        ->ReportAggregatesOnly();
    return each;
  };
  const auto add = [&](const std::string& name, auto function, auto... arguments) {
    return configure(benchmark::RegisterBenchmark(
        name.c_str(), [=, &graph](benchmark::State& state) { function(state, graph, arguments...); }
    ));
  };
  add("random_loads", random_loads);
  add("random_loads_two_threads", random_loads)->Threads(2);
  add("sample_new_nodes", sample, SampleCase{"new-nodes", Map::Direct});
  add("sample_new_nodes_two_threads", sample, SampleCase{"new-nodes", Map::Direct})->Threads(2);
  add("sample_all_seen", sample, SampleCase{"all-seen", Map::Direct});
  add("sample_new_nodes_hash", sample, SampleCase{"new-nodes", Map::Hash});
  add("memcpy", copy_memory);
  add("gather_100_floats", gather);
  SummaryReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  const std::string summary = summarise(reporter, graph).dump(2);
  std::cout << summary << '\n';
  if (!summary_path.empty()) std::ofstream(summary_path) << summary << '\n';
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app("Sampling and gathering beside the machine's limits");
  std::string summary_path;
  std::string graph_directory;
  std::string seeds_path;
  std::string output_directory;
  int repetitions = 7;
  SideBySideOptions options;
  app.add_option("--summary", summary_path, "also write the summary (JSON) to this file");
  app.add_option("--repetitions", repetitions, "measurements of each benchmark; the median counts");
  app.add_option(
      "--write-npy-graph", output_directory, "only write the graph as .npy files to this directory"
  );
  auto* graph_option = app.add_option(
      "--npy-graph",
      graph_directory,
      "measure once on indptr.npy, indices.npy and features.npy of this directory"
  );
  app.add_option("--seeds", seeds_path, ".npy file of int64 node ids")->needs(graph_option);
  app.add_option("--fanout", options.fanout, "per hop, next to the seeds first")->delimiter(',');
  app.add_option("--rule", options.rule)->check(CLI::IsMember({"new-nodes", "all-seen"}));
  app.add_flag("--replace", options.replace, "sample with replacement");
  app.add_flag("--gather", options.gather, "also gather the features of each batch");
  app.add_option("--batch-size", options.batch_size)->check(CLI::PositiveNumber);
  app.add_option("--threads", options.num_threads)->check(CLI::PositiveNumber);
  app.add_option("--warm-up", options.warm_up_batches, "batches before the clock starts")
      ->check(CLI::NonNegativeNumber);
  CLI11_PARSE(app, argc, argv);

  if (!output_directory.empty()) {
    write_npy_graph(make_products_shape(), output_directory);
    return 0;
  }
  if (graph_directory.empty()) return run_benchmarks(summary_path, repetitions);
  std::cout << measure_side_by_side(
                   map_npy_graph(graph_directory), read_npy_ids(seeds_path), options
               )
            << '\n';
  return 0;
}

}  // namespace
}  // namespace gnn::bench

int main(int argc, char** argv) {
  // Ours come first; what starts with --benchmark is the library's.
  benchmark::Initialize(&argc, argv);
  try {
    return gnn::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "sampling_bench: " << error.what() << '\n';
    return 1;
  }
}
