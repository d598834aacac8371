// Kills, stops, drains and adds sampling servers of gnn-worker's jobs, and compares what the jobs end
// with to what a job without faults ends with.

#include "common/contract.h"
#include "tests/support/read_file.h"
#include "tests/worker/agent/running_job.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace gnn {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::children_of;
using testing::read_file;
using testing::RunningJobTest;
using testing::Variables;

constexpr int kServedEpochs = 20;

std::map<std::string, std::string> environment_of(pid_t pid) {
  std::map<std::string, std::string> environment;
  std::istringstream list(read_file("/proc/" + std::to_string(pid) + "/environ"));
  for (std::string entry; std::getline(list, entry, '\0');) {
    const size_t equals = entry.find('=');
    if (equals != std::string::npos)
      environment[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return environment;
}

// Two nodes of one rank each, whose batches servers make.
class ServersFaultTest : public RunningJobTest {
 protected:
  void SetUp() override {
    if (std::getenv("GNN_WORKER") == nullptr) GTEST_SKIP() << "built without gnn-worker";
  }
  ~ServersFaultTest() override {
    for (const pid_t pid : extra_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    fs::remove_all(data());
  }

  // Of `parts` parts, `servers` servers.
  void start_job(int parts, int servers, const std::string& policy = "maxRestarts: 0") {
    if (!fs::exists(data() / std::to_string(parts))) make_partitions(parts);
    std::ofstream(folder_ / "job.yaml") << R"(
apiVersion: gnn.dev/v1alpha1
kind: GNNJob
metadata: {name: served}
spec:
  task: {type: NodeClassification}
  dataset: {format: Native, path: )" << (data() / std::to_string(parts)).string()
                                        << R"(}
  model: {type: GraphSAGE, graphSage: {layers: 2, hiddenChannels: 32, dropout: "0.5"}}
  sampling: {fanout: [10, 10]}
  placement: {topology: Partitioned, features: Partitioned, partitions: )"
                                        << parts << R"(}
  servers: {nodes: )" << parts << R"(}
  runPolicy: {)" << policy << R"(}
  workers: {nodes: 2, processesPerNode: 1}
  training: {device: CPU, epochs: )" << kServedEpochs
                                        << R"(, batchSize: 16, sharding: Owner, logSteps: 1,
    optimizer: {type: Adam, learningRate: "0.003"}, timeouts: {peerSeconds: 3},
    evaluation: {mode: Sampled, parts: [Validation]}}
)";
    seen_ = 0;
    std::vector<std::string> command{std::getenv("GNN_WORKER"), "run"};
    if (servers != parts) command.push_back("--servers=" + std::to_string(servers));
    command.push_back((folder_ / "job.yaml").string());
    start_program(command, {});
  }

  fs::path data() const { return folder_.string() + "-data"; }
  void run_data_command(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {std::getenv("GNN_WORKER"), "data"});
    start_program(arguments, {});
    ASSERT_EQ(finish(), contract::kExitDone) << output();
  }
  void make_partitions(int parts) {
    const std::string whole = (data() / "whole").string();
    if (!fs::exists(whole))
      run_data_command({"generate", "--shape=ogbn-arxiv", "--scale=0.01", "--output=" + whole});
    run_data_command(
        {"partition",
         "--input=" + whole,
         "--output=" + (data() / std::to_string(parts)).string(),
         "--parts=" + std::to_string(parts),
         "--method=random",
         "--fanout=10,10",
         "--batch-size=16"}
    );
  }

  // The hash of what the undisturbed job ends with; leaves a fresh folder.
  std::string undisturbed(int parts) {
    static std::map<int, std::string> known;
    if (known.contains(parts)) return known[parts];
    start_job(parts, parts);
    EXPECT_EQ(finish(), contract::kExitDone) << output();
    known[parts] = Json::parse(result_of(0)).at("parametersHash");
    fresh_folder();
    return known[parts];
  }

  // Of a job that no rank was started again in.
  void expect_same(const std::string& hash) {
    EXPECT_EQ(finish(), contract::kExitDone) << output();
    expect_result(hash);
  }
  // Once the job and what this test has started have ended.
  void expect_result(const std::string& hash, int round = 0) {
    const Json result = Json::parse(result_of(0));
    EXPECT_EQ(result.at("parametersHash"), hash) << output();
    EXPECT_EQ(result.at("round"), round) << output();
    expect_no_orphan();
  }

  // Its processes by the numbers of servers.
  std::map<int, pid_t> servers() const {
    std::map<int, pid_t> found;
    for (const pid_t pid : children_of(job_)) {
      const auto environment = environment_of(pid);
      const auto server = environment.find("GNN_SERVER");
      if (server != environment.end()) found[std::atoi(server->second.c_str())] = pid;
    }
    return found;
  }

  // What the controller does when servers.nodes grows: one more, which this test starts.
  pid_t add_server(int number) { return add_server(number, folder_ / "job.yaml"); }
  pid_t add_server(int number, const fs::path& job) {
    Variables variables = environment_of(servers().begin()->second);
    variables["GNN_SERVER"] = std::to_string(number);
    variables["GNN_SERVER_RESTART"] = "0";
    variables["GNN_TERMINATION_LOG"] = (folder_ / ("result.s" + std::to_string(number))).string();
    extra_.push_back(spawn(
        {std::getenv("GNN_WORKER"), "server", "--config", job.string()},
        variables,
        folder_ / ("server-" + std::to_string(number))
    ));
    return extra_.back();
  }
  std::string output_of(int server) const {
    return read_file(folder_ / ("server-" + std::to_string(server)));
  }
  // Told to stop while it reads the job, which is the first thing that it does.
  pid_t add_server_and_stop_it(int number) {
    const fs::path pipe = folder_ / "job-pipe";
    EXPECT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    const pid_t server = add_server(number, pipe);
    int end = -1;
    EXPECT_TRUE(wait_until([&] {
      end = ::open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);  // once it reads
      return end >= 0;
    }));
    ::kill(server, SIGTERM);
    ::signal(SIGPIPE, SIG_IGN);  // if it has ended
    const std::string job = read_file(folder_ / "job.yaml");
    EXPECT_EQ(::write(end, job.data(), job.size()), static_cast<ssize_t>(job.size()));
    ::close(end);
    return server;
  }
  // The exit code of a server that this test has started.
  int finish_server(pid_t server) {
    int status = 0;
    EXPECT_TRUE(wait_until([&] { return ::waitpid(server, &status, WNOHANG) == server; }));
    std::erase(extra_, server);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  // It may have been before what was waited for last.
  bool wait_for_step(int epoch, int step) {
    std::ostringstream line;
    line << "Epoch " << std::setw(5) << std::setfill('0') << epoch << " | Step " << std::setw(5)
         << step;
    return wait_until([&] {
      const size_t at = output().find(line.str());
      if (at == std::string::npos) return false;
      seen_ = std::max(seen_, at + line.str().size());
      return true;
    });
  }
  [[nodiscard]] bool is_trained() const { return output().find("Testing...") != std::string::npos; }
  // Whether the text comes after what was waited for before; the next wait looks behind it.
  bool wait_for(const std::string& text) {
    return wait_until([&] {
      const size_t at = output().find(text, seen_);
      if (at == std::string::npos) return false;
      seen_ = at + text.size();
      return true;
    });
  }

  size_t seen_ = 0;
  std::vector<pid_t> extra_;
};

