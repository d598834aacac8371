// Sampling and gathering on a GPU, on a graph of ogbn-products' shape, beside limits of the same run:
// a copy within the GPU's memory and one from pinned memory of the host.

#include "common/stopwatch.h"
#include "tests/bench/gpu/figures.h"
#include "tests/bench/sampling/bench_graph.h"
#include "tests/support/must.h"
#include "worker/data/gather.h"
#include "worker/gpu/gather.h"
#include "worker/gpu/memory.h"
#include "worker/gpu/neighbor_sampler.h"
#include "worker/sampling/core/neighbor_kernel.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <cuda_runtime_api.h>
#include <fstream>
#include <future>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gnn::bench {
namespace {

using sampling::core::RelationView;

constexpr size_t kBatch = 1024;
constexpr int64_t kGatheredRows = 500'000;  // about the nodes of one batch
constexpr int kGatherSets = 4;

struct BenchOptions {
  std::string json_path;
  int batches = 400;
  int in_flight = 4;
  std::vector<int64_t> reading_threads{0};
};

using testing::must;

void must_cuda(cudaError_t code) {
  if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

template <class T>
std::span<const std::byte> bytes_of(const T* data, int64_t count) {
  return std::as_bytes(std::span(data, static_cast<size_t>(count)));
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The table's rows, printed as they come.
class Figures {
 public:
  void add(const Figure& figure) {
    rows_.push_back(figure);
    std::cout << figure.what << ": " << figure.value << ' ' << figure.unit
              << (figure.goal.empty() ? "" : " (goal " + figure.goal + ")") << std::endl;
  }
  void write(const std::string& path) const {
    if (!path.empty()) std::ofstream(path) << text_of(rows_) << '\n';
  }

 private:
  std::vector<Figure> rows_;
};

// Bytes per second of a copy that `copy` begins on `stream`; the median of several stretches.
template <class Begin>
double rate_of(const gpu::OwnStream& stream, double bytes, const Begin& begin) {
  std::vector<double> rates;
  for (int round = 0; round < 6; ++round) {
    must(stream.wait());
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 4; ++i) begin(i);
    must(stream.wait());
    if (round > 0) rates.push_back(4 * bytes / seconds_since(start));
  }
  return median(rates);
}

// The graph where a GPU reads it.
struct Topology {
  std::vector<gpu::DeviceMemory> copies;
  std::vector<gpu::PinnedRange> pinned;
  RelationView relation{};
};

// reinterpret_cast in both: what was copied or pinned has its type still.
Topology on_device(const BenchGraph& graph) {
  Topology topology;
  topology.copies.push_back(
      must(gpu::DeviceMemory::copy_of(bytes_of(graph.relation.indptr, graph.num_nodes + 1)))
  );
  topology.copies.push_back(
      must(gpu::DeviceMemory::copy_of(bytes_of(graph.relation.indices32, graph.num_edges)))
  );
  topology.relation.indptr = reinterpret_cast<const int64_t*>(topology.copies[0].data());
  topology.relation.indices32 = reinterpret_cast<const int32_t*>(topology.copies[1].data());
  return topology;
}

Topology in_place(const BenchGraph& graph) {
  Topology topology;
  topology.pinned.push_back(
      must(gpu::PinnedRange::pin(bytes_of(graph.relation.indptr, graph.num_nodes + 1)))
  );
  topology.pinned.push_back(
      must(gpu::PinnedRange::pin(bytes_of(graph.relation.indices32, graph.num_edges)))
  );
  topology.relation.indptr = reinterpret_cast<const int64_t*>(topology.pinned[0].device_data());
  topology.relation.indices32 = reinterpret_cast<const int32_t*>(topology.pinned[1].device_data());
  return topology;
}

template <class T>
std::vector<T> to_host(const T* device, int64_t size) {
  std::vector<T> host(static_cast<size_t>(size));
  must(gpu::copy_to_host(std::as_writable_bytes(std::span(host)), device, nullptr));
  return host;
}

void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("differs from the CPU's: " + what);
}

// A batch must be the CPU's before its time counts.
void check_batch(
    const BenchGraph& graph,
    const gpu::SampledBatch& batch,
    const std::vector<int64_t>& seeds,
    uint64_t number,
    const sampling::core::KernelOptions& options
) {
  sampling::core::NeighborKernel kernel({graph.num_nodes}, {graph.relation}, options);
  sampling::core::SampleArena arena;
  const std::span<const int64_t> span(seeds);
  kernel.sample({&span, 1}, {.batch = number}, arena);
  const auto& nodes = arena.nodes[0];
  const auto& edges = arena.edges[0];
  expect(batch.nodes[0].up_to == nodes.up_to, "numbers of nodes");
  expect(batch.edges[0].up_to == edges.up_to, "numbers of edges");
  const auto ids = to_host(batch.nodes[0].ids, nodes.up_to.back());
  expect(std::equal(ids.begin(), ids.end(), nodes.ids.data()), "node ids");
  const auto indices = to_host(batch.edges[0].indices, edges.up_to.back());
  expect(std::equal(indices.begin(), indices.end(), edges.indices.data()), "indices");
}

struct SampleRun {
  int in_flight = 1;
  int64_t reading_threads = 0;
  int batches = 0;
};

// Sampled edges per second of wall time: one host thread gives batches to `in_flight` samplers, each
// with a stream of its own, and takes them in turn.
double sampling_rate(const BenchGraph& graph, const Topology& topology, const SampleRun& run) {
  gpu::NeighborSamplerOptions options;
  options.kernel.fanout = {15, 10, 5};
  options.most_reading_threads = run.reading_threads;
  std::vector<gpu::OwnStream> streams;
  std::vector<gpu::NeighborSampler> samplers;
  for (int i = 0; i < run.in_flight; ++i) {
    streams.push_back(must(gpu::OwnStream::create()));
    samplers.push_back(must(gpu::NeighborSampler::create(
        {graph.num_nodes}, {topology.relation}, options, streams.back().get()
    )));
  }
  const int warm_up = 2 * run.in_flight;
  std::vector<std::vector<int64_t>> seeds;
  for (int i = 0; i < warm_up + run.batches; ++i)
    seeds.push_back(random_nodes(kBatch, graph.num_nodes, static_cast<uint64_t>(i)));
  const auto begin = [&](int number) {
    const std::span<const int64_t> span(seeds[static_cast<size_t>(number)]);
    must(samplers[static_cast<size_t>(number % run.in_flight)].begin(
        {&span, 1}, {.batch = static_cast<uint64_t>(number)}
    ));
  };
  int64_t edges = 0;
  const auto take = [&](int number) {
    const gpu::SampledBatch batch =
        must(samplers[static_cast<size_t>(number % run.in_flight)].wait());
    if (number == warm_up - 1)
      check_batch(
          graph,
          batch,
          seeds[static_cast<size_t>(number)],
          static_cast<uint64_t>(number),
          options.kernel
      );
    edges += batch.edges[0].up_to.back();
  };
  const auto go = [&](int first, int end) {
    for (int number = first; number < end + run.in_flight; ++number) {
      if (number - run.in_flight >= first) take(number - run.in_flight);
      if (number < end) begin(number);
    }
  };
  go(0, warm_up);
  edges = 0;
  const auto start = std::chrono::steady_clock::now();
  go(warm_up, warm_up + run.batches);
  return static_cast<double>(edges) / seconds_since(start);
}

// The same by the CPU's kernel, on all cores.
double cpu_sampling_rate(const BenchGraph& graph, int batches) {
  const sampling::core::KernelOptions options{.fanout = {15, 10, 5}};
  std::atomic<int> next = 0;
  const auto sample = [&] {
    sampling::core::NeighborKernel kernel({graph.num_nodes}, {graph.relation}, options);
    sampling::core::SampleArena arena;
    int64_t edges = 0;
    for (int number = next++; number < batches; number = next++) {
      const auto seeds = random_nodes(kBatch, graph.num_nodes, static_cast<uint64_t>(number));
      const std::span<const int64_t> span(seeds);
      kernel.sample({&span, 1}, {.batch = static_cast<uint64_t>(number)}, arena);
      edges += arena.edges[0].up_to.back();
    }
    return edges;
  };
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::future<int64_t>> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i)
    threads.push_back(std::async(std::launch::async, sample));
  int64_t edges = 0;
  for (std::future<int64_t>& thread : threads) edges += thread.get();
  return static_cast<double>(edges) / seconds_since(start);
}

