#include "worker/agent/local_servers.h"

#include "common/contract.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <map>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/wait.h>
#include <vector>

namespace gnn::agent {
namespace {

using std::chrono::seconds;

// Two servers that are shell scripts. The test's time passes only where it says so.
class LocalServersTest : public ::testing::Test {
 protected:
  void start(const std::string& script) {
    end();
    LocalServersOptions options{.servers = 2, .command = {"/bin/sh", "-c", script}};
    options.environment = [](int64_t server, int64_t restart) {
      return Environment{{"SERVER", std::to_string(server)}, {"RESTART", std::to_string(restart)}};
    };
    options.on_line = [this](int64_t server, std::string_view line) {
      said_[server].emplace_back(line);
    };
    servers_.emplace(std::move(options));
    ASSERT_TRUE(servers_->start(now_));
  }
  ~LocalServersTest() override { end(); }
  void end() {
    if (!servers_) return;
    servers_->signal(SIGKILL);
    while (!servers_->all_ended()) turn();
  }

  void turn() {
    std::vector<pollfd> entries;
    servers_->add_poll_entries(entries);
    ::poll(entries.data(), entries.size(), 5);
    EXPECT_TRUE(servers_->tend(now_));
    int status = 0;
    for (pid_t pid = ::waitpid(-1, &status, WNOHANG); pid > 0;
         pid = ::waitpid(-1, &status, WNOHANG))
      ended_ += servers_->on_exit(pid, status, now_) ? 1 : 0;
  }
  // Each that runs has two outputs.
  bool runs_two() {
    std::vector<pollfd> entries;
    servers_->add_poll_entries(entries);
    return entries.size() > 2;
  }
  // Whether `condition` comes true while no time of the test's passes.
  template <class Condition>
  bool comes(Condition condition) {
    const auto limit = std::chrono::steady_clock::now() + seconds(20);
    while (!condition() && std::chrono::steady_clock::now() < limit) turn();
    return condition();
  }

  MonotonicPoint now_{};
  std::map<int64_t, std::vector<std::string>> said_;
  int ended_ = 0;
  std::optional<LocalServers> servers_;
};

TEST_F(LocalServersTest, StartsOneThatEndedAsItsNextPodAndLessOftenWhileItEndsAtOnce) {
  start("echo pod $RESTART of $SERVER; [ $SERVER = 1 ] && kill -9 $$; exec sleep 1000");
  ASSERT_TRUE(comes([this] { return ended_ == 1; }));
  turn();
  EXPECT_FALSE(runs_two()) << "it waits for its time";
  now_ += std::chrono::milliseconds(100);
  ASSERT_TRUE(comes([this] { return ended_ == 2; }));
  now_ += std::chrono::milliseconds(100);
  turn();
  EXPECT_FALSE(runs_two()) << "the next pause is twice as long";
  now_ += std::chrono::milliseconds(100);
  ASSERT_TRUE(comes([this] { return ended_ == 3; }));
  EXPECT_EQ(said_[1], (std::vector<std::string>{"pod 0 of 1", "pod 1 of 1", "pod 2 of 1"}));
  ASSERT_TRUE(comes([this] { return said_[0].size() == 1; }));
  EXPECT_EQ(said_[0], std::vector<std::string>{"pod 0 of 0"});
  EXPECT_FALSE(servers_->final_code());
  EXPECT_FALSE(servers_->all_ended());

  // One that has lived for long is started again at once.
  said_.clear();
  start("echo $$; exec sleep 1000");
  ASSERT_TRUE(comes([this] { return said_[1].size() == 1; }));
  now_ += seconds(10);
  ::kill(std::stoi(said_[1].front()), SIGKILL);
  EXPECT_TRUE(comes([this] { return said_[1].size() == 2; }));

  // No other pod could do better.
  for (const int code : {contract::kExitConfiguration, contract::kExitData}) {
    start("[ $SERVER = 1 ] && exit " + std::to_string(code) + "; exit 0");
    ASSERT_TRUE(comes([this] { return servers_->all_ended(); }));
    EXPECT_EQ(servers_->final_code(), code);
    now_ += seconds(100);
    turn();
    EXPECT_TRUE(servers_->all_ended());
  }
}

}  // namespace
}  // namespace gnn::agent
