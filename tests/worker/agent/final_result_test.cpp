#include "worker/agent/final_result.h"

#include "common/contract.h"
#include "tests/support/schema.h"
#include "tests/support/source_dir.h"
#include "tests/worker/agent/sample_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace gnn::agent {
namespace {

using nlohmann::json;
using testing::all_numbers;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Keys;
using testing::options;
using ::testing::UnorderedElementsAreArray;

const std::string kResultSchema = gnn::testing::source_dir() + "/docs/schemas/result.v1.json";

NodeResult failed() {
  NodeResult result{
      .round = 1, .exit_code = contract::kExitOther, .message = "rank 3 was killed by signal 9"
  };
  result.failure = Failure{.node = 1, .rank = 3, .exit_code = 70, .reason = "Error"};
  result.failure->message = "rank 3 was killed by signal 9";
  result.failure->stderr_tail = "last words";
  return result;
}

// docs/schemas are what others build workers and readers against, so ours must write just that.
TEST(Result, IsADocumentOfItsSchemaAndUsesAllOfIt) {
  const gnn::testing::Schema schema(kResultSchema);
  Keys keys;
  const auto expect_document = [&](const AgentOptions& of, const NodeResult& result) {
    const auto text = encode_result(of, result, contract::kMaxResultBytes);
    EXPECT_THAT(schema.problems(text), IsEmpty()) << text;
    keys.add(text);
  };
  for (const int code :
       {contract::kExitDone,
        contract::kExitConfiguration,
        contract::kExitData,
        contract::kExitOther,
        contract::kExitPeerLost,
        contract::kExitPreempted,
        contract::kExitOutOfMemory}) {
    auto result = failed();
    result.exit_code = code;
    expect_document(options(), result);
    result.numbers = all_numbers();
    expect_document(options(), result);
    result.failure.reset();
    expect_document(options(), result);
  }
  auto long_one = failed();
  long_one.numbers = all_numbers();
  long_one.numbers.checkpoint = std::string(5000, 'c');
  long_one.failure->stderr_tail = std::string(50'000, 'x');
  auto long_names = options();
  long_names.job = std::string(300, 'j');
  long_names.job_uid = std::string(300, 'u');
  expect_document(long_names, long_one);
  EXPECT_THAT(keys.seen(), UnorderedElementsAreArray(schema.properties()));
}

// Tests against a schema can see a fault only if their checker does.
TEST(Schema, NamesEachRuleThatADocumentBreaks) {
  const gnn::testing::Schema schema(kResultSchema);
  const json good = json::parse(encode_result(options(), failed(), contract::kMaxResultBytes));
  struct Case {
    const char* key;
    json value;
    const char* rule;
  };
  for (const auto& [key, value, rule] : std::vector<Case>{
           {"pods", 1, "additionalProperties"},
           {"contract", 2, "const"},
           {"reason", "Tired", "enum"},
           {"node", "1", "type"},
           {"epoch", 1.5, "type"},
           {"message", 7, "type"},
           {"truncated", "yes", "type"},
           {"round", -1, "minimum"},
           {"exitCode", 256, "maximum"},
           {"job", std::string(41, 'j'), "maxLength"},
           {"loss", "1,5", "pattern"},
           {"loss", 1.5, "type"},
           {"parametersHash", "9ae1", "pattern"},
       }) {
    json bad = good;
    bad[key] = value;
    EXPECT_THAT(schema.problems(bad.dump()), ElementsAre(HasSubstr(rule))) << key;
  }
  json without = good;
  without.erase("jobUid");
  EXPECT_THAT(schema.problems(without.dump()), ElementsAre(HasSubstr("required")));
  EXPECT_THAT(schema.problems("[]"), ::testing::Contains(HasSubstr("type")));
  EXPECT_THAT(schema.problems("{"), ElementsAre(HasSubstr("no JSON")));
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
  EXPECT_EQ(j.at("message"), "rank 3 was killed by signal 9");
  EXPECT_EQ(j.at("stderrTail"), "last words");
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

}  // namespace
}  // namespace gnn::agent
