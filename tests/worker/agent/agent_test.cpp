#include "worker/agent/agent.h"

#include "common/contract.h"
#include "tests/support/in_process_store.h"
#include "tests/support/read_file.h"
#include "worker/agent/final_result.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <arpa/inet.h>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <httplib.h>
#include <limits>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace gnn::agent {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A port that was free a moment ago.
uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  ::close(fd);
  return ntohs(address.sin_port);
}

// A store whose host dies after some calls.
class MortalStore final : public rendezvous::Store {
 public:
  Status set(const std::string& key, const std::string& value) override {
    count();
    return store_.set(key, value);
  }
  Result<std::vector<std::optional<std::string>>> get(const std::vector<std::string>& keys
  ) override {
    count();
    return store_.get(keys);
  }
  Result<int64_t> add(const std::string& key, int64_t by) override {
    count();
    return store_.add(key, by);
  }

  int64_t calls_left = 0;

 private:
  void count() {
    if (calls_left-- == 0) store_.fail_from_now_on();
  }
  gnn::testing::InProcessStore store_;
};

struct Ended {
  int exit_code = -1;
  json result;
  std::string lines;
};

// One node whose store lives in its own process. The agent runs in a child: it takes over signals
// and reaps every child of its process, as PID 1 does.
class AgentTest : public ::testing::Test {
 protected:
  AgentTest() : folder_(fs::path(::testing::TempDir()) / ("agent-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    options_.job = "arxiv";
    options_.job_uid = "6f0c";
    options_.processes_per_node = 2;
    options_.http_address = "127.0.0.1:0";
    options_.termination_log = (folder_ / "result").string();
    options_.rank_command = {std::getenv("GNN_FAKE_RANK")};
    options_.peer_timeout = milliseconds(500);
    options_.cgroup = {.root = folder_.string(), .membership = (folder_ / "membership").string()};
    std::ofstream(folder_ / "membership") << "0::/\n";
    std::ofstream(folder_ / "memory.events") << "oom 0\noom_kill 0\n";
    ::setenv("FAKE_MEMORY_EVENTS", (folder_ / "memory.events").c_str(), 1);
  }
  ~AgentTest() override { fs::remove_all(folder_); }

  pid_t start(const std::string& words) {
    ::setenv("FAKE_RANK", words.c_str(), 1);
    const pid_t child = ::fork();
    if (child != 0) return child;
    std::ofstream lines(folder_ / "lines");
    const AgentOutput output{
        .on_line =
            [&](int64_t rank, RankStream stream, std::string_view line) {
              const char* name = stream == RankStream::Error ? " err " : " out ";
              lines << rank << name << line << std::endl;
              while (line == hangs_at_) ::pause();
            },
        .on_numbers = {}
    };
    const auto store = std::make_shared<MortalStore>();
    store->calls_left = store_calls_;
    for (const ServerReport& report : servers_) {
      static_cast<void>(store->set("6f0c/servers", std::to_string(report.server.server + 1)));
      static_cast<void>(
          store->set("6f0c/servers/" + std::to_string(report.server.server), encode(report))
      );
    }
    std::_Exit(run_agent(options_, [store](milliseconds) { return store; }, output));
  }

  Ended finish(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    Ended ended;
    ended.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    const std::string text = read("result");
    ended.result = json::parse(text, nullptr, false);
    EXPECT_FALSE(ended.result.is_discarded()) << text;
    ended.lines = read("lines");
    return ended;
  }

  Ended run(const std::string& words) { return finish(start(words)); }

  template <typename Condition>
  static bool eventually(const Condition& holds) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(60);
    while (!holds()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }
  // Waits until a rank writes `text`; false if none does.
  bool said(const char* text) const {
    return eventually([&] { return read("lines").find(text) != std::string::npos; });
  }

  std::string read(const char* name) const { return gnn::testing::read_file(folder_ / name); }

  fs::path folder_;
  AgentOptions options_;
  std::vector<ServerReport> servers_;  // what they wrote before the agent came
  std::string hangs_at_ = "no line";   // the line at which the agent hangs
  int64_t store_calls_ = std::numeric_limits<int64_t>::max();
};

TEST_F(AgentTest, IsDoneWhenAllRanksAre) {
  const auto ended = run("say train final");
  EXPECT_EQ(ended.exit_code, contract::kExitDone);
  EXPECT_EQ(ended.result.at("reason"), "Done");
  EXPECT_EQ(ended.result.at("testMetric"), "0.75");
  EXPECT_EQ(ended.result.at("metricName"), "accuracy");
  EXPECT_NE(ended.lines.find("0 out round 0"), std::string::npos) << ended.lines;
  EXPECT_NE(ended.lines.find("1 out round 0"), std::string::npos) << ended.lines;
}

TEST_F(AgentTest, ShowsItsRanksOnlyTheGpusOfTheirNode) {
  options_.visible_gpus = "2,3";
  const auto ended = run("gpus final");
  EXPECT_NE(ended.lines.find("1 out gpus 2,3"), std::string::npos) << ended.lines;
}

TEST_F(AgentTest, ADeadRankStartsANewRoundOfAllRanks) {
  options_.rounds_left = 1;
  const auto ended = run("say pause die@0:1 train");
  EXPECT_EQ(ended.exit_code, contract::kExitDone);
  EXPECT_EQ(ended.result.at("round"), 1);
  EXPECT_NE(ended.lines.find("0 out round 1"), std::string::npos) << ended.lines;
  EXPECT_NE(ended.lines.find("1 out round 1"), std::string::npos) << ended.lines;
}

TEST_F(AgentTest, TellsARoundWhichDataAnEarlierOneHasChecked) {
  options_.rounds_left = 1;
  const auto ended = run("data check@0:1 pause die@0:1 pause");
  EXPECT_EQ(ended.exit_code, contract::kExitDone);
  for (const char* line :
       {"0 out data ''", "1 out data ''", "0 out data 'sha256:12'", "1 out data 'sha256:12'"})
    EXPECT_NE(ended.lines.find(line), std::string::npos) << line << " in " << ended.lines;
}

TEST_F(AgentTest, WithoutARestartLeftNamesTheCulpritAndItsLastLines) {
  const auto ended = run("cry:1 pause die:1 stop");
  EXPECT_EQ(ended.exit_code, contract::kExitOther);
  EXPECT_EQ(ended.result.at("rank"), 1);
  const auto message = ended.result.at("message").get<std::string>();
  EXPECT_NE(message.find("killed by signal 9"), std::string::npos) << message;
  const auto last_words = ended.result.at("stderrTail").get<std::string>();
  EXPECT_NE(last_words.find("this is why"), std::string::npos) << last_words;
}

TEST_F(AgentTest, NeverRetriesAfterWrongData) {
  options_.rounds_left = 5;
  const auto ended = run("explain:0 exit65:0 stop");
  EXPECT_EQ(ended.exit_code, contract::kExitData);
  EXPECT_EQ(ended.result.at("round"), 0);
  EXPECT_EQ(ended.result.at("rank"), 0);
  EXPECT_NE(ended.result.at("message").get<std::string>().find("edge 7"), std::string::npos);
}

TEST_F(AgentTest, ARankThatLostItsPeerIsNotTheCulprit) {
  auto ended = run("exit75:0 pause die:1");
  EXPECT_EQ(ended.exit_code, contract::kExitOther);
  EXPECT_EQ(ended.result.at("rank"), 1);
  // But one is that lost its servers.
  ended = run("exit75:0 pause unserved:1");
  EXPECT_EQ(ended.exit_code, contract::kExitPeerLost);
  EXPECT_EQ(ended.result.at("rank"), 1);
  EXPECT_NE(
      ended.result.at("message").get<std::string>().find("no server held"), std::string::npos
  );
}

TEST_F(AgentTest, AStoppedRankIsRestartedAfterTheHeartbeatTimeout) {
  options_.rounds_left = 1;
  options_.timeouts.heartbeat = seconds(2);
  const auto ended = run("train freeze@0:1 stop@0 train");
  EXPECT_EQ(ended.exit_code, contract::kExitDone);
  EXPECT_EQ(ended.result.at("round"), 1);
}

TEST_F(AgentTest, ARankWithoutProgressIsKilledAfterItsStagesTimeout) {
  options_.timeouts.step = seconds(2);
  const auto ended = run("train stop");
  EXPECT_EQ(ended.exit_code, contract::kExitOther);
  const auto message = ended.result.at("message").get<std::string>();
  EXPECT_NE(message.find("no progress for"), std::string::npos) << message;
  EXPECT_NE(message.find("in phase Train"), std::string::npos) << message;
}

TEST_F(AgentTest, ARankMayWaitForAnotherThatProgresses) {
  options_.timeouts.step = seconds(1);
  EXPECT_EQ(
      run("wait:0 progress:1 pause:0 pause:0 pause:0 pause:0 pause:0").exit_code,
      contract::kExitDone
  );
}

TEST_F(AgentTest, TheRankOutsideOfCollectivesIsTheOneThatHangs) {
  options_.timeouts.step = seconds(1);
  const auto ended = run("wait:0 train:1 stop");
  EXPECT_EQ(ended.exit_code, contract::kExitOther);
  EXPECT_EQ(ended.result.at("rank"), 1);
}

TEST_F(AgentTest, ReportsARankThatIsOutOfMemory) {
  options_.rounds_left = 3;
  const auto ended = run("train oom:1 die:1 stop");
  EXPECT_EQ(ended.exit_code, contract::kExitOutOfMemory);
  EXPECT_EQ(ended.result.at("reason"), "OutOfMemory");
  EXPECT_EQ(ended.result.at("rank"), 1);
}

TEST_F(AgentTest, LeavesWhatItsRanksHeldWhereTheKernelEndsItWithThem) {
  std::ofstream(folder_ / "memory.max") << "1048576\n";
  const pid_t agent = start("say stop");
  ASSERT_TRUE(said("1 out round 0"));
  ASSERT_TRUE(eventually([&] { return !json::parse(read("result"), nullptr, false).is_discarded(); }
  ));
  ASSERT_EQ(::kill(agent, SIGKILL), 0);
  const auto ended = finish(agent);
  EXPECT_EQ(ended.exit_code, -SIGKILL);
  EXPECT_EQ(ended.result.at("reason"), "OutOfMemory");
  EXPECT_GE(ended.result.at("rank"), 0);
  const auto message = ended.result.at("message").get<std::string>();
  EXPECT_NE(message.find(" and the memory limit is 1 MiB"), std::string::npos) << message;
}

TEST_F(AgentTest, ReplacesWhatItsRanksHeldByTheirEnd) {
  std::ofstream(folder_ / "memory.max") << "1048576\n";
  const auto ended = run("train final");
  EXPECT_EQ(ended.exit_code, contract::kExitDone);
  EXPECT_EQ(ended.result.at("reason"), "Done");
  EXPECT_EQ(ended.result.at("message"), "done");
}

TEST_F(AgentTest, EndsItselfWhenItHangs) {
  hangs_at_ = "round 0";
  const auto ended = run("say stop");
  EXPECT_EQ(ended.exit_code, contract::kExitOther);
  EXPECT_EQ(ended.result.at("exitCode"), contract::kExitOther);
  EXPECT_NE(
      ended.result.at("message").get<std::string>().find("the agent of node 0 hung"),
      std::string::npos
  ) << ended.result;
}

// The server is gone by the time its last report is read for the second time.
TEST_F(AgentTest, TellsRanksOfEveryRoundWhichServersTakePartAndLeavesWhenThoseHaveHeardTheEnd) {
  servers_ = {
      {.server = {.server = 1, .restart = 2, .address = "10.0.0.7:29600"}, .beat = 5},
      {.server = {.server = 2, .restart = 0, .address = "10.0.0.8:29600"}, .leaving = true}
  };
  options_.rounds_left = 1;
  // The server's report stays as it is: the second round has to begin before it counts as silent.
  options_.peer_timeout = seconds(4);
  const auto begin = std::chrono::steady_clock::now();
  const auto ended = run("say servers die@0:1 train");
  EXPECT_EQ(ended.exit_code, contract::kExitDone) << ended.lines;
  EXPECT_GT(std::chrono::steady_clock::now() - begin, options_.peer_timeout);
  const std::string server = " out server 1 pod 2 at 10.0.0.7:29600\n";
  const size_t second = ended.lines.find("0 out round 1\n");
  ASSERT_NE(second, std::string::npos) << ended.lines;
  EXPECT_LT(ended.lines.find("1" + server), second) << ended.lines;
  EXPECT_NE(ended.lines.find("0" + server, second), std::string::npos) << ended.lines;
  EXPECT_EQ(ended.lines.find("server 2"), std::string::npos) << ended.lines;
}

TEST_F(AgentTest, SigtermPreemptsTheRanks) {
  const pid_t agent = start("say train stop");
  EXPECT_TRUE(said("1 out"));
  ::kill(agent, SIGTERM);
  const auto ended = finish(agent);
  EXPECT_EQ(ended.exit_code, contract::kExitPreempted);
  EXPECT_EQ(ended.result.at("reason"), "Preempted");
}

TEST_F(AgentTest, RanksThatIgnoreTheStopAreKilledAfterTheGracePeriod) {
  options_.grace = seconds(2);
  const pid_t agent = start("say freeze");
  EXPECT_TRUE(said("1 out"));
  ::kill(agent, SIGTERM);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(finish(agent).exit_code, contract::kExitPreempted);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(60));
}

