#include "worker/progress/console_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace gnn::progress {
namespace {

using ::testing::HasSubstr;

EpochReport third_epoch() {
  EpochReport report;
  report.epoch = 2;
  report.epochs = 5;
  report.steps = 89;
  report.average_loss = 1.23456;
  report.train = accuracy(70, 100);
  report.validation = accuracy(1, 3);
  report.seconds = 4.5;
  return report;
}

// What a sink wrote to its stream.
std::string output_of(const ConsoleOptions& options, const std::function<void(ConsoleSink&)>& use) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* stream = open_memstream(&text, &size);
  {
    ConsoleSink sink(stream, nullptr, options);
    use(sink);
  }
  std::fclose(stream);
  std::string written(text, size);
  std::free(text);
  return written;
}

TEST(EpochLine, LooksLikeTheTutorials) {
  EXPECT_EQ(
      epoch_line(third_epoch()), "Epoch 00002 | Average Loss 1.2346 | Accuracy 0.3333 | Time 4.5000"
  );
}

TEST(EpochLine, ShowsTheTrainingAccuracyWithoutAValidation) {
  EpochReport report = third_epoch();
  report.validation.reset();
  EXPECT_THAT(epoch_line(report), HasSubstr("Accuracy 0.7000"));
}

TEST(EpochLine, NamesThePartsWithTheTrainingSetAmongThem) {
  EpochReport report = third_epoch();
  report.train_set = accuracy(9, 10);
  EXPECT_THAT(epoch_line(report), HasSubstr(" | Train 0.9000 | Validation 0.3333 | Time "));
  report.test = accuracy(1, 2);
  EXPECT_THAT(
      epoch_line(report), HasSubstr(" | Train 0.9000 | Validation 0.3333 | Test 0.5000 | Time ")
  );
}

TEST(EpochLine, NamesAnotherMetricThanTheAccuracy) {
  EpochReport report = third_epoch();
  report.validation = Measure{.metric = "auc", .value = 0.75, .count = 8};
  EXPECT_THAT(epoch_line(report), HasSubstr(" | AUC 0.7500 | Time "));
  report.train_set = Measure{.metric = "auc", .value = 0.875, .count = 8};
  EXPECT_THAT(epoch_line(report), HasSubstr(" | Train AUC 0.8750 | Validation AUC 0.7500 | Time "));
}

TEST(EpochLine, SaysTheSecondsOfAStepAndOfAnEvaluationBatch) {
  EpochReport report = third_epoch();
  report.steady_steps = {.pieces = 4, .seconds = 1.0};
  report.evaluation = {.pieces = 10, .seconds = 1.25};
  EXPECT_THAT(
      epoch_line(report),
      ::testing::EndsWith(" | Time 4.5000 | Time per Step 0.2500 | Time per Evaluation Batch 0.1250"
      )
  );
  report.evaluation.pieces = 0;  // layer by layer
  EXPECT_THAT(
      epoch_line(report), ::testing::EndsWith(" | Time per Step 0.2500 | Evaluation Time 1.2500")
  );
}

TEST(ConsoleSink, UsesTheTutorialsWords) {
  const std::string text = output_of({}, [](ConsoleSink& sink) {
    sink.on_phase(Phase::Setup);
    sink.on_phase(Phase::Train);
    sink.on_step({});
    sink.on_phase(Phase::Validate);
    sink.on_epoch(third_epoch());
    sink.on_phase(Phase::Test);
    FinalReport report;
    report.metric = "accuracy";
    report.metrics["test_accuracy"] = 0.5;
    sink.on_final(report);
  });
  EXPECT_EQ(
      text,
      "Training...\nValidating...\nEpoch 00002 | Average Loss 1.2346 | Accuracy 0.3333 | Time "
      "4.5000\n"
      "Testing...\nTest Accuracy 0.5000\n"
  );
}

TEST(ConsoleSink, NamesTheMetricOfTheTestAndWhatCameFromOtherNodes) {
  const std::string text = output_of({}, [](ConsoleSink& sink) {
    FinalReport report;
    report.metric = "hits@10";
    report.metrics = {{"test_hits@10", 0.25}, {"train_accuracy", 0.5}};
    report.remote = RemoteSummary{.bytes_per_step = 4096};
    sink.on_final(report);
  });
  EXPECT_EQ(text, "Test Hits@10 0.2500\ntrain_accuracy 0.5000\nRemote Bytes per Step 4096\n");
  RemoteSummary remote{.bytes_per_step = 123456.7};
  EXPECT_EQ(remote_line(remote), "Remote Bytes per Step 123457");
  remote.hit_rate = 0.5;
  EXPECT_EQ(remote_line(remote), "Remote Bytes per Step 123457 | Cache Hit Rate 0.5000");
  remote.expected_hit_rate = 0.25;
  EXPECT_EQ(
      remote_line(remote), "Remote Bytes per Step 123457 | Cache Hit Rate 0.5000 | Expected 0.2500"
  );
  FinalReport report;
  EXPECT_FALSE(nlohmann::json::parse(to_json_line(report)).contains("remote"));
  report.remote = remote;
  EXPECT_EQ(
      nlohmann::json::parse(to_json_line(report))["remote"],
      (nlohmann::json{{"bytesPerStep", 123456.7}, {"hitRate", 0.5}, {"expectedHitRate", 0.25}})
  );
}

