#include "worker/agent/result.h"

#include "common/contract.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace gnn::agent {
namespace {

using nlohmann::json;

AgentOptions options() {
  AgentOptions result;
  result.job = "arxiv";
  result.job_uid = "6f0c";
  result.attempt = 2;
  result.node = 1;
  return result;
}

NodeResult failed() {
  NodeResult result{
      .round = 1, .exit_code = contract::kExitOther, .message = "rank 3 was killed by signal 9"
  };
  result.failure = Failure{.node = 1, .rank = 3, .exit_code = 70, .reason = "Error"};
  result.failure->message = "rank 3 was killed by signal 9";
  result.failure->stderr_tail = "last words";
  return result;
}

TEST(Result, SaysWhoFailedAndWhy) {
  const auto j = json::parse(encode_result(options(), failed(), contract::kMaxResultBytes));
  EXPECT_EQ(j.at("contract"), 1);
  EXPECT_EQ(j.at("jobUid"), "6f0c");
  EXPECT_EQ(j.at("attempt"), 2);
  EXPECT_EQ(j.at("round"), 1);
  EXPECT_EQ(j.at("exitCode"), 70);
  EXPECT_EQ(j.at("reason"), "Error");
  EXPECT_EQ(j.at("rank"), 3);
  EXPECT_NE(j.at("message").get<std::string>().find("last words"), std::string::npos);
  EXPECT_FALSE(j.contains("truncated"));
}

TEST(Result, ADoneNodeShowsItsNumbers) {
  NodeResult result;
  result.numbers.epoch = 5;
  result.numbers.loss = 0.5;
  result.numbers.test_metric = std::nan("");
  result.numbers.parameters_hash = "9ae16a3b2f90404f";
  const auto j = json::parse(encode_result(options(), result, contract::kMaxResultBytes));
  EXPECT_EQ(j.at("reason"), "Done");
  EXPECT_EQ(j.at("loss"), "0.5");
  EXPECT_EQ(j.at("testMetric"), "NaN");
  EXPECT_EQ(j.at("parametersHash"), "9ae16a3b2f90404f");
  EXPECT_FALSE(j.contains("message"));
}

TEST(Result, FitsWhateverTheRankWrote) {
  for (const char byte : {'x', '"', '\n', '\x01', '\xff'}) {
    auto result = failed();
    result.failure->stderr_tail = std::string(50'000, byte);
    const auto text = encode_result(options(), result, contract::kMaxResultBytes);
    EXPECT_LE(text.size(), static_cast<size_t>(contract::kMaxResultBytes));
    const auto j = json::parse(text);
    EXPECT_TRUE(j.at("truncated").get<bool>());
    EXPECT_EQ(j.at("rank"), 3);
  }
}

TEST(Progress, HoldsOnlyWhatIsKnown) {
  const auto early = json::parse(encode_progress(options(), 0, "Rendezvous", {}, 0));
  EXPECT_EQ(early.at("phase"), "Rendezvous");
  EXPECT_FALSE(early.contains("loss"));
  JobNumbers numbers;
  numbers.epoch = 2;
  numbers.loss = 1.25;
  numbers.eta_seconds = 60;
  const auto later = json::parse(encode_progress(options(), 1, "Train", numbers, 1000));
  EXPECT_EQ(later.at("loss"), "1.25");
  EXPECT_EQ(later.at("rate"), "1000");
  EXPECT_EQ(later.at("etaSeconds"), 60);
}

}  // namespace
}  // namespace gnn::agent