// What happens to a server, and when.
struct ServerFault {
  int epoch = 0;
  int step = 0;
  int server = 0;
  int signal = 0;
  int then = 0;  // the signal after SIGSTOP, once it is missed
};

std::string text_of(const ServerFault& fault) {
  std::ostringstream text;
  text << "; epoch " << fault.epoch << " step " << fault.step << " server " << fault.server
       << " signal " << fault.signal;
  if (fault.then != 0) text << " then " << fault.then;
  return text.str();
}

// Kills alone, or what `seed` says: servers are killed, told to leave, or stand still until they are
// missed and then go on or are killed. Whoever ends is started as its next pod.
std::vector<ServerFault> faults_of(unsigned seed, int servers, bool all_kinds) {
  std::mt19937 random(seed);
  const auto below = [&](int bound) {
    return static_cast<int>(random() % static_cast<unsigned>(bound));
  };
  std::vector<ServerFault> faults;
  for (int epoch = 1 + below(3); epoch < 14; epoch += 1 + below(6)) {
    ServerFault fault{.epoch = epoch, .step = 1 + below(20), .server = below(servers)};
    const int kind = all_kinds ? below(3) : 0;
    fault.signal = kind == 0 ? SIGKILL : kind == 1 ? SIGTERM : SIGSTOP;
    if (fault.signal == SIGSTOP) fault.then = below(2) == 0 ? SIGCONT : SIGKILL;
    faults.push_back(fault);
  }
  return faults;
}

