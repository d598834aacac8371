// Kills, stops and confuses parts of a running job (small_job.cpp), and looks at what is left.

#include "common/contract.h"
#include "tests/support/read_file.h"
#include "tests/worker/agent/running_job.h"
#include "tests/worker/agent/slow_cable.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sched.h>
#include <set>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace gnn {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::children_of;
using testing::read_file;
using testing::RunningJobTest;
using testing::Variables;

// A variable that a process was started with.
std::string variable_of(pid_t pid, const std::string& name) {
  std::istringstream list(read_file("/proc/" + std::to_string(pid) + "/environ"));
  for (std::string entry; std::getline(list, entry, '\0');)
    if (entry.rfind(name + "=", 0) == 0) return entry.substr(name.size() + 1);
  return "";
}

class FaultTest : public RunningJobTest {
 protected:
  static constexpr int kNodes = 2;
  static constexpr int kProcesses = 2;

  void start(int rounds, Variables variables = {}, int nodes = kNodes, int processes = kProcesses) {
    variables.try_emplace("SMALL_JOB_DIR", folder_.string());
    variables.try_emplace("SMALL_JOB_STEP_MS", "20");
    variables.try_emplace("GNN_PEER_TIMEOUT", "3");
    variables.try_emplace("GNN_HEARTBEAT_TIMEOUT", "4");
    start_program(
        {std::getenv("GNN_SMALL_JOB"),
         "run",
         std::to_string(nodes),
         std::to_string(processes),
         std::to_string(rounds)},
        variables
    );
  }

  int step_of(int rank) const {
    return std::atoi(read_file(folder_ / ("step-" + std::to_string(rank))).c_str());
  }
  pid_t pid_of(int rank) const {
    return std::atoi(read_file(folder_ / ("pid-" + std::to_string(rank))).c_str());
  }
  bool reached(int rank, int step) const {
    return wait_until([&] { return step_of(rank) >= step; });
  }

  std::set<std::string> final_hashes(int world = kNodes * kProcesses) const {
    std::set<std::string> hashes;
    for (int rank = 0; rank < world; ++rank)
      hashes.insert(read_file(folder_ / ("final-" + std::to_string(rank))));
    return hashes;
  }
};

TEST_F(FaultTest, TrainsOnAnyNumberOfNodesAndProcesses) {
  for (const auto& [nodes, processes] :
       std::vector<std::pair<int, int>>{{1, 2}, {3, 1}, {1, 3}, {2, 2}}) {
    fresh_folder();
    start(0, {{"SMALL_JOB_STEP_MS", "0"}}, nodes, processes);
    EXPECT_EQ(finish(), contract::kExitDone) << output();
    EXPECT_EQ(final_hashes(nodes * processes).size(), 1U) << nodes << "x" << processes;
    EXPECT_NE(result_of(nodes - 1).find("\"parametersHash\""), std::string::npos)
        << result_of(nodes - 1);
    expect_no_orphan();
  }
}

TEST_F(FaultTest, AStoppedRankIsFoundAndKilledAndTheJobGoesOn) {
  start(1);
  ASSERT_TRUE(reached(2, 8)) << output();
  ::kill(pid_of(2), SIGSTOP);
  EXPECT_EQ(finish(), contract::kExitDone) << output();
  EXPECT_EQ(final_hashes().size(), 1U) << "ranks differ";
  EXPECT_NE(output().find("rank 2 hangs: no heartbeat"), std::string::npos) << output();
  expect_no_orphan();
}

TEST_F(FaultTest, WithoutRestartsTheCulpritIsNamedNotItsPeers) {
  start(0);
  ASSERT_TRUE(reached(1, 8)) << output();
  ::kill(pid_of(1), SIGKILL);
  EXPECT_EQ(finish(), contract::kExitOther);
  for (int node = 0; node < kNodes; ++node) {
    EXPECT_NE(result_of(node).find("\"rank\":1"), std::string::npos) << result_of(node);
    EXPECT_NE(result_of(node).find("rank 1 was killed by signal 9"), std::string::npos)
        << result_of(node);
  }
  EXPECT_NE(result_of(0).find("\"exitCode\":70"), std::string::npos) << result_of(0);
  EXPECT_NE(result_of(1).find("\"exitCode\":75"), std::string::npos) << result_of(1);
  expect_no_orphan();
}

