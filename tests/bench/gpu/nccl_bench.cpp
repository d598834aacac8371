// All-reductions by NCCL over every GPU of this machine, one rank each; with one GPU NCCL copies
// nothing over a link, and what is left is its own cost.

#include "common/stopwatch.h"
#include "tests/bench/gpu/figures.h"
#include "tests/support/must.h"
#include "worker/comm/process_groups.h"
#include "worker/comm/tcp_store.h"

#include <ATen/ATen.h>
#include <torch/cuda.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gnn::bench {
namespace {

using testing::must;

constexpr int kRepetitions = 50;

double seconds_of_reductions(comm::Communicator& communicator, const at::Tensor& tensor) {
  const auto reduce = [&] { must(communicator.all_reduce(tensor)); };
  for (int i = 0; i < 5; ++i) reduce();
  torch::cuda::synchronize(tensor.device().index());
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRepetitions; ++i) reduce();
  torch::cuda::synchronize(tensor.device().index());
  return seconds_since(start) / kRepetitions;
}

struct Reductions {
  double small_seconds = 0;
  double large_seconds = 0;
};

constexpr int64_t kLargeBytes = int64_t{256} << 20;

Reductions run_rank(const comm::C10dStoreHandle& store, int64_t rank, int64_t world) {
  const c10::Device device = comm::device_of_rank(true, rank);
  const auto made = must(comm::make_communicator(comm::Backend::Nccl, device, store, rank, world));
  const auto floats = at::device(device).dtype(at::kFloat);
  const at::Tensor ones = at::ones({1024}, floats);
  Reductions seconds{.small_seconds = seconds_of_reductions(*made, at::zeros({1024}, floats))};
  must(made->all_reduce(ones));
  if (!ones.eq(static_cast<double>(world)).all().item<bool>())
    throw std::runtime_error("NCCL's sum of ones is not the number of ranks");
  seconds.large_seconds = seconds_of_reductions(*made, at::zeros({kLargeBytes / 4}, floats));
  return seconds;
}

std::vector<Figure> measure() {
  const auto world = static_cast<int64_t>(torch::cuda::device_count());
  if (world == 0) throw std::runtime_error("no CUDA device");
  const auto store = comm::in_process_c10d_store();
  std::vector<Reductions> of_ranks(static_cast<size_t>(world));
  std::vector<std::string> errors(of_ranks.size());
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        of_ranks[static_cast<size_t>(rank)] = run_rank(*store, rank, world);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors)
    if (!error.empty()) throw std::runtime_error(error);
  return {
      {"NCCL: ranks", static_cast<double>(world), ""},
      {"NCCL: all-reduction of 4 KB", of_ranks[0].small_seconds * 1e6, "us"},
      {"NCCL: all-reduction of 256 MiB", of_ranks[0].large_seconds * 1e6, "us"},
  };
}

}  // namespace
}  // namespace gnn::bench

int main(int argc, char** argv) {
  return gnn::bench::write_figures(argc, argv, &gnn::bench::measure);
}