TEST_F(ServersFaultTest, ServersThatAreKilledAtAnyTimeCostNoRestartAndChangeNoBit) {
  // GNN_SEED names one run of the long test.
  const char* const seed = std::getenv("GNN_SEED");
  const bool full = seed != nullptr || std::getenv("GNN_FULL") != nullptr;
  const int first = seed != nullptr ? std::atoi(seed) : 0;
  const int end = seed != nullptr ? first + 1 : full ? 50 : 2;
  for (int run = first; run < end && !HasFailure(); ++run) {
    const int parts = 1 + run % 2;
    const auto faults = faults_of(static_cast<unsigned>(run), parts + 1, full);
    std::string schedule = "seed " + std::to_string(run);
    for (const ServerFault& fault : faults) schedule += text_of(fault);
    SCOPED_TRACE(schedule);
    const std::string expected = undisturbed(parts);
    fresh_folder();
    start_job(parts, parts + 1);
    ASSERT_TRUE(wait_until([&] { return servers().size() == static_cast<size_t>(parts) + 1; }))
        << output();
    for (const ServerFault& fault : faults) {
      ASSERT_TRUE(wait_for_step(fault.epoch, fault.step)) << output();
      // A job may train to its end while a server waits to be started again.
      ASSERT_TRUE(wait_until([&] { return servers().contains(fault.server) || is_trained(); }))
          << output();
      const auto present = servers();
      const auto found = present.find(fault.server);
      if (found == present.end()) break;
      ::kill(found->second, fault.signal);
      if (fault.then == 0) continue;
      const size_t before = output().size();
      // One that had not said that it serves is not missed.
      EXPECT_TRUE(wait_until([&] {
        return output().find("sampling servers changed live=", before) != std::string::npos ||
               is_trained();
      })) << output();
      ::kill(found->second, fault.then);
    }
    expect_same(expected);
  }
}

TEST_F(ServersFaultTest, RanksWaitWhileNoServerIsThereAndServersStayWhenRanksStartAgain) {
  const std::string expected = undisturbed(2);
  start_job(2, 2, "maxRestarts: 1");
  ASSERT_TRUE(wait_for_step(1, 5)) << output();
  for (const auto& [number, pid] : servers()) ::kill(pid, SIGKILL);
  ASSERT_TRUE(wait_for_step(5, 1)) << output();
  ASSERT_TRUE(wait_until([&] { return servers().size() == 2; })) << output();
  const auto stopped = servers();
  for (const auto& [number, pid] : stopped) ::kill(pid, SIGSTOP);
  EXPECT_TRUE(wait_for("sampling servers changed live=0")) << output();
  for (const auto& [number, pid] : stopped) ::kill(pid, SIGCONT);
  ASSERT_TRUE(wait_for_step(8, 1)) << output();
  ::kill(children_of(agent_of(1)).front(), SIGKILL);
  ASSERT_TRUE(wait_for_step(2, 1)) << output();
  EXPECT_EQ(servers(), stopped);
  EXPECT_EQ(finish(), contract::kExitDone) << output();
  expect_result(expected, 1);
}

TEST_F(ServersFaultTest, ServersMayComeAndGoWhileTheJobTrains) {
  for (const int parts : {1, 2}) {
    SCOPED_TRACE(parts);
    const std::string expected = undisturbed(parts);
    fresh_folder();
    start_job(parts, parts);
    ASSERT_TRUE(wait_for_step(1, 5)) << output();
    const pid_t first = add_server(parts);
    const pid_t second = add_server(parts + 1);
    const pid_t early = add_server_and_stop_it(parts + 2);
    for (const int number : {parts, parts + 1})
      ASSERT_TRUE(wait_until([&] {
        return output_of(number).find("serves server=") != std::string::npos;
      })) << output_of(number);
    EXPECT_EQ(finish_server(early), contract::kExitPreempted) << output_of(parts + 2);
    for (const pid_t server : {first, second}) ::kill(server, SIGTERM);
    EXPECT_EQ(finish_server(first), contract::kExitPreempted) << output_of(parts);
    EXPECT_EQ(finish_server(second), contract::kExitPreempted) << output_of(parts + 1);
    expect_same(expected);
    EXPECT_EQ(Json::parse(read_file(folder_ / "result.s0")).at("exitCode"), contract::kExitDone);
  }
}

TEST_F(ServersFaultTest, TheJobEndsAndSaysWhyIfNoServerComesBackOrOneCannotReadItsData) {
  start_job(1, 1, "maxRestarts: 0, serverTimeoutSeconds: 2");
  ASSERT_TRUE(wait_for_step(1, 5)) << output();
  ::kill(servers().at(0), SIGSTOP);
  EXPECT_EQ(finish(), contract::kExitPeerLost) << output();
  EXPECT_NE(result_of(0).find("no server held part 0 for 2 s"), std::string::npos) << result_of(0);
  EXPECT_EQ(output().find("Exception raised"), std::string::npos) << output();
  expect_no_orphan();

  fresh_folder();
  for (const auto& file : fs::directory_iterator(data() / "1")) fs::remove_all(file);
  start_job(1, 1);
  EXPECT_EQ(finish(), contract::kExitData) << output();
  expect_no_orphan();
}

}  // namespace
}  // namespace gnn
