#include "controller/app/health.h"

#include "tests/support/must.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <httplib.h>
#include <latch>
#include <string>
#include <thread>
#include <vector>

namespace gnn::app {
namespace {

using gnn::testing::must;
using namespace std::chrono_literals;

const HostPort kAnyPort{.host = "127.0.0.1", .port = 0};

struct Answer {
  int status = 0;
  std::string body;
};

Answer ask(const http::Server& server, const std::string& page) {
  httplib::Client client("127.0.0.1", server.port());
  client.set_read_timeout(20s);
  const auto answer = client.Get(page);
  if (!answer) return {};
  return {.status = answer->status, .body = answer->body};
}

TEST(Health, SaysWhatKeepsTheProcessFromBeingAliveOrReady) {
  std::string not_alive;
  std::string not_ready = "the caches are not synced yet";
  const auto server =
      must(start_health_server(kAnyPort, {[&] { return not_alive; }, [&] { return not_ready; }}));
  EXPECT_EQ(ask(*server, "/healthz").status, 200);
  EXPECT_EQ(ask(*server, "/readyz").status, 503);
  EXPECT_EQ(ask(*server, "/readyz").body, "the caches are not synced yet\n");
  EXPECT_EQ(ask(*server, "/metrics").status, 404);
  not_ready.clear();
  not_alive = "the work queue stands still";
  EXPECT_EQ(ask(*server, "/readyz").status, 200);
  EXPECT_EQ(ask(*server, "/healthz").status, 503);
  EXPECT_EQ(ask(*server, "/healthz").body, "the work queue stands still\n");
}

TEST(Health, ReadersOfMetricsDoNotKeepProbesOut) {
  constexpr int kReaders = 8;  // more than a server has threads
  std::latch answered(1);
  const auto metrics = must(start_metrics_server(kAnyPort, [&] {
    answered.wait();
    return std::string("m 1\n");
  }));
  const auto health = must(
      start_health_server(kAnyPort, {[] { return std::string(); }, [] { return std::string(); }})
  );
  std::vector<std::thread> readers;
  std::atomic<int> read = 0;
  for (int i = 0; i < kReaders; ++i) {
    readers.emplace_back([&] {
      if (ask(*metrics, "/metrics").body == "m 1\n") ++read;
    });
  }
  EXPECT_EQ(ask(*health, "/healthz").status, 200);
  EXPECT_EQ(ask(*health, "/readyz").status, 200);
  answered.count_down();
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(read, kReaders);
}

}  // namespace
}  // namespace gnn::app
