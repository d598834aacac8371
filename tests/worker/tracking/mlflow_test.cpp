#include "worker/tracking/mlflow.h"

#include "tests/support/must.h"
#include "tests/support/scripted_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <chrono>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gnn::tracking {
namespace {

using gnn::testing::http_answer;
using gnn::testing::ScriptedRequest;
using gnn::testing::ScriptedServer;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using namespace std::chrono_literals;

constexpr TimePoint kEpochEnd{1'700'000'000s};

MonotonicPoint soon(Duration left = 10s) {
  return MonotonicPoint(std::chrono::steady_clock::now()) + left;
}

Mlflow client_of(const ScriptedServer& server, std::map<std::string, std::string> parameters = {}) {
  return {
      {.host = "127.0.0.1", .port = server.port()},
      "paper & pencil",
      {.job = "arxiv", .job_uid = "6f0c'", .parameters = std::move(parameters)}
  };
}

// A server with what it was asked: "runs/create", and the body.
class FakeMlflow {
 public:
  using Calls = std::vector<std::pair<std::string, json>>;

  // Answers are given in order, to each target its own; the last one again and again.
  void answer(const std::string& target, std::string bytes) {
    answers_[target].push_back(std::move(bytes));
  }
  [[nodiscard]] const ScriptedServer& server() const { return server_; }
  // Once the client has its answers.
  [[nodiscard]] std::vector<std::string> targets() const {
    std::vector<std::string> targets;
    for (const auto& [target, body] : calls_) targets.push_back(target);
    return targets;
  }
  [[nodiscard]] const Calls& calls() const { return calls_; }

 private:
  std::string reply(const ScriptedRequest& request) {
    constexpr std::string_view kFront = "/api/2.0/mlflow/";
    const size_t at = request.line.find(kFront) + kFront.size();
    const std::string target = request.line.substr(at, request.line.rfind(' ') - at);
    calls_.emplace_back(target, json::parse(request.body, nullptr, false));
    auto& answers = answers_[target];
    if (answers.empty()) return http_answer("200 OK", "{}");
    std::string bytes = answers.front();
    if (answers.size() > 1) answers.erase(answers.begin());
    return bytes;
  }

  std::map<std::string, std::vector<std::string>> answers_;
  Calls calls_;
  ScriptedServer server_{[this](const ScriptedRequest& request) { return reply(request); }};
};

constexpr const char* kByName = "experiments/get-by-name?experiment_name=paper%20%26%20pencil";

std::string missing() {
  return http_answer("404 Not Found", R"({"error_code": "RESOURCE_DOES_NOT_EXIST"})");
}

Record epoch_of(int64_t step, size_t scalars) {
  Record record{.step = step, .time = kEpochEnd};
  for (size_t i = 0; i < scalars; ++i) record.scalars.push_back({"hits@" + std::to_string(i), 0.5});
  return record;
}

TEST(Mlflow, MakesARunThatLaterAttemptsGoOnWith) {
  FakeMlflow fake;
  fake.answer(kByName, missing());
  fake.answer(kByName, http_answer("200 OK", R"({"experiment": {"experiment_id": "7"}})"));
  fake.answer(
      "experiments/create",
      http_answer("400 Bad Request", R"({"error_code": "RESOURCE_ALREADY_EXISTS"})")
  );
  fake.answer("runs/create", http_answer("200 OK", R"({"run": {"info": {"run_id": "r1"}}})"));
  std::map<std::string, std::string> parameters;
  for (int i = 0; i < 101; ++i) parameters["p" + std::to_string(i)] = "v";
  Mlflow first = client_of(fake.server(), parameters);
  Record record = epoch_of(30, 1500);
  record.scalars[0].value = std::numeric_limits<double>::quiet_NaN();
  gnn::testing::must(first.write(std::array{record}, soon()));
  gnn::testing::must(first.close(RunEnd::Stopped, soon()));
  ASSERT_THAT(
      fake.targets(),
      ElementsAre(
          kByName,
          "experiments/create",
          kByName,
          "runs/search",
          "runs/create",
          "runs/update",
          "runs/log-batch",
          "runs/log-batch",
          "runs/log-batch",
          "runs/log-batch",
          "runs/update"
      )
  );
  const FakeMlflow::Calls& calls = fake.calls();
  EXPECT_EQ(calls[3].second.at("filter"), "tags.`gnn.dev/job-uid` = '6f0c_'");
  EXPECT_EQ(calls[4].second.at("run_name"), "arxiv");
  EXPECT_EQ(calls[5].second.at("status"), "RUNNING");
  EXPECT_THAT(calls[6].second.at("params"), SizeIs(100));
  EXPECT_THAT(calls[7].second.at("params"), SizeIs(1));
  EXPECT_THAT(calls[8].second.at("metrics"), SizeIs(1000));
  EXPECT_THAT(calls[9].second.at("metrics"), SizeIs(499)) << "without what is not a number";
  const json metric{
      {"key", "hits_1"}, {"value", 0.5}, {"timestamp", 1'700'000'000'000}, {"step", 30}
  };
  EXPECT_EQ(calls[8].second.at("metrics").at(0), metric);
  EXPECT_EQ(calls[10].second.at("status"), "KILLED");

  fake.answer("runs/search", http_answer("200 OK", R"({"runs": [{"info": {"run_id": "r1"}}]})"));
  const size_t before = calls.size();
  Mlflow second = client_of(fake.server());
  gnn::testing::must(second.write(std::array{epoch_of(40, 1)}, soon()));
  gnn::testing::must(second.close(RunEnd::Done, soon()));
  EXPECT_EQ(calls[before + 3].first, "runs/log-batch") << "no other run was made";
  EXPECT_EQ(calls[before + 3].second.at("run_id"), "r1");
  EXPECT_EQ(calls.back().second.at("status"), "FINISHED");
}

TEST(Mlflow, TellsFaultsThatMayPassFromOthers) {
  const auto status_after = [](const std::string& answer, Duration left) {
    FakeMlflow fake;
    fake.answer(kByName, answer);
    Mlflow client = client_of(fake.server());
    return client.write(std::array{epoch_of(1, 1)}, soon(left));
  };
  const auto error_after = [&](const std::string& answer) {
    return status_after(answer, 10s).error();
  };
  EXPECT_EQ(status_after("", 50ms).error().kind, ErrorKind::Timeout) << "a silent server";
  EXPECT_EQ(error_after(http_answer("500 Oops", "")).kind, ErrorKind::Network);
  EXPECT_EQ(error_after(http_answer("429 Slow Down", "")).kind, ErrorKind::Network);
  const std::string redirect = "302 Found\r\nLocation: http://169.254.169.254/";
  EXPECT_THAT(error_after(http_answer(redirect, "")).message, HasSubstr("status 302"));
  const std::string longest = std::string(300'000, ' ');
  EXPECT_THAT(error_after(http_answer("200 OK", longest)).message, HasSubstr("262144 bytes"));
  for (const std::string& answer :
       {http_answer(redirect, ""),
        http_answer("403 Forbidden", "no\x1b[2J"),
        http_answer("200 OK", "[[[[{\"experiment"),
        http_answer("200 OK", longest),
        std::string("SSH-2.0-OpenSSH_9.2\r\n\r\n")}) {
    const Error error = error_after(answer);
    EXPECT_EQ(error.kind, ErrorKind::Data) << error.message;
    EXPECT_THAT(error.message, HasSubstr("xperiment"));
    EXPECT_EQ(error.message.find('\x1b'), std::string::npos);
    EXPECT_LT(error.message.size(), 400U);
  }
}

}  // namespace
}  // namespace gnn::tracking
