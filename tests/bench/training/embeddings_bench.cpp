// A training step of one table of embeddings on two ranks over Gloo: Dense, Lazy, and the whole table
// as a parameter that is reduced and stepped by torch's Adam. Prints one JSON object.
#include "worker/embedding/embeddings.h"

#include "common/stopwatch.h"
#include "tests/support/must.h"
#include "worker/comm/ddp.h"
#include "worker/comm/process_groups.h"
#include "worker/comm/tcp_store.h"
#include "worker/loader/tensor_memory.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <torch/nn/functional/embedding.h>
#include <torch/optim/adam.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gnn {
namespace {

using testing::must;

constexpr double kRate = 0.001;

struct Arguments {
  int64_t rows = 2'000'000;
  int64_t width = 64;
  int64_t ranks = 2;
  std::vector<double> shares = {0.01, 0.1};
  int64_t steps = 15;
  int64_t dense_steps = 3;
};

// Counts what this rank gives to be gathered.
class CountingCommunicator final : public comm::Communicator {
 public:
  explicit CountingCommunicator(std::shared_ptr<comm::Communicator> real)
      : real_(std::move(real)) {}

  int64_t rank() const override { return real_->rank(); }
  int64_t world_size() const override { return real_->world_size(); }
  const char* backend() const override { return real_->backend(); }
  Status all_reduce(at::Tensor tensor, comm::ReduceOp op, std::optional<Timeout> timeout) override {
    return real_->all_reduce(std::move(tensor), op, timeout);
  }
  Status broadcast(at::Tensor tensor, int64_t root) override {
    return real_->broadcast(std::move(tensor), root);
  }
  Result<std::vector<at::Tensor>> all_gather(const at::Tensor& tensor) override {
    bytes += static_cast<int64_t>(tensor.nbytes());
    return real_->all_gather(tensor);
  }
  Status barrier(std::optional<Timeout> timeout) override { return real_->barrier(timeout); }

  int64_t bytes = 0;

