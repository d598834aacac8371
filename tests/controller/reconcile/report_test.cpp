#include "controller/reconcile/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>

namespace gnn::reconcile {
namespace {

constexpr const char* kHead =
    R"({"contract": 1, "jobUid": "u", "attempt": 2, "round": 1, "node": 0)";

std::optional<Report> parse(const std::string& rest) {
  return parse_report(kHead + rest + "}");
}

TEST(Report, ReadsAResult) {
  const auto report = parse(
      R"(, "reason": "Error", "rank": 3, "message": "boom", "epoch": 5, "loss": "1.07",
         "testMetric": "0.69", "checkpoint": "/ckpt/5")"
  );
  ASSERT_TRUE(report);
  EXPECT_EQ(report->attempt, 2);
  EXPECT_EQ(report->rank, 3);
  EXPECT_EQ(report->message, "boom");
  EXPECT_EQ(report->progress.epoch, 5);
  EXPECT_EQ(report->progress.test_metric, "0.69");
  EXPECT_EQ(report->progress.checkpoint, "/ckpt/5");
}

TEST(Report, WhatIsNoReportIsNothing) {
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
    EXPECT_FALSE(parse_report(text)) << text.substr(0, 80);
  }
}

TEST(Report, AFieldThatDoesNotFitIsAsIfItWereNotThere) {
  const auto report = parse(
      R"(, "epoch": -1, "step": 18446744073709551615, "loss": "1; rm -rf", "rate": 5,
         "trainMetric": "0.1234567890123456789012345678901234567890", "validationMetric": "NaN",
         "testMetric": "-Inf", "checkpoint": 3, "rank": "x")"
  );
  ASSERT_TRUE(report);
  const api::JobProgress& progress = report->progress;
  EXPECT_FALSE(progress.epoch);
  EXPECT_FALSE(progress.step);
  EXPECT_FALSE(progress.loss);
  EXPECT_FALSE(progress.rate);
  EXPECT_FALSE(progress.train_metric);
  EXPECT_EQ(progress.validation_metric, "NaN");
  EXPECT_EQ(progress.test_metric, "-Inf");
  EXPECT_FALSE(progress.checkpoint);
  EXPECT_FALSE(report->rank);
}

TEST(Printable, KeepsTextAndDropsTricks) {
  EXPECT_EQ(printable("two words, Größe 5 µs – ok…", 100), "two words, Größe 5 µs – ok…");
  EXPECT_EQ(printable("a\n\tb\x1b[31mred", 100), "a b [31mred");
  EXPECT_EQ(printable("a\xff\xfe\x80z", 100), "a z");
  EXPECT_EQ(printable("right\u202Eleft\u200B\u2028end", 100), "right left end");
  EXPECT_EQ(printable("\xC0\x80\xED\xA0\x80\xF5\x80\x80\x80", 100), "");
  EXPECT_EQ(printable("ends in half \xE2\x82", 100), "ends in half");
}

TEST(Printable, CutsAtACharacterAndSaysSo) {
  EXPECT_EQ(printable("abcdefgh", 8), "abcdefgh");
  EXPECT_EQ(printable("abcdefghi", 8), "abcde…");
  EXPECT_EQ(printable("ääääää", 8), "ää…");
  EXPECT_LE(printable(std::string(100000, 'x'), 1024).size(), 1024U);
  EXPECT_EQ(printable("abc", 2), "");
}

/// Valid UTF-8 without control characters, as everything that leaves this module must be.
bool is_clean(std::string_view text) {
  return printable(text, text.size() + 8) == text &&
         std::none_of(text.begin(), text.end(), [](char c) {
           return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
         });
}

// A fixed walk through mutations of a good report: bytes changed, cut, doubled and moved. Whatever
// comes out is short and clean, and the same text gives the same report.
TEST(Report, SurvivesMutatedMessages) {
  const std::string good =
      std::string(kHead) +
      R"(, "reason": "Error", "rank": 3, "message": "b\u00f6om \u202e", "epoch": 5, "epochs": 9,
         "step": 110, "loss": "1.07", "trainMetric": "0.5e-3", "validationMetric": "NaN",
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
    const auto report = parse_report(text);
    ASSERT_EQ(report, parse_report(text));
    const std::string shown = printable(text, 1024);
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
  EXPECT_GT(read, 1000) << "too few mutations left a report to look at";
}

}  // namespace
}  // namespace gnn::reconcile