TEST_F(FaultTest, AKilledAgentMakesTheOthersLeaveInSeconds) {
  start(3);
  ASSERT_TRUE(reached(3, 8)) << output();
  const auto start_time = steady_clock::now();
  ::kill(agent_of(1), SIGKILL);
  EXPECT_NE(finish(), -1) << output();
  EXPECT_LT(steady_clock::now() - start_time, seconds(30));
  EXPECT_NE(result_of(0).find("\"exitCode\":75"), std::string::npos) << result_of(0);
  EXPECT_NE(result_of(0).find("node 1"), std::string::npos) << result_of(0);
  expect_no_orphan();
}

// The environment that a new pod of node 1 would have, from a rank of the old one.
Variables next_pod_of(pid_t rank_of_old, const std::string& restart, const fs::path& folder) {
  Variables variables{
      {"GNN_CONTRACT", std::to_string(contract::kVersion)},
      {"GNN_JOB", "small"},
      {"GNN_ROUNDS_LEFT", "3"},
      {"GNN_NODE_RANK", "1"},
      {"GNN_NNODES", "2"},
      {"GNN_NPROC_PER_NODE", "2"},
      {"GNN_NODE_RESTART", restart},
      {"GNN_HTTP_ADDRESS", "127.0.0.1:0"},
      {"GNN_PEER_TIMEOUT", "3"},
      {"GNN_HEARTBEAT_TIMEOUT", "4"},
      {"GNN_TERMINATION_LOG", (folder / ("result-of-pod-" + restart)).string()},
      {"SMALL_JOB_DIR", folder.string()},
      {"SMALL_JOB_STEP_MS", "20"},
  };
  for (const char* name :
       {"MASTER_ADDR", "MASTER_PORT", "GNN_JOB_UID", "GNN_ATTEMPT", "SMALL_JOB_STEPS"})
    variables[name] = variable_of(rank_of_old, name);
  return variables;
}

TEST_F(FaultTest, ANewPodOfAKilledAgentJoinsTheOthersInTheNextRound) {
  start(3, {{"GNN_NODE_RESTART", "0"}, {"SMALL_JOB_STEPS", "60"}});
  ASSERT_TRUE(reached(3, 8)) << output();
  const Variables fresh = next_pod_of(pid_of(2), "1", folder_);
  // As a write to a lost peer may: it must not end those that are left.
  for (const int rank : {0, 1}) ::kill(pid_of(rank), SIGPIPE);
  ::kill(agent_of(1), SIGKILL);
  const pid_t pod = spawn({std::getenv("GNN_SMALL_JOB"), "agent"}, fresh, folder_ / "pod-1");
  int status = 0;
  ::waitpid(pod, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), contract::kExitDone) << read_file(folder_ / "pod-1") << output();
  EXPECT_EQ(final_hashes().size(), 1U) << "ranks differ";
  EXPECT_NE(result_of(0).find("\"exitCode\":0"), std::string::npos) << result_of(0);
  EXPECT_NE(result_of(0).find("\"round\":1"), std::string::npos) << output();
  finish();
  expect_no_orphan();
}

TEST_F(FaultTest, AFrozenAgentThatComesBackAfterItsNewPodLeaves) {
  start(3, {{"GNN_NODE_RESTART", "0"}, {"SMALL_JOB_STEPS", "200"}});
  ASSERT_TRUE(reached(3, 8)) << output();
  const pid_t frozen = agent_of(1);
  const Variables fresh = next_pod_of(pid_of(2), "1", folder_);
  for (const pid_t rank : children_of(frozen)) ::kill(rank, SIGSTOP);
  ::kill(frozen, SIGSTOP);
  const pid_t pod = spawn({std::getenv("GNN_SMALL_JOB"), "agent"}, fresh, folder_ / "pod-1");
  const int old_step = step_of(0);
  EXPECT_TRUE(wait_until([&] { return step_of(0) < old_step; })) << "the next round has begun";
  for (const pid_t rank : children_of(frozen)) ::kill(rank, SIGCONT);
  ::kill(frozen, SIGCONT);
  EXPECT_TRUE(wait_until([&] { return result_of(1).find("\"exitCode\":75") != std::string::npos; }))
      << output();
  int status = 0;
  ::waitpid(pod, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), contract::kExitDone) << read_file(folder_ / "pod-1") << output();
  EXPECT_EQ(final_hashes().size(), 1U) << "ranks differ";
  EXPECT_NE(result_of(0).find("\"round\":1"), std::string::npos) << output();
  finish();
  expect_no_orphan();
}

