#include "controller/reconcile/report.h"

#include <gtest/gtest.h>

#include <string>

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
  EXPECT_EQ(report->reason, "Error");
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
         "testMetric": "-Inf", "reason": "Sabotage", "checkpoint": 3, "rank": "x")"
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
  EXPECT_EQ(report->reason, "");
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

}  // namespace
}  // namespace gnn::reconcile