TEST(ConsoleSink, WritesOneJsonObjectALine) {
  const std::string text =
      output_of({.format = ConsoleFormat::Json, .log_steps = 1}, [](ConsoleSink& sink) {
        StepReport step;
        step.loss = std::numeric_limits<double>::quiet_NaN();
        sink.on_step(step);
        sink.on_evaluation({.done = 1, .total = 2});
        EpochReport report = third_epoch();
        report.steady_steps = {.pieces = 4, .seconds = 1.0};
        report.evaluation.seconds = 1.25;
        sink.on_epoch(report);
        sink.on_message("resumed \"here\"");
      });
  const size_t first_end = text.find('\n');
  const size_t second_end = text.find('\n', first_end + 1);
  const auto step = nlohmann::json::parse(text.substr(0, first_end));
  EXPECT_EQ(step["event"], "step");
  EXPECT_TRUE(step["loss"].is_null());
  const auto epoch = nlohmann::json::parse(text.substr(first_end, second_end - first_end));
  EXPECT_EQ(epoch["event"], "epoch");
  EXPECT_EQ(epoch["validation"]["metric"], "accuracy");
  EXPECT_EQ(epoch["validation"]["value"], 1.0 / 3);
  EXPECT_EQ(epoch["validation"]["count"], 3);
  EXPECT_DOUBLE_EQ(epoch["averageLoss"], 1.23456);
  EXPECT_FALSE(epoch.contains("test"));
  EXPECT_DOUBLE_EQ(epoch["secondsPerStep"], 0.25);
  EXPECT_DOUBLE_EQ(epoch["evaluationSeconds"], 1.25);
  EXPECT_TRUE(epoch["secondsPerEvaluationBatch"].is_null());
  EXPECT_EQ(nlohmann::json::parse(text.substr(second_end))["message"], "resumed \"here\"");
}

TEST(ConsoleSink, WritesALineEverySoManyStepsWithTheirMeanSeconds) {
  const std::string text = output_of({.log_steps = 2}, [](ConsoleSink& sink) {
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      for (int64_t step = 0; step < 5; ++step) {
        StepReport report;
        report.epoch = epoch;
        report.step = step;
        report.loss = 0.5;
        report.seconds.total = 0.1 * static_cast<double>(step + 1);
        sink.on_step(report);
      }
      if (epoch == 0) sink.on_epoch(third_epoch());
    }
  });
  EXPECT_EQ(
      text,
      "Epoch 00000 | Step 00002 | Loss 0.5000 | Time 0.1500\n"
      "Epoch 00000 | Step 00004 | Loss 0.5000 | Time 0.3500\n" +
          epoch_line(third_epoch()) +
          "\nEpoch 00001 | Step 00002 | Loss 0.5000 | Time 0.1500\n"
          "Epoch 00001 | Step 00004 | Loss 0.5000 | Time 0.3500\n"
  );
}

TEST(ConsoleSink, LeavesTheWarmUpOutOfTheSecondsOfAStep) {
  const std::string text = output_of({.log_steps = 3}, [](ConsoleSink& sink) {
    for (int64_t step = 0; step < 6; ++step) {
      StepReport report;
      report.step = step;
      report.warm_up = step < 4;
      report.seconds.total = report.warm_up ? 8 : 0.5;
      sink.on_step(report);
    }
  });
  EXPECT_THAT(text, HasSubstr("Step 00003 | Loss 0.0000 | Time 8.0000\n"));
  EXPECT_THAT(text, HasSubstr("Step 00006 | Loss 0.0000 | Time 0.5000\n"));
}

// Notes what is drawn on it.
class EvaluationBar final : public ProgressBar {
 public:
  explicit EvaluationBar(std::vector<std::string>& drawn) : drawn_(drawn) {}
  void begin(std::string_view label, int64_t total, std::string_view unit) override {
    drawn_.push_back(std::string(label) + " of " + std::to_string(total) + " " + std::string(unit));
  }
  void advance_to(int64_t done, std::string_view) override {
    drawn_.push_back(std::to_string(done));
  }
  void end() override { drawn_.emplace_back("end"); }
  void say(std::string_view) override {}

 private:
  std::vector<std::string>& drawn_;
};

TEST(ConsoleSink, DrawsABarOfEachEvaluation) {
  std::vector<std::string> drawn;
  std::FILE* nowhere = std::fopen("/dev/null", "w");
  {
    ConsoleSink sink(nowhere, std::make_unique<EvaluationBar>(drawn), {});
    sink.on_phase(Phase::Validate);
    sink.on_evaluation({.done = 1, .total = 2});
    sink.on_evaluation({.done = 2, .total = 2});
    sink.on_phase(Phase::Test);
    sink.on_evaluation({.done = 7, .total = 9, .unit = EvaluationUnit::Edges});
    sink.on_epoch(third_epoch());
  }
  std::fclose(nowhere);
  EXPECT_EQ(
      drawn,
      (std::vector<std::string>{
          "validating of 2 batches", "1", "2", "end", "testing of 9 edges", "7", "end"
      })
  );
}

TEST(TeeSink, PassesReportsToAllSinks) {
  const std::string text = output_of({}, [](ConsoleSink& sink) {
    TeeSink tee({&sink, &sink});
    tee.on_message("twice");
  });
  EXPECT_EQ(text, "twice\ntwice\n");
}

}  // namespace
}  // namespace gnn::progress