TEST_F(FaultTest, AKilledStoreHostMakesTheOthersLeaveInSeconds) {
  start(3);
  ASSERT_TRUE(reached(3, 8)) << output();
  const auto start_time = steady_clock::now();
  ::kill(agent_of(0), SIGKILL);
  EXPECT_NE(finish(), -1) << output();
  EXPECT_LT(steady_clock::now() - start_time, seconds(30));
  EXPECT_NE(result_of(1).find("\"exitCode\":75"), std::string::npos) << result_of(1) << output();
  expect_no_orphan();
}

TEST_F(FaultTest, AStoppedStoreHostIsLostAfterThePeerTimeout) {
  start(3);
  ASSERT_TRUE(reached(3, 8)) << output();
  const pid_t host = agent_of(0);
  ::kill(host, SIGSTOP);
  EXPECT_TRUE(wait_until([&] { return result_of(1).find("\"exitCode\":75") != std::string::npos; })
  );
  ::kill(host, SIGKILL);
  EXPECT_NE(finish(), -1) << output();
  expect_no_orphan();
}

TEST_F(FaultTest, SigtermOnAnyPodStopsAllOfThemAtOneStep) {
  for (int node = 0; node < kNodes; ++node) {
    fresh_folder();
    start(2);
    ASSERT_TRUE(reached(0, 6)) << output();
    ::kill(agent_of(node), SIGTERM);
    EXPECT_EQ(finish(), contract::kExitPreempted) << output();
    for (int other = 0; other < kNodes; ++other)
      EXPECT_NE(result_of(other).find("\"exitCode\":76"), std::string::npos) << result_of(other);
    EXPECT_EQ(std::set({step_of(0), step_of(1), step_of(2), step_of(3)}).size(), 1U);
    expect_no_orphan();
  }
}

TEST_F(FaultTest, ARankOfAnotherRoundAttemptOrJobIsRefused) {
  start(0, {{"SMALL_JOB_STEP_MS", "100"}});
  ASSERT_TRUE(reached(0, 2)) << output();
  const pid_t real = pid_of(1);
  const Variables position{
      {"RANK", "1"},
      {"WORLD_SIZE", "4"},
      {"LOCAL_RANK", "1"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"GROUP_RANK", "0"},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", variable_of(real, "MASTER_PORT")},
      {"GNN_JOB_UID", variable_of(real, "GNN_JOB_UID")},
      {"GNN_ATTEMPT", "0"},
      {"GNN_ROUND", "0"},
      {"SMALL_JOB_DIR", folder_.string()},
      {"GNN_AGENT_SOCKET", "fd:0"},
  };
  for (const auto& [name, value] :
       Variables{{"GNN_ROUND", "1"}, {"GNN_ATTEMPT", "1"}, {"GNN_JOB_UID", "other"}}) {
    Variables variables = position;
    variables[name] = value;
    const auto log = folder_ / ("stale-" + name);
    const pid_t stale = spawn({std::getenv("GNN_SMALL_JOB"), "rank"}, variables, log);
    int status = 0;
    ::waitpid(stale, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), contract::kExitPeerLost) << read_file(log);
    EXPECT_NE(read_file(log).find("refused the handshake"), std::string::npos) << read_file(log);
  }
  EXPECT_EQ(finish(), contract::kExitDone) << output();
  EXPECT_NE(output().find("refused"), std::string::npos)
      << "the host says that it refused somebody";
}

