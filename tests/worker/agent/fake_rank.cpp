// A rank without a model, for tests of the agent: does what FAKE_RANK says, a list of words that
// are done in order. "word@round" is done only in that round, "word:rank" only by that rank.

#include "common/contract.h"
#include "common/guarded.h"
#include "worker/agent/agent_link.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using gnn::agent::AgentLink;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Splits "word@round:rank"; returns the word when it is meant for us, else "".
std::string meant_for_us(std::string word) {
  if (const auto colon = word.find(':'); colon != std::string::npos) {
    if (word.substr(colon + 1) != variable("RANK")) return "";
    word.resize(colon);
  }
  if (const auto at = word.find('@'); at != std::string::npos) {
    if (word.substr(at + 1) != variable("GNN_ROUND")) return "";
    word.resize(at);
  }
  return word;
}

void pause_briefly() {
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
}

void train(AgentLink& link, int steps) {
  link.on_phase(gnn::progress::Phase::Train);
  for (int i = 0; i < steps; ++i) {
    gnn::progress::StepReport step;
    step.epochs = 1;
    step.step = i;
    step.steps_per_epoch = steps;
    step.global_step = i + 1;
    step.loss = 1.0 / (i + 1);
    step.items = 10;
    link.on_step(step);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void count_an_oom_kill(const std::string& path) {
  std::ofstream(path) << "oom 1\noom_kill 1\n";
}

void wait_for_stop(const gnn::StopToken& stop) {
  while (!stop.requested()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::exit(gnn::contract::kExitPreempted);
}

using Servers = gnn::Guarded<std::vector<gnn::agent::LiveServer>>;

// Waits until a server takes part, and says which do.
void name_servers(Servers& servers) {
  auto known = servers.lock();
  known.wait([](const auto& all) { return !all.empty(); });
  for (const auto& server : *known)
    std::cout << "server " << server.server << " pod " << server.restart << " at " << server.address
              << std::endl;
}

// As a rank that has waited for a server for as long as it may.
[[noreturn]] void end_without_a_server(AgentLink& link) {
  link.on_served_meter(std::make_shared<gnn::progress::ServedMeter>([] {
    return gnn::progress::ServedData{.gave_up = true};
  }));
  link.send_failure({gnn::ErrorKind::PeerLost, "no server held part 0"});
  std::_Exit(gnn::contract::kExitPeerLost);
}

// More than the pipes between a rank and whoever reads the job's output can hold.
void fill_the_output() {
  const std::string line(100, 'x');
  for (int i = 0; i < 5'000; ++i) std::cout << line << "\n";
  std::cout << std::flush;
}

// Signs of progress for about a second and a half, each sent at once.
void progress_for_long(AgentLink& link) {
  for (int i = 0; i < 30; ++i) {
    link.on_phase(gnn::progress::Phase::Train);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// The agent hears at once that we wait.
void wait_in_collective(AgentLink& link, gnn::progress::CollectiveActivity& activity) {
  activity.started();
  link.on_phase(gnn::progress::Phase::Train);
}

void start_a_child_that_sleeps() {
  if (::fork() == 0) {
    ::execl("/bin/sleep", "sleep", "1000", nullptr);
    std::_Exit(1);
  }
}

}  // namespace

int main() {
  const auto stop = std::make_shared<gnn::StopToken>();
  const auto activity = std::make_shared<gnn::progress::CollectiveActivity>();
  Servers servers;
  auto link = AgentLink::from_environment(
      gnn::rendezvous::process_environment(),
      activity,
      stop,
      [&servers](const auto& all) {
        *servers.lock() = all;
        servers.notify_all();
      }
  );
  if (!link || !*link) return 3;
  std::istringstream words(variable("FAKE_RANK"));
  for (std::string raw; words >> raw;) {
    const std::string word = meant_for_us(raw);
    if (word.empty()) continue;
    if (word == "train") train(**link, 10);
    if (word == "progress") progress_for_long(**link);
    if (word == "wait") wait_in_collective(**link, *activity);
    if (word == "pause") pause_briefly();
    if (word == "say") std::cout << "round " << variable("GNN_ROUND") << std::endl;
    if (word == "fill") fill_the_output();
    if (word == "gpus") std::cout << "gpus " << variable("CUDA_VISIBLE_DEVICES") << std::endl;
    if (word.rfind("cpus", 0) == 0 && word.substr(4) != variable("GNN_RANK_CPUS")) std::_Exit(4);
    if (word == "cry") std::cerr << "this is why" << std::endl;
    if (word == "explain") (*link)->send_failure({gnn::ErrorKind::Data, "edge 7 leaves the graph"});
    if (word == "die") ::raise(SIGKILL);
    if (word == "freeze") ::raise(SIGSTOP);
    if (word == "oom") count_an_oom_kill(variable("FAKE_MEMORY_EVENTS"));
    if (word == "stop") wait_for_stop(*stop);
    if (word == "child") start_a_child_that_sleeps();
    if (word == "servers") name_servers(servers);
    if (word == "unserved") end_without_a_server(**link);
    if (word == "check") (*link)->send_checked_version("sha256:12");
    if (word == "data") std::cout << "data '" << variable("GNN_CHECKED_DATA") << "'" << std::endl;
    if (word == "final") {
      gnn::progress::FinalReport report;
      report.metric = "accuracy";
      report.metrics["test_accuracy"] = 0.75;
      (*link)->on_final(report);
    }
    if (word.rfind("exit", 0) == 0) std::_Exit(std::atoi(word.c_str() + 4));
  }
  return 0;
}
