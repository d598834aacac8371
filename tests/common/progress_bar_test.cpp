#include "common/progress_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <string>

namespace gnn {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

std::chrono::steady_clock::time_point now{};
std::chrono::steady_clock::time_point fake_now() {
  return now;
}

class Progressing : public ::testing::Test {
 protected:
  void SetUp() override { now = {}; }
  ~Progressing() override { std::fclose(stream_); }

  std::string written() {
    std::fflush(stream_);
    std::rewind(stream_);
    std::string text;
    for (int character = std::fgetc(stream_); character != EOF; character = std::fgetc(stream_)) {
      text += static_cast<char>(character);
    }
    return text;
  }
  StreamProgressBar make(bool terminal) {
    return StreamProgressBar(stream_, {.terminal = terminal, .columns = 60}, &fake_now);
  }
  std::FILE* stream_ = std::tmpfile();
};

TEST_F(Progressing, WritesPlainLinesWhereThereIsNoTerminal) {
  StreamProgressBar progress = make(false);
  progress.begin("reading", 200, "rows");
  now += 2s;
  progress.advance_to(50, {});  // within the interval: nothing
  EXPECT_EQ(written(), "");
  now += 9s;
  progress.advance_to(110, "loss 0.5");
  EXPECT_EQ(written(), "reading  55% 110/200 rows, 10/s, 0:09 left  loss 0.5\n");
  now += 9s;
  progress.advance_to(200, {});
  progress.end();
  EXPECT_THAT(written(), HasSubstr("\nreading 100% 200/200 rows, 10/s, 20.0 s  loss 0.5\n"));
  EXPECT_THAT(written(), Not(HasSubstr("\r")));
}

TEST_F(Progressing, RedrawsABarOnATerminalThatNeverWraps) {
  StreamProgressBar progress = make(true);
  progress.begin("reading", 1000, "rows");
  now += 1s;
  progress.advance_to(500, std::string(200, 'x'));
  const std::string bar = written();
  EXPECT_THAT(bar, HasSubstr("\r\x1b[Kreading [############............]  50% 500/1 k rows"));
  EXPECT_THAT(bar, Not(HasSubstr("\n")));
  EXPECT_LE(bar.size() - bar.rfind("\x1b[K") - 3, 59U);
  progress.say("a line");
  EXPECT_THAT(written(), HasSubstr("\r\x1b[Ka line\n"));
  progress.end();
  EXPECT_TRUE(written().ends_with("\n"));
}

TEST_F(Progressing, DrawsAtMostOnceAnInterval) {
  StreamProgressBar progress = make(true);
  progress.begin("counting", 0, "edges");
  const size_t before = written().size();
  for (int i = 0; i < 1000; ++i) {
    progress.advance_to(i, {});
  }
  EXPECT_EQ(written().size(), before);
  now += 100ms;
  progress.advance_to(1000, {});
  EXPECT_GT(written().size(), before);
}

TEST(ShortTexts, AreShort) {
  EXPECT_EQ(short_count(0), "0");
  EXPECT_EQ(short_count(0.25), "0.25");
  EXPECT_EQ(short_count(999), "999");
  EXPECT_EQ(short_count(1234), "1.23 k");
  EXPECT_EQ(short_count(123'718'280), "124 M");
  EXPECT_EQ(short_duration(75s), "1:15");
  EXPECT_EQ(short_duration(3700s), "1:01:40");
}

}  // namespace
}  // namespace gnn