// A memory cgroup with a limit; invalid where this machine lets us make none.
class MemoryCgroup {
 public:
  explicit MemoryCgroup(int64_t limit_bytes) {
    const bool v2 =
        fs::exists("/sys/fs/cgroup/memory.stat") || fs::exists("/sys/fs/cgroup/cgroup.controllers");
    path_ = fs::path(v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory") /
            ("gnn-test-" + std::to_string(::getpid()));
    std::error_code error;
    if (!fs::create_directory(path_, error)) return;
    valid_ = set(v2 ? "memory.max" : "memory.limit_in_bytes", limit_bytes);
    // No swap, or the limit would only slow the process down.
    if (v2) {
      set("memory.swap.max", 0);
    } else if (!set("memory.memsw.limit_in_bytes", limit_bytes)) {
      set("memory.swappiness", 0);
    }
  }
  ~MemoryCgroup() { ::rmdir(path_.c_str()); }
  MemoryCgroup(const MemoryCgroup&) = delete;
  MemoryCgroup& operator=(const MemoryCgroup&) = delete;

  [[nodiscard]] bool valid() const { return valid_; }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  bool set(const char* setting, int64_t value) const {
    if (!fs::exists(path_ / setting)) return false;
    std::ofstream file(path_ / setting);
    file << value << std::flush;
    return file.good();
  }

  fs::path path_;
  bool valid_ = false;
};

TEST_F(FaultTest, ARankOutOfMemoryEndsTheJobWithItsNameAndPeak) {
  const MemoryCgroup cgroup(int64_t{800} << 20);
  if (!cgroup.valid()) GTEST_SKIP() << "no memory cgroup can be made here";
  start(3, {{"SMALL_JOB_EATER", "2"}, {"SMALL_JOB_CGROUP", cgroup.path()}});
  EXPECT_EQ(finish(), contract::kExitOutOfMemory) << output();
  EXPECT_NE(result_of(1).find("\"reason\":\"OutOfMemory\""), std::string::npos) << result_of(1);
  EXPECT_NE(result_of(0).find("\"rank\":2"), std::string::npos) << result_of(0);
  EXPECT_NE(result_of(0).find("limit 800 MiB"), std::string::npos) << result_of(0);
  expect_no_orphan();
}

// Two nodes, each in a network namespace of its own, as pods are, with one cable between them.
class NetworkFaultTest : public FaultTest {
 protected:
  void SetUp() override {
    if (!ip("netns add " + name_of(0)) || !ip("netns add " + name_of(1)))
      GTEST_SKIP() << "no network namespace can be made here";
  }
  void TearDown() override {
    for (const pid_t agent : agents_)
      if (agent > 0) ::kill(agent, SIGKILL);
    cable_.reset();
    for (int node = 0; node < kNodes; ++node) {
      ip("netns delete " + name_of(node));
      fs::remove_all(settings_of(node));
    }
  }

  // By a cable of the kernel's own.
  void join_nodes() {
    ASSERT_TRUE(ip("link add pod netns " + name_of(0) + " type veth peer pod netns " + name_of(1)));
    set_up_devices();
  }
  void join_nodes_slowly(std::chrono::milliseconds delay) {
    cable_ = testing::SlowCable::between(name_of(0), name_of(1), "pod", delay);
    if (cable_ == nullptr) GTEST_SKIP() << "no TUN device can be made here";
    set_up_devices();
  }

  // At that node's address.
  void use_name_server(int server) {
    for (int node = 0; node < kNodes; ++node) {
      fs::create_directories(settings_of(node));
      std::ofstream(settings_of(node) / "resolv.conf")
          << "nameserver " << address_of(server) << "\n";
    }
  }