struct GatherRun {
  gpu::RowsView rows;
  size_t row_bytes = 0;
  int64_t num_rows = 0;
  int64_t reading_threads = 0;
};

// Bytes of rows per second.
double gather_rate(const BenchGraph& graph, const GatherRun& run) {
  const gpu::OwnStream stream = must(gpu::OwnStream::create());
  std::vector<std::vector<int64_t>> ids;
  std::vector<gpu::DeviceMemory> device_ids;
  for (uint64_t set = 0; set < kGatherSets; ++set) {
    ids.push_back(random_nodes(static_cast<size_t>(kGatheredRows), run.num_rows, 1000 + set));
    device_ids.push_back(must(gpu::DeviceMemory::copy_of(bytes_of(ids.back().data(), kGatheredRows))
    ));
  }
  const size_t bytes = static_cast<size_t>(kGatheredRows) * run.row_bytes;
  const gpu::DeviceMemory out = must(gpu::DeviceMemory::allocate(bytes));
  const auto begin = [&](int set) {
    must(gpu::gather_rows(
        {.rows = run.rows,
         .row_bytes = run.row_bytes,
         // reinterpret_cast: what was copied has its type still.
         .ids = reinterpret_cast<const int64_t*>(device_ids[static_cast<size_t>(set)].data()),
         .size = kGatheredRows,
         .out = out.data(),
         .most_reading_threads = run.reading_threads},
        stream.get()
    ));
  };
  const double rate = rate_of(stream, static_cast<double>(bytes), begin);
  must_cuda(cudaMemset(out.data(), 0xA5, bytes));
  begin(1);
  must(stream.wait());
  const std::vector<std::byte> rows = to_host(out.data(), static_cast<int64_t>(bytes));
  std::vector<std::byte> expected(bytes);
  data::gather_rows(graph.features, run.row_bytes, ids[1], expected.data());
  expect(std::memcmp(rows.data(), expected.data(), bytes) == 0, "gathered rows");
  return rate;
}

