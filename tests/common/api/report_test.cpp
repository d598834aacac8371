#include "common/api/report.h"

#include "common/contract.h"
#include "common/printable.h"
#include "tests/support/schema.h"
#include "tests/support/source_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::api {
namespace {

using nlohmann::json;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

constexpr const char* kHead =
    R"({"contract": 1, "jobUid": "u", "attempt": 2, "round": 1, "node": 0)";

std::optional<ProgressReport> parse(const std::string& rest) {
  return decode_report(kHead + rest + "}");
}

// A report with every field that /progress and the termination message share.
ProgressReport shared_fields() {
  ProgressReport report;
  report.job = "arxiv";
  report.job_uid = "6f0c";
  report.attempt = 2;
  report.round = 1;
  report.node = 3;
  report.progress.epoch = 5;
  report.progress.epochs = 9;
  report.progress.global_step = 110;
  report.progress.loss = "1.0731";
  report.progress.metric_name = "hits@10";
  report.progress.train_metric = "1e-12";
  report.progress.validation_metric = "NaN";
  report.progress.test_metric = "-Inf";
  report.progress.test_model = "best";
  report.progress.best_epoch = 3;
  report.progress.best_metric = "0.75";
  report.progress.best_checkpoint = "/ckpt/a000001-r0000/step-000000000060.manifest";
  report.progress.checkpoint = "/ckpt/a000001-r0000/step-000000000110.manifest";
  return report;
}

ProgressReport full_page() {
  ProgressReport report = shared_fields();
  report.phase = "Train";
  report.doing = "reading edges";
  report.percent = 43;
  report.restarts_nodes = true;
  report.awaited_node = 2;
  report.progress.rate = "12.5";
  report.progress.eta_seconds = 60;
  return report;
}

ProgressReport full_result() {
  ProgressReport report = shared_fields();
  report.exit_code = contract::kExitOther;
  report.reason = contract::exit_reason(contract::kExitOther);
  report.rank = 7;
  report.parameters_hash = "9ae16a3b2f90404f";
  report.remote_bytes_per_step = "1.5e+09";
  report.cache_hit_rate = "0.875";
  report.expected_cache_hit_rate = "0.9";
  report.message = "edge 7 leaves the graph";
  report.stderr_tail = "last words";
  report.truncated = true;
  return report;
}

// One pair of codecs serves both ends, and docs/schemas say the same.
class ReportSchema : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] ProgressReport report() const {
    return std::string_view(GetParam()) == "progress" ? full_page() : full_result();
  }
};

TEST_P(ReportSchema, HoldsWhatIsWrittenAndAllOfItIsRead) {
  const gnn::testing::Schema schema(
      gnn::testing::source_dir() + "/docs/schemas/" + GetParam() + ".v1.json"
  );
  const std::string text = encode(report(), contract::kMaxResultBytes);
  EXPECT_THAT(schema.problems(text), IsEmpty()) << text;
  std::vector<std::string> keys;
  const json document = json::parse(text);
  for (const auto& [key, value] : document.items()) keys.push_back(key);
  EXPECT_THAT(keys, UnorderedElementsAreArray(schema.properties()));
  EXPECT_EQ(decode_report(text), report()) << text;
}

INSTANTIATE_TEST_SUITE_P(Both, ReportSchema, ::testing::Values("progress", "result"));

TEST(Report, LeavesOutWhatIsNotKnown) {
  ProgressReport report;
  report.job_uid = "6f0c";
  report.phase = "Rendezvous";
  const auto object = json::parse(encode(report, contract::kMaxProgressBytes));
  EXPECT_EQ(object.size(), 7U) << object;
  EXPECT_EQ(object.at("phase"), "Rendezvous");
}

TEST(Report, KeepsTheStartOfAMessageAndTheEndOfStderrWhereTheyDoNotFit) {
  ProgressReport report = full_result();
  report.truncated = false;
  report.message = "why" + std::string(2000, 'm');
  report.stderr_tail = std::string(5000, 's') + "last words";
  const std::string text = encode(report, contract::kMaxResultBytes);
  EXPECT_LE(text.size(), static_cast<size_t>(contract::kMaxResultBytes));
  const auto object = json::parse(text);
  EXPECT_TRUE(object.at("truncated").get<bool>());
  EXPECT_EQ(object.at("message"), report.message);
  EXPECT_TRUE(object.at("stderrTail").get<std::string>().ends_with("last words"));
}

TEST(Report, WritesDecimalsAsTheSchemasHaveThem) {
  EXPECT_EQ(encode_decimal(1.0731), "1.0731");
  EXPECT_EQ(encode_decimal(123456789), "1.23457e+08");
  EXPECT_EQ(encode_decimal(std::nan("")), "NaN");
  EXPECT_EQ(encode_decimal(std::numeric_limits<double>::infinity()), "Inf");
  EXPECT_EQ(encode_decimal(-std::numeric_limits<double>::infinity()), "-Inf");
}

