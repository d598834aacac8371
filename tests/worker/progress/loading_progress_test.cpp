#include "worker/progress/loading_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gnn::progress {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::chrono::steady_clock::time_point now;

class RecordingSink final : public ProgressSink {
 public:
  void on_phase(Phase) override {}
  void on_mark() override { ++marks; }
  void on_step(const StepReport&) override {}
  void on_epoch(const EpochReport&) override {}
  void on_final(const FinalReport&) override {}
  void on_checkpoint(const CheckpointReport&) override {}
  void on_message(const std::string& message) override { messages.push_back(message); }

  int marks = 0;
  std::vector<std::string> messages;
};

// Keeps the names of its calls.
class RecordingBar final : public ProgressBar {
 public:
  void begin(std::string_view label, int64_t, std::string_view) override {
    calls.emplace_back(label);
  }
  void advance_to(int64_t done, std::string_view) override {
    calls.push_back(std::to_string(done));
  }
  void end() override { calls.emplace_back("end"); }
  void say(std::string_view line) override { calls.emplace_back(line); }

  std::vector<std::string> calls;
};

void load(ProgressBar& progress) {
  progress.begin("reading edges", 4'000'000, "bytes");
  for (const int64_t done : {1'000'000, 2'000'000, 3'000'000}) {
    now += std::chrono::seconds(6);
    progress.advance_to(done);
  }
  progress.say("skipped a line");
  progress.end();
}

TEST(LoadingProgress, MarksEveryCall) {
  RecordingSink sink;
  LoadingProgress progress(sink, nullptr, [] { return now; });
  load(progress);
  EXPECT_EQ(sink.marks, 6);
}

TEST(LoadingProgress, SaysEveryTenSecondsHowFarItIsWhereThereIsNoBar) {
  RecordingSink sink;
  LoadingProgress progress(sink, nullptr, [] { return now; });
  load(progress);
  EXPECT_THAT(sink.messages, ElementsAre("reading edges: 2 M of 4 M bytes", "skipped a line"));
}

TEST(LoadingProgress, LeavesTheWordsToTheBarWhereThereIsOne) {
  RecordingSink sink;
  RecordingBar bar;
  LoadingProgress progress(sink, &bar, [] { return now; });
  load(progress);
  EXPECT_THAT(
      bar.calls,
      ElementsAre("reading edges", "1000000", "2000000", "3000000", "skipped a line", "end")
  );
  EXPECT_THAT(sink.messages, IsEmpty());
}

}  // namespace
}  // namespace gnn::progress
