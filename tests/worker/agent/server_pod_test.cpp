#include "worker/agent/server_pod.h"

#include "common/contract.h"
#include "tests/support/in_process_store.h"
#include "tests/support/read_file.h"
#include "tests/support/schema.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_folder.h"
#include "worker/agent/server_progress.h"
#include "worker/rendezvous/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace gnn::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Does something once it serves, and says in a file how long it may take to leave, and what others can
// read of it by then.
class FakeServing final : public Serving {
 public:
  FakeServing(
      std::string file,
      std::function<void()> next,
      std::function<std::optional<ServerReport>()> heard
  )
      : file_(std::move(file)), next_(std::move(next)), heard_(std::move(heard)) {}
  [[nodiscard]] progress::ServerData data() const override {
    next_();
    return {};
  }
  void drain(Duration limit) override {
    const auto report = heard_();
    std::ofstream(file_) << std::chrono::duration_cast<std::chrono::seconds>(limit).count()
                         << (report && report->leaving ? ", leaving" : "");
  }

 private:
  std::string file_;
  std::function<void()> next_;
  std::function<std::optional<ServerReport>()> heard_;
};

// The server runs in a child: it takes over signals. Its store is in the same process.
class ServerPodTest : public ::testing::Test {
 protected:
  ServerPodTest() {
    options_.pod.job = "arxiv";
    options_.pod.job_uid = "6f0c";
    options_.pod.node = 3;
    options_.restart = 1;
    options_.pod.grace = std::chrono::seconds(40);
    options_.pod.store_host = "127.0.0.1";
    options_.pod.store_port = 1;
    options_.pod.http_address = "127.0.0.1:0";
    options_.pod.termination_log = folder_.path("result");
  }

