// Kills, stops and confuses parts of a running job (small_job.cpp), and looks at what is left.

#include "common/contract.h"
#include "tests/support/read_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <sched.h>
#include <set>
#include <sstream>
#include <string>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace gnn {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::read_file;
using Variables = std::map<std::string, std::string>;

// In order of their start; read from every process's parent, since not every kernel lists children.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    const std::string stat = pid > 0 ? read_file(entry.path() / "stat") : "";
    const auto name_end = stat.rfind(')');
    if (name_end == std::string::npos) continue;
    char state = 0;
    int its_parent = 0;
    if (std::sscanf(stat.c_str() + name_end + 1, " %c %d", &state, &its_parent) == 2 &&
        its_parent == parent)
      children.push_back(pid);
  }
  std::sort(children.begin(), children.end());
  return children;
}

// A variable that a process was started with.
std::string variable_of(pid_t pid, const std::string& name) {
  std::istringstream list(read_file("/proc/" + std::to_string(pid) + "/environ"));
  for (std::string entry; std::getline(list, entry, '\0');)
    if (entry.rfind(name + "=", 0) == 0) return entry.substr(name.size() + 1);
  return "";
}

// Mounts a file system of that size for this process and what it starts; says whether it may.
bool mount_small_disk(const std::string& path, const std::string& size) {
  const std::string options = "size=" + size;
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", path.c_str(), "tmpfs", 0, options.c_str()) == 0;
}

