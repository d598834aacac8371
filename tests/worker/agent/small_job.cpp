// A job with a tiny model, for fault tests: `small_job run NODES PROCESSES ROUNDS` starts agents
// and ranks as `gnn-worker run` does, `small_job rank` is a rank. Environment:
// SMALL_JOB_DIR: folder for pid-<rank>, step-<rank> and final-<rank> files.
// SMALL_JOB_STEPS: optimizer steps of the training (default 40).
// SMALL_JOB_STEP_MS: pause in each step.
// SMALL_JOB_EATER: this rank takes memory without end in its sixth step.
// SMALL_JOB_CGROUP: the folder of the cgroup that the agent of that rank's node is in, with its
// ranks, as a pod is: the kernel may end more than one process of a cgroup, so the other node stays
// out of it.

#include "common/contract.h"
#include "common/hash.h"
#include "common/log.h"
#include "worker/agent/agent_link.h"
#include "worker/agent/local_agents.h"
#include "worker/app/store_connector.h"
#include "worker/comm/ddp.h"
#include "worker/comm/process_groups.h"
#include "worker/comm/uneven_inputs.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <unistd.h>

namespace {

namespace fs = std::filesystem;
using namespace gnn::comm;  // NOLINT(google-build-using-namespace): one short program
using gnn::Error;
using gnn::ErrorKind;
using gnn::Result;
using gnn::Status;
using gnn::StopToken;
using gnn::rendezvous::parse_rendezvous;
using gnn::rendezvous::process_environment;
using gnn::rendezvous::Rendezvous;

std::string variable(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return value == nullptr ? fallback : value;
}
int64_t number(const char* name, const char* fallback) {
  return std::atoll(variable(name, fallback).c_str());
}
fs::path folder() {
  return variable("SMALL_JOB_DIR", ".");
}

void write_file(const fs::path& path, const std::string& text) {
  const fs::path temporary = path.string() + "." + std::to_string(::getpid());
  std::ofstream(temporary) << text;
  fs::rename(temporary, path);
}

struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Linear(8, 32));
    second = register_module("second", torch::nn::Linear(32, 4));
  }
  at::Tensor forward(const at::Tensor& x) { return second(torch::relu(first(x))); }
  torch::nn::Linear first{nullptr};
  torch::nn::Linear second{nullptr};
};
TORCH_MODULE(Net);

at::Tensor loss_of(Net& net, int64_t step, int64_t rank) {
  const auto index =
      at::arange(16, at::kFloat).unsqueeze(1) + static_cast<float>(step * 97 + rank * 13);
  const auto x = at::sin(index * 12.9898 + at::arange(8, at::kFloat) * 78.233);
  const auto y = at::remainder(at::arange(16, at::kLong) + step + rank, 4);
  return at::cross_entropy_loss(net->forward(x), y);
}

class Training {
 public:
  Training(Rendezvous rendezvous, ProcessGroups groups, DistributedDataParallel ddp, Net net)
      : rendezvous_(std::move(rendezvous)),
        groups_(std::move(groups)),
        ddp_(std::move(ddp)),
        net_(net),
        optimizer_(net->parameters(), torch::optim::AdamOptions(0.01)) {}

  // Returns the contract's exit code.
  Result<int> run(gnn::progress::ProgressSink& sink, const StopToken& stop) {
    const int64_t steps = number("SMALL_JOB_STEPS", "40");
    // The last rank runs out of batches before the others.
    std::vector<int64_t> batches(static_cast<size_t>(rendezvous_.world_size), steps);
    if (batches.size() > 1) batches.back() = steps / 2;
    const ShadowPlan plan(batches);
    my_batches_ = batches[static_cast<size_t>(rendezvous_.rank)];
    sink.on_phase(gnn::progress::Phase::Train);
    for (int64_t step = 0; step < steps; ++step) {
      GNN_ASSIGN_OR_RETURN(const bool stopped, train_step(plan, step, steps, sink, stop));
      if (stopped) return gnn::contract::kExitPreempted;
    }
    GNN_RETURN_IF_ERROR(finish(sink));
    return gnn::contract::kExitDone;
  }

 private:
  Result<bool> train_step(
      const ShadowPlan& plan,
      int64_t step,
      int64_t steps,
      gnn::progress::ProgressSink& sink,
      const StopToken& stop
  ) {
    std::this_thread::sleep_for(std::chrono::milliseconds(number("SMALL_JOB_STEP_MS", "0")));
    if (step == 5 && number("SMALL_JOB_EATER", "-1") == rendezvous_.rank) eat_memory();
    const auto begin = std::chrono::steady_clock::now();
    ddp_.zero_grad();
    GNN_RETURN_IF_ERROR(ddp_.start_step(plan.buffer_source(step)));
    StepResult result;
    at::Tensor loss = at::zeros({});
    if (step < my_batches_) {
      loss = loss_of(net_, step, rendezvous_.rank);
      GNN_ASSIGN_OR_RETURN(
          result, ddp_.backward(loss, {.batch_size = 16, .stop = stop.requested()})
      );
    } else {
      GNN_ASSIGN_OR_RETURN(result, ddp_.shadow_step(stop.requested()));
    }
    optimizer_.step();
    gnn::progress::StepReport report;
    report.epochs = 1;
    report.step = step;
    report.steps_per_epoch = steps;
    report.global_step = step + 1;
    report.loss = loss.item<double>();
    report.items = 16;
    report.seconds.total =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    sink.on_step(report);
    write_file(folder() / ("step-" + std::to_string(rendezvous_.rank)), std::to_string(step + 1));
    return result.stop;
  }