std::string with_threads(int64_t threads) {
  return threads == 0 ? "" : ", at most " + std::to_string(threads) + " threads";
}

struct Limits {
  double device_copy = 0;  // bytes read and written per second
  double bus_copy = 0;
};

Limits measure_limits(const BenchGraph& graph, Figures& figures) {
  const gpu::OwnStream stream = must(gpu::OwnStream::create());
  const size_t bytes = static_cast<size_t>(graph.num_nodes) * graph.row_bytes;
  const gpu::DeviceMemory from = must(gpu::DeviceMemory::copy_of({graph.features, bytes}));
  const gpu::DeviceMemory to = must(gpu::DeviceMemory::allocate(bytes));
  Limits limits;
  limits.device_copy = rate_of(stream, 2 * static_cast<double>(bytes), [&](int) {
    must_cuda(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, stream.get())
    );
  });
  figures.add({"copy within the GPU's memory, read and written", limits.device_copy / 1e9, "GB/s"});
  limits.bus_copy = rate_of(stream, static_cast<double>(bytes), [&](int) {
    must_cuda(
        cudaMemcpyAsync(to.data(), graph.features, bytes, cudaMemcpyHostToDevice, stream.get())
    );
  });
  figures.add({"copy from pinned memory of the host", limits.bus_copy / 1e9, "GB/s"});
  return limits;
}

