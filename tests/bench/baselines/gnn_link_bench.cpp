// Our side of the comparison of link loaders: the same links, negatives, fan-outs and features as
// pyg_links.py, the same line of JSON, and beside it what one core can load at random.
#include "common/progress_bar.h"
#include "common/stopwatch.h"
#include "tests/bench/sampling/limits.h"
#include "tests/support/must.h"
#include "tests/support/npy.h"
#include "worker/data/generate.h"
#include "worker/graph/csc_graph.h"
#include "worker/loader/link_loader.h"
#include "worker/loader/tensor_memory.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <time.h>
#include <utility>
#include <vector>

namespace gnn {
namespace {

using Clock = std::chrono::steady_clock;
using testing::must;

constexpr int64_t kWarmUp = 2;
constexpr int64_t kLoads = 50'000'000;

struct Arguments {
  std::string graph;
  std::string write;
  double scale = 0.25;
  std::string mode = "gather";
  std::string fanout = "8,4";
  int64_t batch_size = 2048;
  int64_t batches = 20;
  int threads = 1;
  bool exclude = false;
};

double process_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void write_npy(const std::string& path, const data::Array& array) {
  std::string header = "{'descr': '<i8', 'fortran_order': False, 'shape': (" +
                       std::to_string(array.shape()[0]) + ", 2), }";
  header.resize(118 - 1, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file.write("\x93NUMPY\x01\x00\x76\x00", 10);
  file << header;
  const auto values = array.view<int64_t>();
  file.write(
      reinterpret_cast<const char*>(values.data()),
      static_cast<std::streamsize>(values.size_bytes())
  );
  if (!file.flush()) throw std::runtime_error(path + ": cannot be written");
}

// pairs.npy and the numbers of nodes.
void write_links(const Arguments& arguments) {
  data::MemoryStorage storage;
  SilentProgressBar progress;
  const data::DatasetArrays dataset = must(
      data::generate({.shape = data::Shape::Taobao, .scale = arguments.scale}, storage, progress)
  );
  std::filesystem::create_directories(arguments.write);
  write_npy(arguments.write + "/pairs.npy", dataset.links->pairs);
  std::ofstream(arguments.write + "/sizes.json")
      << nlohmann::json{dataset.node_tables[0].num_nodes, dataset.node_tables[1].num_nodes};
}

graph::CscGraph csc(
    const at::Tensor& sources, const at::Tensor& destinations, int64_t num_from, int64_t num_to
) {
  const at::Tensor order = destinations.argsort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
  at::Tensor indptr = at::zeros({num_to + 1}, at::kLong);
  indptr.slice(0, 1).copy_(at::bincount(destinations, {}, num_to).cumsum(0));
  return must(
      graph::CscGraph::create(indptr, sources.index({order}).to(at::kInt).contiguous(), num_from)
  );
}

struct Shop {
  explicit Shop(const std::string& directory) {
    pairs = testing::read_npy(directory + "/pairs.npy");
    const auto sizes =
        nlohmann::json::parse(std::ifstream(directory + "/sizes.json")).get<std::vector<int64_t>>();
    const at::Tensor users = pairs.select(1, 0).contiguous();
    const at::Tensor items = pairs.select(1, 1).contiguous();
    num_nodes = sizes;
    relations = {
        {.graph = csc(users, items, sizes[0], sizes[1]), .source_type = 0, .destination_type = 1},
        {.graph = csc(items, users, sizes[1], sizes[0]), .source_type = 1, .destination_type = 0}
    };
  }
  at::Tensor pairs;
  std::vector<int64_t> num_nodes;
  std::vector<sampling::Relation> relations;
};

std::unique_ptr<loader::LinkLoader> make_loader(const Arguments& arguments, const Shop& shop) {
  sampling::NeighborSamplerOptions sampling;
  for (const std::string& part : CLI::detail::split(arguments.fanout, ','))
    sampling.fanout.push_back(std::stoll(part));
  std::vector<std::shared_ptr<loader::FeatureFetcher>> features;
  for (const int64_t count : shop.num_nodes) {
    if (arguments.mode == "sample") continue;
    features.push_back(std::make_shared<loader::LocalFeatureFetcher>(
        must(loader::LocalFeatureFetcher::create(at::ones({count, 64})))
    ));
  }
  loader::LinkItems links;
  links.pairs = shop.pairs;
  links.sampler = std::make_shared<const sampling::core::NegativeSampler>(
      must(sampling::core::NegativeSampler::create(
          {.shape = {.num_sources = shop.num_nodes[0], .num_destinations = shop.num_nodes[1]}}
      ))
  );
  loader::LinkLoaderOptions options;
  options.items = {.batch_size = arguments.batch_size, .shuffle = true};
  options.batches = {
      .num_node_types = 2,
      .relations = {.source_type = 0, .destination_type = 1, .forward = 0, .backward = 1},
      .exclude_seed_edges = arguments.exclude
  };
  options.num_threads = 0;
  return must(loader::LinkLoader::create(
      options,
      std::move(links),
      std::make_shared<sampling::LocalSampler>(
          must(sampling::NeighborSampler::create(sampling, shop.num_nodes, shop.relations))
      ),
      std::move(features)
  ));
}

double loads_per_second(const at::Tensor& values) {
  const double start = process_cpu_seconds();
  volatile uint64_t sum = bench::load_at_random(
      values.const_data_ptr<int32_t>(), static_cast<uint64_t>(values.numel()), kLoads, 1
  );
  (void)sum;
  return static_cast<double>(kLoads) / (process_cpu_seconds() - start);
}

nlohmann::json run(const Arguments& arguments) {
  at::set_num_threads(arguments.threads);
  loader::keep_tensor_memory();  // as gnn-worker does
  const Shop shop(arguments.graph);
  const auto loader = make_loader(arguments, shop);
  if (const auto status = loader->start_epoch(0); !status)
    throw std::runtime_error(status.error().message);
  const double loads_before = loads_per_second(shop.relations[0].graph.indices());
  int64_t edges = 0;
  int64_t nodes = 0;
  Clock::time_point start;
  double cpu_start = 0;
  for (int64_t index = 0; index < arguments.batches + kWarmUp; ++index) {
    if (index == kWarmUp) {
      edges = nodes = 0;
      start = Clock::now();
      cpu_start = process_cpu_seconds();
    }
    const auto batch = must(loader->next());
    if (!batch) throw std::runtime_error("too few links for so many batches");
    for (const auto& relation : batch->subgraph.edges_per_hop) {
      for (const int64_t hop : relation) edges += hop;
    }
    for (const at::Tensor& ids : batch->subgraph.node_ids) nodes += ids.numel();
  }
  const double seconds = seconds_since(start);
  const double cpu_seconds = process_cpu_seconds() - cpu_start;
  const double loads = (loads_before + loads_per_second(shop.relations[0].graph.indices())) / 2;
  return {
      {"baseline", "gnn-operator"},
      {"mode", arguments.mode},
      {"threads", arguments.threads},
      {"batches", arguments.batches},
      {"edges", edges},
      {"input_nodes", nodes},
      {"seconds", seconds},
      {"cpu_seconds", cpu_seconds},
      {"random_loads_per_second", loads},
      {"share_of_half_the_random_loads", static_cast<double>(edges) / cpu_seconds / (loads / 2)},
      {"sample_seconds", loader->stats().sample_seconds},
      {"fetch_seconds", loader->stats().fetch_seconds},
  };
}

}  // namespace
}  // namespace gnn

int main(int argc, char** argv) {
  gnn::Arguments arguments;
  CLI::App app("Loads batches of links like pyg_links.py");
  app.add_option("--graph", arguments.graph, "folder with pairs.npy and sizes.json");
  app.add_option("--write", arguments.write, "only write a generated graph to this folder");
  app.add_option("--scale", arguments.scale, "of the written graph");
  app.add_option("--mode", arguments.mode)->check(CLI::IsMember({"sample", "gather"}));
  app.add_option("--fanout", arguments.fanout, "hop next to the seeds first");
  app.add_option("--batch-size", arguments.batch_size);
  app.add_option("--batches", arguments.batches);
  app.add_option("--threads", arguments.threads);
  app.add_flag("--exclude-seed-edges", arguments.exclude);
  CLI11_PARSE(app, argc, argv);
  try {
    if (!arguments.write.empty()) {
      gnn::write_links(arguments);
    } else {
      std::printf("%s\n", gnn::run(arguments).dump().c_str());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gnn-link-bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
