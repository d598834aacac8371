#include "tests/bench/sampling/side_by_side.h"

#include "worker/data/gather.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <span>
#include <stdexcept>
#include <thread>

namespace gnn::bench {

namespace {

using sampling::core::NeighborKernel;
using sampling::core::SampleArena;
using sampling::core::SamplingRule;

struct Counts {
  int64_t edges = 0;
  int64_t nodes = 0;
  size_t state_bytes = 0;
};

// One thread: its own sampler, batches taken from a common counter.
class Worker {
 public:
  Worker(
      const BenchGraph& graph, const std::vector<int64_t>& seeds, const SideBySideOptions& options
  )
      : graph_(graph), seeds_(seeds), options_(options), kernel_(make_kernel(graph, options)) {}

  void warm_up(int64_t num_batches) {
    for (int64_t i = 0; i < std::min(options_.warm_up_batches, num_batches); ++i) run(i);
    counts_ = {};
  }

  void run(int64_t batch) {
    const auto begin = static_cast<size_t>(batch * options_.batch_size);
    const size_t size = std::min(static_cast<size_t>(options_.batch_size), seeds_.size() - begin);
    const std::span<const int64_t> span(seeds_.data() + begin, size);
    kernel_.sample({&span, 1}, {.batch = begin}, arena_);
    const int64_t num_nodes = arena_.nodes[0].up_to.back();
    if (options_.gather) {
      rows_.reserve(static_cast<size_t>(num_nodes) * graph_.row_bytes);
      data::gather_rows(
          graph_.features,
          graph_.row_bytes,
          {arena_.nodes[0].ids.data(), static_cast<size_t>(num_nodes)},
          static_cast<std::byte*>(rows_.data())
      );
    }
    counts_.edges += arena_.edges[0].up_to.back();
    counts_.nodes += num_nodes;
  }

  [[nodiscard]] Counts counts() const {
    Counts counts = counts_;
    counts.state_bytes = kernel_.state_bytes();
    return counts;
  }

 private:
  static NeighborKernel make_kernel(const BenchGraph& graph, const SideBySideOptions& options) {
    sampling::core::KernelOptions kernel;
    kernel.fanout = options.fanout;
    kernel.replace = options.replace;
    kernel.rule = options.rule == "all-seen" ? SamplingRule::AllSeen : SamplingRule::NewNodes;
    return {{graph.num_nodes}, {graph.relation}, kernel};
  }

  const BenchGraph& graph_;
  const std::vector<int64_t>& seeds_;
  const SideBySideOptions& options_;
  NeighborKernel kernel_;
  SampleArena arena_;
  PageBuffer rows_;
  Counts counts_;
};

}  // namespace

std::string measure_side_by_side(
    const BenchGraph& graph, const std::vector<int64_t>& seeds, const SideBySideOptions& options
) {
  const int64_t bad = data::first_out_of_range(seeds, graph.num_nodes);
  if (bad >= 0) {
    throw std::runtime_error("seed " + std::to_string(bad) + " lies outside the graph");
  }
  if (options.gather && graph.features == nullptr) {
    throw std::runtime_error("gathering needs features.npy beside the graph");
  }
  const auto total = static_cast<int64_t>(seeds.size());
  const int64_t num_batches = (total + options.batch_size - 1) / options.batch_size;
  std::latch ready(options.num_threads + 1);
  std::atomic<int64_t> next = 0;
  std::vector<Counts> counts(static_cast<size_t>(options.num_threads));
  std::vector<std::thread> threads;
  for (Counts& result : counts) {
    threads.emplace_back([&] {
      Worker worker(graph, seeds, options);
      worker.warm_up(num_batches);
      ready.arrive_and_wait();
      for (int64_t batch = next++; batch < num_batches; batch = next++) worker.run(batch);
      result = worker.counts();
    });
  }
  ready.arrive_and_wait();
  const auto start = std::chrono::steady_clock::now();
  for (std::thread& thread : threads) thread.join();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  Counts sum;
  for (const Counts& each : counts) {
    sum.edges += each.edges;
    sum.nodes += each.nodes;
    sum.state_bytes = std::max(sum.state_bytes, each.state_bytes);
  }
  return nlohmann::json{
      {"edges", sum.edges},
      {"nodes", sum.nodes},
      {"batches", num_batches},
      {"threads", options.num_threads},
      {"seconds", seconds},
      {"edges_per_second", static_cast<double>(sum.edges) / seconds},
      {"state_bytes_per_thread", sum.state_bytes}
  }.dump();
}

}  // namespace gnn::bench