TEST_F(AgentTest, ALostStoreEndsTheAttempt) {
  store_calls_ = 30;
  const auto ended = run("stop");
  EXPECT_EQ(ended.exit_code, contract::kExitPeerLost);
  EXPECT_EQ(ended.result.at("reason"), "PeerLost");
}

TEST_F(AgentTest, ARankThatCannotBeStartedEndsTheJobAndTheReasonIsReported) {
  options_.rank_command = {"/nonexistent/rank"};
  const auto ended = run("");
  EXPECT_EQ(ended.exit_code, contract::kExitOther);
  EXPECT_NE(
      ended.result.at("stderrTail").get<std::string>().find("No such file"), std::string::npos
  );
}

TEST_F(AgentTest, ARanksChildrenDieWithIt) {
  // The rank's child inherits its output: the pipe closes only when the child is gone, too.
  const pid_t agent = start("child say pause");
  EXPECT_EQ(finish(agent).exit_code, contract::kExitDone);
  EXPECT_NE(::kill(-agent, 0), 0);
}

TEST_F(AgentTest, ServesMetricsProgressAndHealth) {
  servers_ = {{.server = {.server = 0, .restart = 0, .address = "10.0.0.7:29600"}}};
  options_.peer_timeout = seconds(60);  // it takes part all the while
  options_.http_address = "127.0.0.1:" + std::to_string(free_port());
  const pid_t agent = start("say train stop");
  EXPECT_TRUE(said("1 out"));
  httplib::Client client("http://" + options_.http_address);
  const auto deadline = std::chrono::steady_clock::now() + seconds(60);
  const std::string steps = "gnn_train_steps_total{job=\"arxiv\",node=\"0\",rank=\"0\"} 10";
  std::string metrics;
  while (metrics.find(steps) == std::string::npos && std::chrono::steady_clock::now() < deadline)
    if (const auto page = client.Get("/metrics")) metrics = page->body;
  EXPECT_NE(metrics.find(steps), std::string::npos) << metrics;
  EXPECT_NE(
      metrics.find("gnn_agent_phase{job=\"arxiv\",node=\"0\",phase=\"Train\"} 1"), std::string::npos
  );
  EXPECT_NE(metrics.find("gnn_agent_servers{job=\"arxiv\",node=\"0\"} 1\n"), std::string::npos);
  const auto progress = client.Get("/progress");
  ASSERT_TRUE(progress);
  EXPECT_EQ(json::parse(progress->body).at("jobUid"), "6f0c");
  const auto health = client.Get("/healthz");
  ASSERT_TRUE(health);
  EXPECT_EQ(health->status, 200);
  const auto stop = std::chrono::steady_clock::now();
  ::kill(agent, SIGTERM);
  EXPECT_EQ(finish(agent).exit_code, contract::kExitPreempted);
  EXPECT_LT(std::chrono::steady_clock::now() - stop, options_.peer_timeout)
      << "servers outlive this attempt";
}

}  // namespace
}  // namespace gnn::agent
