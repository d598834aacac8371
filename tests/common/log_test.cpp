#include "common/log.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>

namespace gnn {
namespace {

TEST(Log, JsonLineKeepsTypesAndEscapes) {
  const std::string line = format_log_line(
      LogFormat::Json,
      LogLevel::Info,
      "2026-01-01T00:00:00.000Z",
      "pod \"x\"\nfailed",
      {{"job", "ns/a"}, {"attempt", 3}, {"loss", 0.5}, {"final", true}}
  );
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json.at("message"), "pod \"x\"\nfailed");
  EXPECT_EQ(json.at("level"), "info");
  EXPECT_EQ(json.at("attempt"), 3);
  EXPECT_EQ(json.at("loss"), 0.5);
  EXPECT_EQ(json.at("final"), true);
}

TEST(Log, InvalidUtf8BecomesAReplacementCharacter) {
  const std::string line =
      format_log_line(LogFormat::Json, LogLevel::Error, "t", "bad \xff byte", {});
  EXPECT_EQ(nlohmann::json::parse(line).at("message"), "bad \xEF\xBF\xBD byte");
}

TEST(Log, ConsoleLineQuotesTextValues) {
  EXPECT_EQ(
      format_log_line(
          LogFormat::Console, LogLevel::Warning, "t", "slow", {{"rank", 1}, {"why", "a b"}}
      ),
      "t warning slow rank=1 why=\"a b\""
  );
}

TEST(Log, ConsoleLineStaysOneLine) {
  EXPECT_EQ(
      format_log_line(
          LogFormat::Console,
          LogLevel::Error,
          "t",
          "bad\nt error forged\r\t\x1b[31m\x7f\xC2\x9B\\ \xC3\xA4",
          {{"error", "\n\x7f\xC2\x9B\xC3\xA4"}}
      ),
      "t error   bad\\nt error forged\\x0d\\t\\x1b[31m\\x7f\\x9b\\ \xC3\xA4 "
      "error=\"\\n\\x7f\\x9b\xC3\xA4\""
  );
}

// The process's log, put back after the test.
class ProcessLog : public ::testing::Test {
 protected:
  ProcessLog() { ::testing::internal::CaptureStderr(); }
  ~ProcessLog() override {
    init_logging({.format = LogFormat::Console, .level = LogLevel::Warning});
  }

  static std::string written() { return ::testing::internal::GetCapturedStderr(); }
};

TEST_F(ProcessLog, WritesWarningsAndErrorsForPeopleUntilItIsSetUp) {
  EXPECT_FALSE(log_enabled(LogLevel::Info));
  log_info("quiet");
  log_warning("slow", {{"rank", 1}});
  log_error("broken");
  const std::string text = written();
  EXPECT_EQ(text.find("quiet"), std::string::npos) << text;
  EXPECT_NE(text.find("Z warning slow rank=1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("Z error   broken\n"), std::string::npos) << text;
}

TEST_F(ProcessLog, WritesALineOfTheChosenFormFromTheChosenLevelOn) {
  init_logging({.format = LogFormat::Json, .level = LogLevel::Info});
  EXPECT_FALSE(log_enabled(LogLevel::Debug));
  EXPECT_TRUE(log_enabled(LogLevel::Info));
  EXPECT_TRUE(log_enabled(LogLevel::Error));
  log_debug("quiet");
  log_info("started", {{"attempt", 3}});
  const std::string text = written();
  ASSERT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json.at("message"), "started");
  EXPECT_EQ(json.at("level"), "info");
  EXPECT_EQ(json.at("attempt"), 3);
  EXPECT_TRUE(json.contains("time"));
}

TEST_F(ProcessLog, GoesToTheScopedOutputForItsLifetime) {
  std::string taken;
  {
    const ScopedLogOutput output([&](std::string_view line) { taken += line; });
    log_warning("one");
  }
  log_warning("two");
  EXPECT_NE(taken.find("warning one"), std::string::npos) << taken;
  EXPECT_EQ(taken.find('\n'), std::string::npos) << taken;
  const std::string text = written();
  EXPECT_EQ(text.find("one"), std::string::npos) << text;
  EXPECT_NE(text.find("warning two"), std::string::npos) << text;
}

TEST(Log, ParsesNamesAndNamesWhatItExpected) {
  EXPECT_EQ(*parse_log_format("json"), LogFormat::Json);
  EXPECT_EQ(*parse_log_level("debug"), LogLevel::Debug);
  EXPECT_EQ(
      parse_log_level("loud").error().message,
      "log level: expected debug, info, warning or error, found 'loud'"
  );
  EXPECT_FALSE(parse_log_format("xml").has_value());
}

}  // namespace
}  // namespace gnn
