#include "worker/agent/pages.h"

#include "common/contract.h"

#include <gtest/gtest.h>

#include <atomic>
#include <httplib.h>
#include <string>

namespace gnn::agent {
namespace {

TEST(ServePages, AnswersWithMetricsProgressAndHealth) {
  std::atomic<bool> healthy = true;
  const auto server = serve_pages(
      "127.0.0.1:0",
      {.metrics = [] { return std::string("gnn_agent_ranks 2\n"); },
       .progress = [] { return std::string("{}"); },
       .healthy = [&healthy] { return healthy.load(); }}
  );
  ASSERT_TRUE(server) << server.error().message;
  httplib::Client client("127.0.0.1", (*server)->port());
  const auto metrics = client.Get(std::string(contract::kMetricsPath));
  ASSERT_TRUE(metrics);
  EXPECT_EQ(metrics->body, "gnn_agent_ranks 2\n");
  EXPECT_EQ(metrics->get_header_value("Content-Type"), "text/plain; version=0.0.4");
  const auto progress = client.Get(std::string(contract::kProgressPath));
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->body, "{}");
  EXPECT_EQ(client.Get(std::string(contract::kHealthPath))->status, 200);
  healthy = false;
  EXPECT_EQ(client.Get(std::string(contract::kHealthPath))->status, 503);
}

TEST(ServePages, NamesTheVariableOfAMalformedAddress) {
  const auto server = serve_pages("nowhere", {});
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().kind, ErrorKind::Configuration);
  EXPECT_NE(server.error().message.find(contract::kEnvHttpAddress), std::string::npos)
      << server.error().message;
}

}  // namespace
}  // namespace gnn::agent