  [[noreturn]] static void eat_memory() {
    std::vector<std::string> eaten;
    for (;;) eaten.emplace_back(16 << 20, 'x');
  }

  Status finish(gnn::progress::ProgressSink& sink) {
    uint64_t hash = gnn::kFnvOffset;
    for (const auto& parameter : net_->parameters()) {
      const auto values = parameter.detach().contiguous();
      hash = gnn::fnv1a(
          {static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()}, hash
      );
    }
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
    write_file(folder() / ("final-" + std::to_string(rendezvous_.rank)), text);
    gnn::progress::FinalReport report;
    report.parameters_hash = text;
    sink.on_final(report);
    return groups_.communicator()->barrier();
  }

  Rendezvous rendezvous_;
  int64_t my_batches_ = 0;
  ProcessGroups groups_;
  DistributedDataParallel ddp_;
  Net net_;
  torch::optim::Adam optimizer_;
};

Result<int> train(
    gnn::agent::AgentLink& link,
    const std::shared_ptr<gnn::progress::CollectiveActivity>& activity,
    const StopToken& stop
) {
  GNN_ASSIGN_OR_RETURN(const Rendezvous rendezvous, parse_rendezvous(process_environment()));
  at::set_num_threads(1);
  torch::manual_seed(rendezvous.rank);  // rank 0's parameters are sent to all
  GNN_ASSIGN_OR_RETURN(
      auto groups,
      ProcessGroups::create(rendezvous, Backend::Gloo, c10::Device(c10::kCPU), activity)
  );
  GNN_RETURN_IF_ERROR(groups.create_local_process_group(rendezvous.local_world_size));
  if (groups.get_local_process_group()->rank() != rendezvous.local_rank)
    return gnn::fail(ErrorKind::Internal, "the local group's rank is not the local rank");
  write_file(folder() / ("pid-" + std::to_string(rendezvous.rank)), std::to_string(::getpid()));
  Net net;
  GNN_ASSIGN_OR_RETURN(
      auto ddp,
      DistributedDataParallel::create(
          named_parameters_of(*net),
          named_buffers_of(*net),
          groups.communicator(),
          {.average = GradientAverage::BatchSize}
      )
  );
  return Training(rendezvous, std::move(groups), std::move(ddp), net).run(link, stop);
}

int rank_main() {
  const auto stop = std::make_shared<StopToken>();
  const auto activity = std::make_shared<gnn::progress::CollectiveActivity>();
  auto link = gnn::agent::AgentLink::from_environment(process_environment(), activity, stop);
  if (!link || !*link) {
    std::cerr << (link ? "no agent" : link.error().message) << "\n";
    return gnn::contract::kExitConfiguration;
  }
  const auto code = train(**link, activity, *stop);
  if (code) return *code;
  std::cerr << code.error().message << std::endl;
  (*link)->send_failure(code.error());
  return gnn::contract::exit_code_for(code.error().kind);
}

void join_cgroup(const gnn::agent::AgentOptions& options) {
  const char* const path = std::getenv("SMALL_JOB_CGROUP");
  if (path == nullptr) return;
  if (number("SMALL_JOB_EATER", "-1") / options.processes_per_node != options.node) return;
  std::ofstream(fs::path(path) / "cgroup.procs") << ::getpid();
}

int run_main(char** arguments) {
  gnn::init_logging({});
  return gnn::agent::run_agents_locally(
      {.job = "small",
       .nodes = std::atoll(arguments[0]),
       .processes_per_node = std::atoll(arguments[1]),
       .rounds_left = std::atoll(arguments[2]),
       .grace = std::chrono::seconds(30),
       .rank_command = {"/proc/self/exe", "rank"}},
      [](const gnn::agent::AgentOptions& options, int listening_socket) {
        join_cgroup(options);  // in the agent's process, before it starts its ranks
        return gnn::app::make_tcp_connector(options, listening_socket);
      }
  );
}

// One node by the contract's environment, as `gnn-worker agent` is.
int agent_main() {
  gnn::init_logging({});
  const auto options =
      gnn::agent::parse_agent_options(process_environment(), {"/proc/self/exe", "rank"});
  if (!options) {
    std::cerr << options.error().message << "\n";
    return gnn::contract::exit_code_for(options.error().kind);
  }
  const gnn::agent::AgentOutput output{
      .on_line = [](int64_t rank, gnn::agent::RankStream, std::string_view line
                 ) { std::cout << rank << " " << line << std::endl; },
      .on_numbers = {}
  };
  return gnn::agent::run_agent(*options, gnn::app::make_tcp_connector(*options, -1), output);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string mode = count > 1 ? arguments[1] : "";
  if (mode == "rank") std::_Exit(rank_main());
  if (mode == "agent") return agent_main();
  if (mode == "run" && count == 5) return run_main(arguments + 2);
  std::cerr << "usage: small_job run NODES PROCESSES ROUNDS | small_job agent | small_job rank\n";
  return gnn::contract::kExitConfiguration;
}