  void start_agents(const Variables& more = {}, const char* program = "GNN_SMALL_JOB") {
    agents_.clear();
    for (int node = 0; node < kNodes; ++node) {
      Variables variables{
          {"GNN_CONTRACT", std::to_string(contract::kVersion)},
          {"GNN_JOB", "small"},
          {"GNN_JOB_UID", "uid"},
          {"GNN_ATTEMPT", "1"},
          {"GNN_ROUNDS_LEFT", "3"},
          {"GNN_NODE_RANK", std::to_string(node)},
          {"GNN_NNODES", std::to_string(kNodes)},
          {"GNN_NPROC_PER_NODE", std::to_string(kProcesses)},
          {"GNN_PEER_TIMEOUT", "5"},
          {"GNN_HTTP_ADDRESS", "127.0.0.1:0"},
          {"GNN_TERMINATION_LOG", (folder_ / ("result-" + std::to_string(node))).string()},
          {"MASTER_ADDR", address_of(0)},
          {"MASTER_PORT", "29400"},
          {"SMALL_JOB_DIR", folder_.string()},
          {"SMALL_JOB_STEP_MS", "20"},
      };
      for (const auto& [name, value] : more) variables[name] = value;
      agents_.push_back(spawn(
          {"/sbin/ip", "netns", "exec", name_of(node), std::getenv(program), "agent"},
          variables,
          log_of(node)
      ));
    }
  }
  // What node 1 receives and `matches` (an expression of nftables) vanishes from now on.
  bool lose(const std::string& matches) const {
    std::ofstream(folder_ / "rules")
        << "table inet faults { chain input { type filter hook input priority 0; iifname pod "
        << matches << " counter drop; }; }\n";
    return nft("-f " + (folder_ / "rules").string());
  }
  bool has_lost_packets() const {
    const fs::path list = folder_ / "list";
    return nft("list table inet faults > " + list.string()) &&
           read_file(list).find("counter packets") != std::string::npos &&
           read_file(list).find("counter packets 0 ") == std::string::npos;
  }
  int wait_for(int node) {
    int status = 0;
    const auto has_ended = [&] {
      return ::waitpid(agents_[static_cast<size_t>(node)], &status, WNOHANG) != 0;
    };
    const bool ended = wait_until(has_ended) || wait_until(has_ended);
    if (!ended) return -1;
    agents_[static_cast<size_t>(node)] = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string result_at(int node) const {
    return read_file(folder_ / ("result-" + std::to_string(node)));
  }
  static std::string hash_in(const std::string& result) {
    const size_t at = result.find("\"parametersHash\"");
    EXPECT_NE(at, std::string::npos) << result;
    return at == std::string::npos ? "" : result.substr(at, 35);
  }

  void run_worker(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), std::getenv("GNN_WORKER"));
    start_program(arguments, {});
    ASSERT_EQ(finish(), contract::kExitDone) << output();
  }
  // Of two nodes with one rank each, which hold a partition each; a few steps.
  void make_partitioned_job() {
    const std::string whole = (folder_ / "whole").string();
    const std::string parts = (folder_ / "parts").string();
    run_worker({"data", "generate", "--shape=ogbn-arxiv", "--scale=0.01", "--output=" + whole});
    run_worker(
        {"data",
         "partition",
         "--input=" + whole,
         "--output=" + parts,
         "--parts=2",
         "--method=random",
         "--fanout=5,3",
         "--batch-size=128"}
    );
    std::ofstream(folder_ / "job.yaml") << R"(
apiVersion: gnn.dev/v1alpha1
kind: GNNJob
metadata: {name: small}
spec:
  task: {type: NodeClassification}
  dataset: {format: Native, path: )" + parts +
                                               R"(}
  model: {type: GraphSAGE, graphSage: {layers: 2, hiddenChannels: 8}}
  sampling: {fanout: [5, 3]}
  placement: {topology: Partitioned, features: Partitioned, partitions: 2, cache: {rows: "0.1"}}
  training: {device: CPU, epochs: 1, batchSize: 128, optimizer: {type: Adam, learningRate: "0.003"}}
  workers: {nodes: 2, processesPerNode: 1}
)";
  }
  fs::path log_of(int node) const { return folder_ / ("log-" + std::to_string(node)); }

  // What the same job ends with on one machine; leaves nothing of it.
  std::set<std::string> undisturbed(const Variables& variables = {}) {
    start(0, variables);
    EXPECT_EQ(finish(), contract::kExitDone) << output();
    const std::set<std::string> hashes = final_hashes();
    for (int rank = 0; rank < kNodes * kProcesses; ++rank)
      fs::remove(folder_ / ("final-" + std::to_string(rank)));
    return hashes;
  }
  void expect_agents_to_end_like(const std::set<std::string>& hashes) {
    for (int node = 0; node < kNodes; ++node) {
      EXPECT_EQ(wait_for(node), contract::kExitDone) << read_file(log_of(node));
      EXPECT_NE(result_at(node).find("\"round\":0"), std::string::npos) << result_at(node);
    }
    EXPECT_EQ(final_hashes(), hashes);
  }

  std::unique_ptr<testing::SlowCable> cable_;

 private:
  static void set_up_devices() {
    for (int node = 0; node < kNodes; ++node) {
      const std::string inside = "-n " + name_of(node);
      ASSERT_TRUE(ip(inside + " address add " + address_of(node) + "/24 dev pod"));
      ASSERT_TRUE(ip(inside + " link set pod up") && ip(inside + " link set lo up"));
    }
  }
  static bool run(const std::string& command) {
    // NOLINTNEXTLINE(cert-env33-c): the words are this test's own
    return std::system(("{ " + command + "; } >/dev/null 2>&1").c_str()) == 0;
  }
  static bool nft(const std::string& command) {
    return ip("netns exec " + name_of(1) + " nft " + command);
  }
  static bool ip(const std::string& command) { return run("ip " + command); }
  static std::string name_of(int node) {
    return "gnn-" + std::to_string(::getpid()) + "-" + std::to_string(node);
  }
  // What `ip netns exec` puts over /etc.
  static fs::path settings_of(int node) { return fs::path("/etc/netns") / name_of(node); }
  static std::string address_of(int node) { return "10.77.0." + std::to_string(node + 1); }

  std::vector<pid_t> agents_;
};