TEST(Report, ReadsAResult) {
  const auto report = parse(
      R"(, "reason": "Error", "rank": 3, "message": "boom", "stderrTail": "last\nwords", "epoch": 5,
         "loss": "1.07", "metricName": "auc", "testMetric": "0.69", "checkpoint": "/ckpt/5")"
  );
  ASSERT_TRUE(report);
  EXPECT_EQ(report->attempt, 2);
  EXPECT_EQ(report->rank, 3);
  EXPECT_EQ(report->message, "boom");
  EXPECT_EQ(report->stderr_tail, "last words");
  EXPECT_EQ(report->progress.epoch, 5);
  EXPECT_EQ(report->progress.metric_name, "auc");
  EXPECT_EQ(report->progress.test_metric, "0.69");
  EXPECT_EQ(report->progress.checkpoint, "/ckpt/5");
}

TEST(Report, OfAnOlderWorkerDoesNotNameItsMetric) {
  const auto report = parse(R"(, "testMetric": "0.69")");
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->progress.metric_name);
  EXPECT_EQ(report->progress.test_metric, "0.69");
}

TEST(Report, RejectsWhatIsNoReport) {
  for (const std::string& text : {
           std::string(),
           std::string("Segmentation fault"),
           std::string("[]"),
           std::string("{}"),
           std::string("null"),
           std::string(100000, '['),
           std::string(200000, ' '),
           std::string("\0\xff\xfe", 3),
           std::string(R"({"contract": 2, "jobUid": "u", "attempt": 2, "round": 1, "node": 0})"),
           std::string(R"({"contract": 1, "jobUid": 7, "attempt": 2, "round": 1, "node": 0})"),
           std::string(R"({"contract": 1, "jobUid": "u", "attempt": -2, "round": 1, "node": 0})"),
           std::string(R"({"contract": 1, "jobUid": "u", "attempt": 1e300, "round": 1, "node": 0})"
           ),
           std::string(R"({"contract": 1, "jobUid": "u", "attempt": 1, "node": 0})"),
       }) {
    EXPECT_FALSE(decode_report(text)) << text.substr(0, 80);
  }
}

TEST(Report, IgnoresInvalidFields) {
  const auto report = parse(
      R"(, "epoch": -1, "globalStep": 18446744073709551615, "loss": "1; rm -rf", "rate": 5, "metricName": 7,
         "trainMetric": "0.1234567890123456789012345678901234567890", "validationMetric": "NaN",
         "testMetric": "-Inf", "checkpoint": 3, "rank": "x")"
  );
  ASSERT_TRUE(report);
  const JobProgress& progress = report->progress;
  EXPECT_FALSE(progress.epoch);
  EXPECT_FALSE(progress.global_step);
  EXPECT_FALSE(progress.loss);
  EXPECT_FALSE(progress.rate);
  EXPECT_FALSE(progress.metric_name);
  EXPECT_FALSE(progress.train_metric);
  EXPECT_EQ(progress.validation_metric, "NaN");
  EXPECT_EQ(progress.test_metric, "-Inf");
  EXPECT_FALSE(progress.checkpoint);
  EXPECT_FALSE(report->rank);
}

// Valid UTF-8 without control characters, as everything that leaves this module must be.
bool is_clean(std::string_view text) {
  return printable_line(text, text.size() + 8) == text &&
         std::none_of(text.begin(), text.end(), [](char c) {
           return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
         });
}

// Mutates a good report with a fixed seed: bytes changed, cut, doubled and moved. Whatever is parsed
// is short and clean, and the same text gives the same report.
TEST(Report, SurvivesMutatedMessages) {
  const std::string good =
      std::string(kHead) +
      R"(, "reason": "Error", "rank": 3, "message": "b\u00f6om \u202e", "epoch": 5, "epochs": 9,
         "globalStep": 110, "loss": "1.07", "metricName": "auc", "trainMetric": "0.5e-3", "validationMetric": "NaN",
         "testMetric": "-Inf", "rate": "12.5", "etaSeconds": 60, "checkpoint": "/ckpt/5"})";
  std::mt19937_64 random(11);
  int read = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good;
    for (uint64_t edits = random() % 5; edits > 0 && !text.empty(); --edits) {
      const size_t at = random() % text.size();
      switch (random() % 5) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 20);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
          break;
        case 3:
          text.insert(at, std::to_string(random()));
          break;
        default:
          text.insert(at, std::string(random() % 100, "[{\"0\\"[random() % 5]));
          break;
      }
    }
    const auto report = decode_report(text);
    ASSERT_EQ(report, decode_report(text));
    const std::string shown = printable_line(text, 1024);
    ASSERT_LE(shown.size(), 1024U);
    ASSERT_TRUE(is_clean(shown)) << shown;
    if (!report) continue;
    ++read;
    ASSERT_GE(report->attempt, 0);
    ASSERT_GE(report->round, 0);
    ASSERT_GE(report->node, 0);
    for (const std::string& each :
         {report->job_uid,
          report->message,
          report->progress.loss.value_or(""),
          report->progress.checkpoint.value_or("")}) {
      ASSERT_LE(each.size(), 1024U);
      ASSERT_TRUE(is_clean(each)) << each;
    }
  }
  EXPECT_GT(read, 1000) << "too few mutations left a valid report";
}

}  // namespace
}  // namespace gnn::api
