// Joins the items of a generated graph of Taobao's shape by their shared users: seconds, and the
// memory that this takes beside its result. Prints one JSON object.
#include "worker/data/co_occurrence.h"

#include "common/progress_bar.h"
#include "common/stopwatch.h"
#include "common/thread_pool.h"
#include "tests/support/must.h"
#include "tests/worker/data/storage_fake.h"
#include "worker/data/generate.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace gnn {
namespace {

using testing::must;

struct Arguments {
  double scale = 0.0625;
  int64_t at_least = 3;
  double memory_gib = 2.0;
  size_t threads = 2;
  int rounds = 3;
  std::string pairs_to;  // a folder
};

// Arrays in memory, and steps that may take some of it.
class BoundedStorage final : public data::testing::StorageFake {
 public:
  explicit BoundedStorage(int64_t memory_bytes) : memory_bytes_(memory_bytes) {}
  [[nodiscard]] int64_t memory_bytes() const override { return memory_bytes_; }

 private:
  int64_t memory_bytes_;
};

// A line of /proc/self/status in bytes.
int64_t memory_of_process(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) * 1024;
  }
  return 0;
}

// Seconds of all cores that this process has used.
double cpu_seconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The user and the item of each edge as plain int32, for other programs.
void write_pairs(const data::EdgeTable& edges, const std::string& folder) {
  const auto indptr = edges.indptr.view<int64_t>();
  const auto users = edges.indices.view<int32_t>();
  std::vector<int32_t> items(users.size());
  for (size_t item = 0; item + 1 < indptr.size(); ++item) {
    const auto begin = items.begin() + indptr[item];
    std::fill_n(begin, indptr[item + 1] - indptr[item], static_cast<int32_t>(item));
  }
  const auto write = [&](const std::string& name, const int32_t* values) {
    std::ofstream(folder + "/" + name, std::ios::binary)
        .write(
            reinterpret_cast<const char*>(values),
            static_cast<std::streamsize>(users.size() * sizeof(int32_t))
        );
  };
  write("users.int32", users.data());
  write("items.int32", items.data());
}

nlohmann::json measure(const Arguments& arguments) {
  const std::unique_ptr<ProgressBar> progress = make_progress_bar(stderr);
  data::MemoryStorage inputs;
  const data::DatasetArrays dataset = must(data::generate(
      {.shape = data::Shape::Taobao, .scale = arguments.scale, .seed = 1}, inputs, *progress
  ));
  const data::EdgeTable& edges = dataset.edge_tables.front();
  if (!arguments.pairs_to.empty()) write_pairs(edges, arguments.pairs_to);
  ThreadPool pool(arguments.threads - 1);
  const auto memory_bytes = static_cast<int64_t>(arguments.memory_gib * 0x1p30);
  std::vector<double> seconds;
  std::vector<double> cpu;
  int64_t peak = 0;
  int64_t result_bytes = 0;
  int64_t num_edges = 0;
  for (int round = 0; round < arguments.rounds; ++round) {
    BoundedStorage storage(memory_bytes);
    std::ofstream("/proc/self/clear_refs") << "5";  // the peak counts from here on
    const int64_t before = memory_of_process("VmRSS");
    const double cpu_before = cpu_seconds();
    const auto start = std::chrono::steady_clock::now();
    const data::EdgeTable joined = must(data::co_occurrence(
        edges,
        {.num_sources = dataset.node_tables.front().num_nodes, .at_least = arguments.at_least},
        pool,
        storage,
        *progress
    ));
    seconds.push_back(seconds_since(start));
    cpu.push_back(cpu_seconds() - cpu_before);
    peak = std::max(peak, memory_of_process("VmHWM") - before);
    result_bytes = joined.indptr.num_bytes() + joined.indices.num_bytes();
    num_edges = joined.indices.num_elements();
  }
  return {
      {"users", dataset.node_tables.front().num_nodes},
      {"items", dataset.node_tables.back().num_nodes},
      {"links", edges.indices.num_elements()},
      {"edges", num_edges},
      {"threads", arguments.threads},
      {"seconds", seconds},
      {"cpu_seconds", cpu},
      {"peak_bytes", peak},
      {"result_bytes", result_bytes},
      {"memory_bytes", memory_bytes},
      {"peak_is_within", peak <= memory_bytes + result_bytes},
  };
}

}  // namespace
}  // namespace gnn

int main(int argc, char** argv) {
  gnn::Arguments arguments;
  CLI::App app("Co-occurrence of items in a graph of Taobao's shape");
  app.add_option("--scale", arguments.scale, "factor on the shape's users, items and links");
  app.add_option("--at-least", arguments.at_least, "the smallest count that makes an edge");
  app.add_option("--memory", arguments.memory_gib, "GiB that it may take beside the result");
  app.add_option("--threads", arguments.threads)->check(CLI::PositiveNumber);
  app.add_option("--rounds", arguments.rounds)->check(CLI::PositiveNumber);
  app.add_option("--pairs-to", arguments.pairs_to, "folder to write users.int32 and items.int32 to")
      ->check(CLI::ExistingDirectory);
  CLI11_PARSE(app, argc, argv);
  try {
    std::cout << gnn::measure(arguments) << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