 private:
  std::shared_ptr<comm::Communicator> real_;
};

// The rows that a rank reads in a step.
at::Tensor draw(const Arguments& arguments, double share, int64_t rank, int64_t step) {
  std::mt19937_64 random(static_cast<uint64_t>(rank * 1'000'003 + step));
  std::bernoulli_distribution is_read(share);
  std::vector<int64_t> ids;
  for (int64_t row = 0; row < arguments.rows; ++row)
    if (is_read(random)) ids.push_back(row);
  return at::tensor(ids, at::kLong);
}

double median(std::vector<double> of) {
  std::ranges::sort(of);
  return of[of.size() / 2];
}

// What a rank measured; the slowest rank's seconds count.
struct Measured {
  double seconds = 0;
  int64_t bytes = 0;
  int64_t rows = 0;
};

using Step = std::function<void(const at::Tensor& ids)>;

// The median of the steps after `warm_up` of them. All ranks begin each step together.
double time_steps(
    const Arguments& arguments,
    double share,
    std::pair<int64_t, int64_t> warm_up_and_steps,
    comm::Communicator& communicator,
    const Step& run
) {
  std::vector<double> seconds;
  for (int64_t step = 0; step < warm_up_and_steps.first + warm_up_and_steps.second; ++step) {
    const at::Tensor ids = draw(arguments, share, communicator.rank(), step);
    must(communicator.barrier());
    const auto start = std::chrono::steady_clock::now();
    run(ids);
    at::Tensor taken = at::full({1}, seconds_since(start), at::kDouble);
    must(communicator.all_reduce(taken, comm::ReduceOp::Max));
    if (step >= warm_up_and_steps.first) seconds.push_back(taken.item<double>());
  }
  return median(seconds);
}

at::Tensor loss_of(const at::Tensor& rows) {
  return rows.square().mean();
}

Measured run_embeddings(
    const Arguments& arguments,
    double share,
    api::EmbeddingUpdate update,
    const std::shared_ptr<comm::Communicator>& communicator
) {
  CountingCommunicator counting(communicator);
  embedding::EmbeddingOptions options;
  options.tables = {{"node", arguments.rows, arguments.width}};
  options.update = update;
  auto embeddings = must(embedding::Embeddings::create(options, counting));
  Measured measured;
  // Until most rows have been touched once, and rest for as long as in a long run.
  const auto warm_up = static_cast<int64_t>(1 / share);
  const double factor = 1 / static_cast<double>(counting.world_size());
  measured.seconds =
      time_steps(arguments, share, {warm_up, arguments.steps}, *communicator, [&](const auto& ids) {
        counting.bytes = 0;
        loss_of(embeddings.read(0, ids)).backward();
        must(embeddings.apply(counting, {.factor = factor, .learning_rate = kRate}));
        measured.bytes = counting.bytes;
        measured.rows = ids.numel();
      });
  return measured;
}

Measured run_dense_table(
    const Arguments& arguments,
    double share,
    const std::shared_ptr<comm::Communicator>& communicator
) {
  at::Tensor table = at::randn({arguments.rows, arguments.width}).requires_grad_(true);
  auto replicas = must(
      comm::DistributedDataParallel::create({{.name = "table", .tensor = table}}, {}, communicator)
  );
  torch::optim::Adam adam({table}, torch::optim::AdamOptions(kRate));
  Measured measured;
  measured.seconds =
      time_steps(arguments, share, {1, arguments.dense_steps}, *communicator, [&](const auto& ids) {
        replicas.zero_grad();
        must(replicas.start_step());
        must(replicas.backward(loss_of(torch::embedding(table, ids))));
        adam.step();
        measured.rows = ids.numel();
      });
  measured.bytes = static_cast<int64_t>(table.nbytes());
  return measured;
}

// Runs `body` on all ranks, threads with a core each, and gives what rank 0 measured.
Measured on_ranks(
    const Arguments& arguments,
    const std::function<Measured(const std::shared_ptr<comm::Communicator>&)>& body
) {
  const auto store = comm::in_process_c10d_store();
  std::vector<std::thread> threads;
  Measured result;
  for (int64_t rank = 0; rank < arguments.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      const auto communicator = must(comm::make_communicator(
          comm::Backend::Gloo, c10::Device(c10::kCPU), *store, rank, arguments.ranks
      ));
      const Measured mine = body(communicator);
      if (rank == 0) result = mine;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return result;
}

nlohmann::json run(const Arguments& arguments, double share) {
  using Group = const std::shared_ptr<comm::Communicator>&;
  const auto embeddings = [&](api::EmbeddingUpdate update) {
    return on_ranks(arguments, [&](Group group) {
      return run_embeddings(arguments, share, update, group);
    });
  };
  const Measured lazy = embeddings(api::EmbeddingUpdate::Lazy);
  const Measured dense = embeddings(api::EmbeddingUpdate::Dense);
  const Measured again = embeddings(api::EmbeddingUpdate::Lazy);
  const Measured table =
      on_ranks(arguments, [&](Group group) { return run_dense_table(arguments, share, group); });
  const double lazy_seconds = std::min(lazy.seconds, again.seconds);
  return {
      {"share", share},
      {"lazy_seconds", {lazy.seconds, again.seconds}},
      {"dense_seconds", dense.seconds},
      {"table_seconds", table.seconds},
      {"dense_by_lazy", dense.seconds / lazy_seconds},
      {"table_by_dense", table.seconds / dense.seconds},
      {"table_by_lazy", table.seconds / lazy_seconds},
      {"payload_bytes", dense.bytes},
      {"rows_times_bytes", dense.rows * (arguments.width * 4 + 8)},
      {"table_bytes", table.bytes},
  };
}

}  // namespace
}  // namespace gnn

int main(int argc, char** argv) {
  gnn::Arguments arguments;
  CLI::App app{"A training step of embeddings: Dense, Lazy, and the whole table reduced"};
  app.add_option("--rows", arguments.rows, "rows of the table");
  app.add_option("--width", arguments.width, "numbers in a row");
  app.add_option("--ranks", arguments.ranks, "ranks, a thread each");
  app.add_option("--shares", arguments.shares, "shares of the rows that a rank reads in a step");
  app.add_option("--steps", arguments.steps, "steps that are timed");
  app.add_option("--table-steps", arguments.dense_steps, "the same with the whole table");
  CLI11_PARSE(app, argc, argv);
  gnn::loader::keep_tensor_memory();  // as gnn-worker does
  try {
    nlohmann::json results = nlohmann::json::array();
    for (const double share : arguments.shares) results.push_back(gnn::run(arguments, share));
    std::cout
        << nlohmann::json{{"rows", arguments.rows}, {"width", arguments.width}, {"shares", results}}
               .dump(1)
        << '\n';
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
