#include "common/log.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

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