bool may_mount(const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) std::_Exit(mount_small_disk(path, "64k") ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class FaultTest : public ::testing::Test {
 protected:
  static constexpr int kNodes = 2;
  static constexpr int kProcesses = 2;

  FaultTest() : folder_(fs::path(::testing::TempDir()) / ("faults-" + std::to_string(::getpid()))) {
    // Orphans become children of this process, where they can be counted.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    fresh_folder();
  }
  ~FaultTest() override {
    if (job_ > 0) {
      ::kill(job_, SIGKILL);
      ::waitpid(job_, nullptr, 0);
    }
    fs::remove_all(folder_);
  }

  void fresh_folder() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }

  static pid_t spawn(
      const std::vector<std::string>& arguments, const Variables& variables, const fs::path& output
  ) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::setpgid(0, 0);
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    const auto disk = variables.find("TEST_SMALL_DISK");
    if (disk != variables.end() && !mount_small_disk(disk->second, "700k")) std::_Exit(126);
    const int file = ::open(output.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    std::vector<char*> pointers;
    for (const auto& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
    pointers.push_back(nullptr);
    ::execv(pointers[0], pointers.data());
    std::_Exit(127);
  }

  void start(int rounds, Variables variables = {}, int nodes = kNodes, int processes = kProcesses) {
    variables.try_emplace("SMALL_JOB_DIR", folder_.string());
    variables.try_emplace("SMALL_JOB_STEP_MS", "20");
    variables.try_emplace("GNN_PEER_TIMEOUT", "3");
    variables.try_emplace("GNN_HEARTBEAT_TIMEOUT", "4");
    variables.try_emplace("GNN_TERMINATION_LOG", (folder_ / "result").string());
    job_ = spawn(
        {std::getenv("GNN_SMALL_JOB"),
         "run",
         std::to_string(nodes),
         std::to_string(processes),
         std::to_string(rounds)},
        variables,
        folder_ / "output"
    );
  }

  // Waits for the job's end; returns its exit code, or -1 after a time-out.
  int finish(seconds limit = seconds(60)) {
    const auto deadline = steady_clock::now() + limit;
    int status = 0;
    while (::waitpid(job_, &status, WNOHANG) == 0) {
      if (steady_clock::now() > deadline) return -1;
      std::this_thread::sleep_for(milliseconds(10));
    }
    job_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  // Whether `condition` comes true within half a minute.
  template <class Condition>
  static bool wait_until(Condition condition) {
    const auto deadline = steady_clock::now() + seconds(30);
    while (!condition()) {
      if (steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return true;
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
  // Agents are the job's children, in order of their nodes.
  pid_t agent_of(int node) const { return children_of(job_).at(static_cast<size_t>(node)); }

  std::set<std::string> final_hashes(int world = kNodes * kProcesses) const {
    std::set<std::string> hashes;
    for (int rank = 0; rank < world; ++rank)
      hashes.insert(read_file(folder_ / ("final-" + std::to_string(rank))));
    return hashes;
  }
  std::string output() const { return read_file(folder_ / "output"); }
  std::string result_of(int node) const {
    return read_file(folder_ / ("result." + std::to_string(node)));
  }

  // Processes that outlive the job become our children; after a moment there must be none.
  static void expect_no_orphan() {
    EXPECT_TRUE(wait_until([] {
      while (::waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      return children_of(::getpid()).empty();
    })) << "processes outlived their job";
  }

  // The hash of every rank's parameters in a run without faults.
  std::string undisturbed() {
    static std::string hash;
    if (!hash.empty()) return hash;
    start(0, {{"SMALL_JOB_STEP_MS", "0"}});
    EXPECT_EQ(finish(), contract::kExitDone) << output();
    const auto hashes = final_hashes();
    EXPECT_EQ(hashes.size(), 1U) << "ranks differ";
    hash = *hashes.begin();
    EXPECT_EQ(hash.size(), 16U);
    fresh_folder();
    return hash;
  }

  void expect_recovered(const std::string& expected) {
    EXPECT_EQ(finish(), contract::kExitDone) << output();
    EXPECT_EQ(final_hashes(), std::set<std::string>{expected}) << output();
    expect_no_orphan();
  }

  fs::path folder_;
  pid_t job_ = -1;
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

TEST_F(FaultTest, KilledRanksAreRecoveredBitForBit) {
  const std::string expected = undisturbed();
  const int runs = std::getenv("GNN_FULL") != nullptr ? 50 : 5;
  std::mt19937 random(20);
  for (int run = 0; run < runs; ++run) {
    fresh_folder();
    start(3);
    const int rank = static_cast<int>(random() % 4);
    const int step = static_cast<int>(random() % 35);
    ASSERT_TRUE(reached(rank, step)) << output();
    ASSERT_TRUE(wait_until([&] { return pid_of(rank) > 0; }));
    std::this_thread::sleep_for(milliseconds(random() % 40));
    ::kill(pid_of(rank), SIGKILL);
    expect_recovered(expected);
    if (HasFailure()) FAIL() << "run " << run << ": rank " << rank << " killed at step " << step;
  }
}

TEST_F(FaultTest, AStoppedRankIsFoundKilledAndRecovered) {
  const std::string expected = undisturbed();
  start(1);
  ASSERT_TRUE(reached(2, 8)) << output();
  ::kill(pid_of(2), SIGSTOP);
  expect_recovered(expected);
  EXPECT_NE(output().find("rank 2 hangs: no heartbeat"), std::string::npos) << output();
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
  EXPECT_LT(steady_clock::now() - start_time, seconds(10));
  EXPECT_NE(result_of(0).find("\"exitCode\":75"), std::string::npos) << result_of(0);
  EXPECT_NE(result_of(0).find("node 1"), std::string::npos) << result_of(0);
  expect_no_orphan();
}

TEST_F(FaultTest, AKilledStoreHostMakesTheOthersLeaveInSeconds) {
  start(3);
  ASSERT_TRUE(reached(3, 8)) << output();
  const auto start_time = steady_clock::now();
  ::kill(agent_of(0), SIGKILL);
  EXPECT_NE(finish(), -1) << output();
  EXPECT_LT(steady_clock::now() - start_time, seconds(10));
  EXPECT_NE(result_of(1).find("\"exitCode\":75"), std::string::npos) << result_of(1);
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

TEST_F(FaultTest, CtrlCWritesACheckpointOfOneStepAndTheNextRunEndsWithTheSameBits) {
  const std::string expected = undisturbed();
  start(0);
  ASSERT_TRUE(reached(0, 12)) << output();
  ::kill(job_, SIGINT);
  EXPECT_EQ(finish(seconds(20)), contract::kExitPreempted) << output();
  EXPECT_EQ(std::set({step_of(0), step_of(1), step_of(2), step_of(3)}).size(), 1U)
      << "ranks stopped apart";
  EXPECT_TRUE(fs::exists(folder_ / ("checkpoint-" + std::to_string(step_of(0)))));
  expect_no_orphan();
  start(0, {{"SMALL_JOB_STEP_MS", "0"}});
  expect_recovered(expected);
}

TEST_F(FaultTest, SigtermOnAnyPodStopsAllOfThem) {
  for (int node = 0; node < kNodes; ++node) {
    fresh_folder();
    start(2);
    ASSERT_TRUE(reached(0, 6)) << output();
    ::kill(agent_of(node), SIGTERM);
    EXPECT_EQ(finish(seconds(20)), contract::kExitPreempted) << output();
    for (int other = 0; other < kNodes; ++other)
      EXPECT_NE(result_of(other).find("\"exitCode\":76"), std::string::npos) << result_of(other);
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

TEST_F(FaultTest, AKilledRunLeavesNothingBehind) {
  start(0);
  ASSERT_TRUE(reached(0, 5)) << output();
  ::kill(job_, SIGKILL);
  EXPECT_EQ(finish(), -SIGKILL);
  expect_no_orphan();
}

// The same with gnn-worker itself, on a small graph of arxiv's shape.
class WorkerFaultTest : public FaultTest {
 protected:
  void SetUp() override {
    if (std::getenv("GNN_WORKER") == nullptr) GTEST_SKIP() << "built without gnn-worker";
  }

  void start_worker(Variables variables = {}) {
    variables.emplace("GNN_TERMINATION_LOG", (folder_ / "result").string());
    const fs::path manifest = folder_ / "job.yaml";
    std::ofstream(manifest) << R"(apiVersion: gnn.dev/v1alpha1
kind: GNNJob
metadata: {name: small}
spec:
  task: {type: NodeClassification}
  dataset: {format: Synthetic, synthetic: {shape: Arxiv, scale: "0.01", seed: 1}}
  model: {type: GraphSAGE, graphSage: {layers: 3, hiddenChannels: 64, dropout: "0.5"}}
  sampling: {fanout: [10, 10, 10]}
  training: {device: CPU, epochs: 12, batchSize: 64}
  workers: {nodes: 2, processesPerNode: 2}
)" << "  checkpoint: {everyEpochs: 0, everySteps: 5, path: "
                            << (folder_ / "checkpoints").string() << "}\n";
    job_ =
        spawn({std::getenv("GNN_WORKER"), "run", manifest.string()}, variables, folder_ / "output");
  }

  bool reached_epoch(const std::string& epoch) const {
    return wait_until([&] { return output().find("Epoch " + epoch) != std::string::npos; });
  }

  std::string hash() const {
    const std::string result = result_of(0);
    const std::string key = "\"parametersHash\":\"";
    const auto at = result.find(key);
    return at == std::string::npos ? "" : result.substr(at + key.size(), 16);
  }

  // The parameters' hash of a run without faults.
  std::string undisturbed_worker() {
    static std::string expected;
    if (!expected.empty()) return expected;
    start_worker();
    EXPECT_EQ(finish(), contract::kExitDone) << output();
    expected = hash();
    EXPECT_EQ(expected.size(), 16U) << result_of(0);
    fresh_folder();
    return expected;
  }
};

TEST_F(WorkerFaultTest, AKilledRankIsRecoveredBitForBit) {
  const std::string expected = undisturbed_worker();
  start_worker();
  ASSERT_TRUE(reached_epoch("00003")) << output();
  ::kill(children_of(agent_of(1)).at(0), SIGKILL);
  EXPECT_EQ(finish(), contract::kExitDone) << output();
  EXPECT_NE(result_of(0).find("\"round\":1"), std::string::npos) << result_of(0);
  EXPECT_EQ(hash(), expected);
  expect_no_orphan();
}

// The disk has room for one checkpoint and not for a second one.
TEST_F(WorkerFaultTest, AFullDiskEndsTheJobWithItsReason) {
  const fs::path disk = folder_ / "checkpoints";
  fs::create_directories(disk);
  if (!may_mount(disk.string())) GTEST_SKIP() << "nothing can be mounted here";
  start_worker({{"TEST_SMALL_DISK", disk.string()}});
  EXPECT_EQ(finish(seconds(120)), contract::kExitOther) << output();
  EXPECT_NE(output().find("Resumed from"), std::string::npos) << "the first one was whole";
  for (int node = 0; node < kNodes; ++node) {
    EXPECT_NE(result_of(node).find("\"rank\":0"), std::string::npos) << result_of(node);
    EXPECT_NE(result_of(node).find("No space left on device"), std::string::npos)
        << result_of(node);
  }
  expect_no_orphan();
}

TEST_F(WorkerFaultTest, CtrlCResumesAndEndsWithTheSameBits) {
  const std::string expected = undisturbed_worker();
  start_worker();
  ASSERT_TRUE(reached_epoch("00004")) << output();
  ::kill(job_, SIGINT);
  EXPECT_EQ(finish(), contract::kExitPreempted) << output();
  expect_no_orphan();
  start_worker();
  EXPECT_EQ(finish(), contract::kExitDone) << output();
  EXPECT_NE(output().find("Resumed from"), std::string::npos) << output();
  EXPECT_EQ(hash(), expected);
}

}  // namespace
}  // namespace gnn