  // The exit code of a server that begins as `serve` says.
  int run(const StartServing& serve) const {
    const pid_t child = ::fork();
    if (child == 0)
      std::_Exit(run_server_pod(
          options_,
          2,
          {.connect = [this](std::chrono::milliseconds) { return store_; },
           .serve = serve,
           .on_servers = {}}
      ));
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  // Serves, and does what `next` says.
  StartServing serving(const std::function<void()>& next) const {
    return [this, next](const ServingStart& start) -> Result<std::unique_ptr<Serving>> {
      start.on_listening(29600);
      return std::make_unique<FakeServing>(folder_.path("drained"), next, [this] {
        return heard();
      });
    };
  }
  // What the store says of the server.
  [[nodiscard]] std::optional<ServerReport> heard() const {
    const auto text = store_->get({"6f0c/servers/3"}).value().at(0);
    return text ? std::optional(decode_server_report(*text, 3).value()) : std::nullopt;
  }
  void host_attempt() const {
    EXPECT_TRUE(rendezvous::announce_identity(*store_, {.job_uid = "6f0c", .attempt = 0}));
  }
  void say_done() const {
    Directive done{.kind = DirectiveKind::Leave, .exit_code = contract::kExitDone};
    host_attempt();
    EXPECT_TRUE(store_->set("6f0c/0/directive", encode(done)));
  }
  // Another pod registers as this server.
  void replace() const {
    EXPECT_TRUE(store_->set(
        "6f0c/servers/3",
        encode(ServerReport{.server = {.server = 3, .restart = 2, .address = "10.0.0.7:29600"}})
    ));
  }
  nlohmann::json result() const {
    return nlohmann::json::parse(gnn::testing::read_file(folder_.path("result")));
  }

  gnn::testing::TemporaryFolder folder_;
  ServerOptions options_;
  std::shared_ptr<gnn::testing::InProcessStore> store_ =
      std::make_shared<gnn::testing::InProcessStore>();
};

TEST_F(ServerPodTest, AnswersWhatIsUnderWayWhenToldToStopAndEndsWithTheWorkersOrItsOwnError) {
  EXPECT_EQ(run(serving([] { ::kill(::getpid(), SIGTERM); })), contract::kExitPreempted);
  EXPECT_EQ(gnn::testing::read_file(folder_.path("drained")), "28") << "40 s, less 10 and 2";
  EXPECT_EQ(result()["exitCode"], contract::kExitPreempted);
  EXPECT_EQ(result()["node"], 3);

  const StartServing hangs = [](const ServingStart&) -> Result<std::unique_ptr<Serving>> {
    ::kill(::getpid(), SIGTERM);
    while (true) ::pause();
  };
  EXPECT_EQ(run(hangs), contract::kExitPreempted) << "while it loads";

  const StartServing bad = [](const ServingStart&) -> Result<std::unique_ptr<Serving>> {
    return fail(ErrorKind::Data, "/data/part-1: no such folder");
  };
  EXPECT_EQ(run(bad), contract::kExitData);
  EXPECT_EQ(result()["message"], "/data/part-1: no such folder");
  EXPECT_EQ(result()["reason"], "Data");

  const StartServing crowded = [](const ServingStart&) -> Result<std::unique_ptr<Serving>> {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  };
  EXPECT_EQ(run(crowded), contract::kExitOther);
  EXPECT_THAT(result()["message"], HasSubstr("can't start a thread (limits of processes"));

  EXPECT_EQ(run(serving([this] { say_done(); })), contract::kExitDone);
  EXPECT_EQ(result()["message"], "all workers are done");

  // Others hear that it leaves before it answers the last of them.
  host_attempt();
  EXPECT_EQ(
      run(serving([this] {
        // Its second report: it has seen that the store took the first.
        if (const auto report = heard(); report && report->beat > 1) ::kill(::getpid(), SIGTERM);
      })),
      contract::kExitPreempted
  );
  EXPECT_EQ(gnn::testing::read_file(folder_.path("drained")), "28, leaving");

  // Once it serves: while it loads, it ends without its threads, which a thread sanitizer reports.
  EXPECT_EQ(run(serving([this] { replace(); })), contract::kExitPeerLost);
  EXPECT_THAT(result()["message"], HasSubstr("another pod took the place of this one: pod 2"));
}

TEST_F(ServerPodTest, ShowsWhatItDoes) {
  SilentProgressBar silent;
  ServerProgress progress(options_, 2, silent);
  const Pages pages = progress.pages();
  const auto page = [&pages] { return nlohmann::json::parse(pages.progress()); };
  progress.begin("reading features", 200, "rows");
  progress.advance_to(86, {});
  const gnn::testing::Schema schema(gnn::testing::source_dir() + "/docs/schemas/progress.v1.json");
  EXPECT_THAT(schema.problems(pages.progress()), IsEmpty());
  EXPECT_EQ(page()["phase"], "Setup");
  EXPECT_EQ(page()["percent"], 43);
  EXPECT_FALSE(pages.healthy());
  const std::string labels = R"({job="arxiv",server="3"})";
  const auto expect = [&](const std::string& name, const std::string& value) {
    EXPECT_THAT(pages.metrics(), HasSubstr("\ngnn_server_" + name + labels + " " + value + "\n"));
  };
  expect("ready", "0");
  expect("batches_total", "0");

  progress.on_ready();
  progress::ServerData data{
      .batches = 5,
      .bytes = 50,
      .queue_length = 3,
      .threads = 2,
      .busy_seconds = 2.5,
      .clients = 4,
      .refused = 1,
      .seconds = {.gather = 1.5}
  };
  progress.on_data(data);
  data.batches = 7;
  data.bytes = 70;
  data.queue_length = 2;
  data.clients = 6;
  data.refused = 9;
  data.busy_seconds = 3.5;
  data.seconds.gather = 2.5;
  progress.on_data(data);
  progress.on_memory(4096);
  EXPECT_TRUE(pages.healthy());
  EXPECT_EQ(page()["phase"], "Serve");
  EXPECT_THAT(schema.problems(pages.progress()), IsEmpty());
  expect("ready", "1");
  expect("batches_total", "7");
  expect("bytes_total", "70");
  expect("refused_total", "9");
  expect("queue_length", "2");
  expect("threads", "2");
  expect("clients", "6");
  expect("busy_seconds_total", "3.5");
  expect("memory_bytes", "4096");
  const std::string shown = pages.metrics();
  EXPECT_THAT(
      shown,
      HasSubstr(R"(gnn_server_batch_seconds_total{job="arxiv",server="3",stage="gather"} 2.5)")
  );
  EXPECT_THAT(shown, HasSubstr(R"(gnn_server_info{job="arxiv",part="1",restart="1",server="3")"));

  progress.on_leaving();
  EXPECT_FALSE(pages.healthy());
}

}  // namespace
}  // namespace gnn::agent