// Keeps this process, and those that it starts meanwhile, on one of its CPUs.
class OneCpu {
 public:
  OneCpu() {
    EXPECT_EQ(::sched_getaffinity(0, sizeof before_, &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &one);
    }
    EXPECT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  }
  ~OneCpu() { ::sched_setaffinity(0, sizeof before_, &before_); }
  OneCpu(const OneCpu&) = delete;
  OneCpu& operator=(const OneCpu&) = delete;

 private:
  cpu_set_t before_{};
};

TEST_F(NetworkFaultTest, ALossyNetworkIsOnlySlower) {
  const std::set<std::string> expected = undisturbed();
  join_nodes();
  ASSERT_TRUE(lose("numgen random mod 100 < 2"));
  start_agents();
  expect_agents_to_end_like(expected);
  EXPECT_TRUE(has_lost_packets());
}

// As between continents; a step waits for several messages that wait for each other.
TEST_F(NetworkFaultTest, ANetworkWithLatencyIsOnlySlower) {
  const Variables short_job{{"SMALL_JOB_STEPS", "8"}};
  const std::set<std::string> expected = undisturbed(short_job);
  const milliseconds delay(50);
  join_nodes_slowly(delay);
  if (IsSkipped()) return;
  const auto start_time = steady_clock::now();
  start_agents(short_job);
  expect_agents_to_end_like(expected);
  EXPECT_GT(steady_clock::now() - start_time, 8 * 2 * delay)
      << "no step is quicker than its messages";
  EXPECT_GT(cable_->packets(), 100);

  // The same for nodes that hold a partition each and ask each other in every hop. All on one core: how
  // many threads multiply matrices may change the last bits.
  if (std::getenv("GNN_WORKER") == nullptr) return;
  const OneCpu one_cpu;
  make_partitioned_job();
  run_worker({"run", (folder_ / "job.yaml").string()});
  const std::string hash = hash_in(result_of(0));
  std::ofstream(folder_ / "key") << std::string(64, 'a') << "\n";
  start_agents(
      {{"GNN_CONFIG", (folder_ / "job.yaml").string()},
       {"GNN_DATA_KEY_FILE", (folder_ / "key").string()},
       {"GNN_NPROC_PER_NODE", "1"}},
      "GNN_WORKER"
  );
  for (int node = 0; node < kNodes; ++node) {
    EXPECT_EQ(wait_for(node), contract::kExitDone) << read_file(log_of(node));
    EXPECT_EQ(hash_in(result_at(node)), hash) << result_at(node);
  }
}

// c10d would ask it for the name of each address that it connects to, and the store would wait.
TEST_F(NetworkFaultTest, ANameServerThatIsSilentIsNotAskedForAddresses) {
  const std::set<std::string> expected = undisturbed();
  join_nodes();
  use_name_server(1);
  ASSERT_TRUE(lose("udp dport 53"));
  start_agents();
  expect_agents_to_end_like(expected);
  EXPECT_FALSE(has_lost_packets());
}

TEST_F(NetworkFaultTest, HalvesThatLoseEachOtherBothLeaveAndNameWhatTheyLost) {
  join_nodes();
  start_agents();
  ASSERT_TRUE(reached(0, 8)) << read_file(log_of(0)) << read_file(log_of(1));
  ASSERT_TRUE(lose(""));
  for (int node = 0; node < kNodes; ++node)
    EXPECT_EQ(wait_for(node), contract::kExitPeerLost) << read_file(log_of(node));
  EXPECT_NE(result_at(0).find("node 1"), std::string::npos) << result_at(0);
  EXPECT_NE(result_at(1).find("the store at 10.77.0.1"), std::string::npos) << result_at(1);
  EXPECT_FALSE(fs::exists(folder_ / "final-0"));
  expect_no_orphan();
}

TEST_F(FaultTest, AKilledRunLeavesNothingBehind) {
  start(0);
  ASSERT_TRUE(reached(0, 5)) << output();
  ::kill(job_, SIGKILL);
  EXPECT_EQ(finish(), -SIGKILL);
  expect_no_orphan();
}

}  // namespace
}  // namespace gnn
