// What telling TensorBoard of every step costs, beside a step of training measured in the same run. The
// cost is the processor time of both threads: what the rank's thread hands over, and the thread that
// encodes and writes. Fails above a thousandth of a step. Beside it, what the rank's thread takes to
// write run.json after an epoch, durably, with few epochs in it and with as many as it keeps.
#include "worker/tracking/tracking.h"

#include "common/progress_bar.h"
#include "tests/support/must.h"
#include "tests/support/temporary_folder.h"
#include "worker/app/job_file.h"
#include "worker/app/run_rank.h"
#include "worker/progress/console_sink.h"
#include "worker/report/run_record.h"
#include "worker/training/run_recorder.h"
#include "worker/training/training_checkpoints.h"

#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace gnn {
namespace {

using testing::must;

// Fewer than a tracker's queue holds.
constexpr int64_t kBurst = 2000;
constexpr double kMostOfAStep = 0.001;

struct Arguments {
  std::string manifest;
  std::vector<std::string> fields;
  int64_t records = 100'000;
  std::string folder;  // of run.json; empty: a temporary one
};

// Keeps the steps without the warm-up.
class KeepSteps final : public progress::NullSink {
 public:
  void on_step(const progress::StepReport& report) override {
    if (!report.warm_up) steps.push_back(report);
  }
  std::vector<progress::StepReport> steps;
};

std::vector<progress::StepReport> train(const api::GnnJob& job) {
  const StopToken stop;
  rendezvous::Rendezvous alone;
  alone.job = job.metadata.name;
  KeepSteps kept;
  must(
      app::run_rank(job, {.rendezvous = alone, .progress = kept, .stop = stop, .activity = nullptr})
  );
  return kept.steps;
}

double seconds_on(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Cost {
  double of_rank = 0;    // wall time of the rank's thread, seconds per record
  double processor = 0;  // of both threads
};

Cost tell(api::GnnJob job, const std::vector<progress::StepReport>& steps, int64_t records) {
  const testing::TemporaryFolder folder;
  job.spec.tracking = api::Tracking{.tensor_board = api::TensorBoard{.path = folder.path()}};
  rendezvous::Rendezvous alone;
  const auto tracking = must(tracking::Tracking::open(job, alone, 1));
  const auto told = [&] { return tracking->meter()->read().at("tensorboard"); };
  Cost cost;
  const double processor = seconds_on(CLOCK_PROCESS_CPUTIME_ID);
  for (int64_t done = 0; done < records; done += kBurst) {
    const double start = seconds_on(CLOCK_MONOTONIC);
    for (int64_t i = 0; i < kBurst; ++i)
      tracking->sink().on_step(steps[static_cast<size_t>(i) % steps.size()]);
    cost.of_rank += seconds_on(CLOCK_MONOTONIC) - start;
    while (told().written <= done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  tracking->close(tracking::RunEnd::Done);
  cost.processor = seconds_on(CLOCK_PROCESS_CPUTIME_ID) - processor;
  if (told().dropped > 0) throw std::runtime_error("records were dropped");
  const auto written = static_cast<double>(told().written);
  return {.of_rank = cost.of_rank / written, .processor = cost.processor / written};
}

struct RecordCost {
  double seconds = 0;  // of a write
  int64_t bytes = 0;
};

// With a record that knows so many epochs and keeps them all.
RecordCost write_record(const std::string& parent, int64_t epochs) {
  constexpr int64_t kTimes = 20;
  progress::NullSink sink;
  const std::string folder = parent + "/" + std::to_string(epochs);
  auto checkpoints = must(training::TrainingCheckpoints::open(
      {.checkpoint = {.path = folder}, .incarnation = {.job_uid = "6f0c"}},
      comm::make_single_communicator(),
      sink,
      std::make_shared<checkpoint::PosixFileOps>()
  ));
  progress::EpochReport report;
  report.average_loss = 0.6931471805599453;
  report.train = progress::accuracy(90, 128);
  report.validation = progress::accuracy(17, 64);
  report.steps = 100;
  report.seconds = 1.25;
  std::vector<progress::EpochReport> history;
  for (; report.epoch < epochs - kTimes; ++report.epoch) history.push_back(report);
  // Of a clock in whose time each epoch is long enough to be written.
  int64_t seconds = 1'700'000'000;
  training::RunRecorder recorder(
      checkpoints,
      [&seconds] { return TimePoint(std::chrono::seconds(++seconds)); },
      {.job = "arxiv"},
      {},
      history,
      false
  );
  const std::vector<report::RankRecord> ranks(8);
  const double start = seconds_on(CLOCK_MONOTONIC);
  for (int64_t time = 0; time < kTimes; ++time, ++report.epoch)
    recorder.add_epoch(report::epoch_record_of(report), ranks);
  return {
      .seconds = (seconds_on(CLOCK_MONOTONIC) - start) / kTimes,
      .bytes = static_cast<int64_t>(std::filesystem::file_size(folder + "/" + report::kRecordFile))
  };
}

void measure_record(const std::string& parent, double step) {
  for (const int64_t epochs : {int64_t{100}, static_cast<int64_t>(report::kMaxEpochs)}) {
    const RecordCost cost = write_record(parent, epochs);
    std::printf(
        "run.json with %lld epochs: %.0f kB, written in %.2f ms, as long as %.3f steps\n",
        static_cast<long long>(epochs),
        1e-3 * static_cast<double>(cost.bytes),
        1e3 * cost.seconds,
        cost.seconds / step
    );
  }
}

bool measure(const Arguments& arguments) {
  const api::GnnJob job = must(app::load_job(arguments.manifest, arguments.fields));
  const std::vector<progress::StepReport> steps = train(job);
  double step = 0;
  for (const progress::StepReport& report : steps) step += report.seconds.total;
  step /= static_cast<double>(steps.size());
  const Cost cost = tell(job, steps, arguments.records);
  std::printf(
      "step %.3f ms (mean of %zu); a record %.2f us of processor time, %.2f us of the rank's "
      "thread; "
      "%.4f %% and %.4f %% of a step (wanted at most %g %%)\n",
      1e3 * step,
      steps.size(),
      1e6 * cost.processor,
      1e6 * cost.of_rank,
      100 * cost.processor / step,
      100 * cost.of_rank / step,
      100 * kMostOfAStep
  );
  const testing::TemporaryFolder folder;
  measure_record(arguments.folder.empty() ? folder.path() : arguments.folder, step);
  return cost.processor <= kMostOfAStep * step;
}

}  // namespace
}  // namespace gnn

int main(int argc, char** argv) {
  CLI::App app("What it costs to tell TensorBoard of every step");
  gnn::Arguments arguments;
  app.add_option("manifest", arguments.manifest, "GNNJob to train (YAML)")->required();
  app.add_option("--set", arguments.fields, "field=value, as of gnn-worker run");
  app.add_option("--records", arguments.records, "Records to tell");
  app.add_option("--folder", arguments.folder, "Where run.json is written, for another disk");
  CLI11_PARSE(app, argc, argv);
  try {
    return gnn::measure(arguments) ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