void measure_sampling(const BenchGraph& graph, const BenchOptions& options, Figures& figures) {
  const auto measure = [&](const Topology& topology,
                           const std::string& mode,
                           const std::string& goal,
                           int64_t threads) {
    const std::string what =
        "sampling, products' shape [15,10,5] b1024, " + mode + with_threads(threads);
    for (const int in_flight : {1, options.in_flight}) {
      const double rate = sampling_rate(
          graph,
          topology,
          {.in_flight = in_flight, .reading_threads = threads, .batches = options.batches}
      );
      figures.add(
          {what + ", " + std::to_string(in_flight) + " in flight",
           rate / 1e6,
           "M edges/s",
           in_flight == options.in_flight ? goal : ""}
      );
    }
  };
  figures.add(
      {"sampling, products' shape [15,10,5] b1024, CPU, " +
           std::to_string(std::thread::hardware_concurrency()) + " threads",
       cpu_sampling_rate(graph, options.batches) / 1e6,
       "M edges/s"}
  );
  measure(on_device(graph), "Device", ">= 300", 0);
  const Topology pinned = in_place(graph);
  for (const int64_t threads : options.reading_threads)
    measure(pinned, "ZeroCopy", ">= 100", threads);
}

void measure_gather(
    const BenchGraph& graph,
    const gpu::PinnedRange& features,
    const BenchOptions& options,
    const Limits& limits,
    Figures& figures
) {
  const size_t bytes = static_cast<size_t>(graph.num_nodes) * graph.row_bytes;
  const gpu::DeviceMemory copy = must(gpu::DeviceMemory::copy_of({graph.features, bytes}));
  struct Shape {
    std::string name;
    size_t row_bytes;
  };
  for (const Shape& shape : {Shape{"100 float32", 400}, Shape{"128 float16", 256}}) {
    const int64_t num_rows = graph.num_nodes;
    const double device = gather_rate(
        graph, {.rows = {.all = copy.data()}, .row_bytes = shape.row_bytes, .num_rows = num_rows}
    );
    figures.add({"gather of " + shape.name + ", Device", device / 1e9, "GB/s"});
    figures.add(
        {"gather of " + shape.name + ", Device, read and written, of the copy",
         100 * 2 * device / limits.device_copy,
         "%",
         ">= 60"}
    );
    for (const int64_t threads : options.reading_threads) {
      const double zero_copy = gather_rate(
          graph,
          {.rows = {.all = features.device_data()},
           .row_bytes = shape.row_bytes,
           .num_rows = num_rows,
           .reading_threads = threads}
      );
      const std::string what = "gather of " + shape.name + ", ZeroCopy" + with_threads(threads);
      figures.add({what, zero_copy / 1e9, "GB/s"});
      figures.add({what + ", of the copy", 100 * zero_copy / limits.bus_copy, "%", ">= 80"});
    }
  }
}

int run(int argc, char** argv) {
  CLI::App app("Sampling and gathering on a GPU, beside its limits");
  BenchOptions options;
  app.add_option("--json", options.json_path, "also write the figures to this file");
  app.add_option("--batches", options.batches, "batches of each measurement")
      ->check(CLI::PositiveNumber);
  app.add_option("--in-flight", options.in_flight, "batches in flight")->check(CLI::PositiveNumber);
  app.add_option(
         "--reading-threads",
         options.reading_threads,
         "threads that read memory of the host; 0: no bound"
  )
      ->delimiter(',');
  CLI11_PARSE(app, argc, argv);

  const auto start = std::chrono::steady_clock::now();
  std::cout << must(gpu::device_name()) << std::endl;
  const BenchGraph graph = make_products_shape();
  const size_t feature_bytes = static_cast<size_t>(graph.num_nodes) * graph.row_bytes;
  const gpu::PinnedRange features = must(gpu::PinnedRange::pin({graph.features, feature_bytes}));
  std::cout << "graph made after " << seconds_since(start) << " s" << std::endl;
  Figures figures;
  const Limits limits = measure_limits(graph, figures);
  measure_sampling(graph, options, figures);
  measure_gather(graph, features, options, limits, figures);
  figures.write(options.json_path);
  std::cout << "done after " << seconds_since(start) << " s" << std::endl;
  return 0;
}

}  // namespace
}  // namespace gnn::bench

int main(int argc, char** argv) {
  try {
    return gnn::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "gnn-gpu-kernels-bench: " << error.what() << '\n';
    return 1;
  }
}
