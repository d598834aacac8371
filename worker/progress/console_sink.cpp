#include "worker/progress/console_sink.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdarg>

namespace gnn::progress {
namespace {

using Json = nlohmann::ordered_json;

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
  char buffer[512];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(buffer, sizeof buffer, pattern, arguments);
  va_end(arguments);
  return buffer;
}

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json encode(const Measure& measure) {
  return {{"metric", measure.metric}, {"value", number(measure.value)}, {"count", measure.count}};
}

Json encode(const BestEpoch& best) {
  return {{"epoch", best.epoch}, {"value", number(best.value)}, {"checkpoint", best.checkpoint}};
}

Json seconds(const StepSeconds& times) {
  return {
      {"wait", number(times.wait)},
      {"forward", number(times.forward)},
      {"backward", number(times.backward)},
      {"reduce", number(times.reduce)},
      {"optimizer", number(times.optimizer)},
      {"total", number(times.total)},
  };
}

// What an epoch's steps and evaluations took, where there were any.
std::string times(const EpochReport& report) {
  std::string text;
  if (report.steady_steps.pieces > 0)
    text += format(" | Time per Step %.4f", report.steady_steps.seconds_per_piece());
  if (report.evaluation.pieces > 0) {
    text += format(" | Time per Evaluation Batch %.4f", report.evaluation.seconds_per_piece());
  } else if (report.evaluation.seconds > 0) {
    text += format(" | Evaluation Time %.4f", report.evaluation.seconds);
  }
  return text;
}

std::string_view to_string(EvaluationUnit unit) {
  switch (unit) {
    case EvaluationUnit::Batches:
      return "batches";
    case EvaluationUnit::Edges:
      return "edges";
  }
  return "";
}

// One measure, or each part's by its name if the training set is one of them.
std::string measures(const EpochReport& report) {
  if (!report.train_set) {
    const Measure& shown = report.validation ? *report.validation : report.train;
    return format("%s %.4f", title_of(shown.metric).c_str(), shown.value);
  }
  // The tutorials' lines do not name the accuracy.
  const bool named = report.train_set->metric != kAccuracyMetric;
  const std::string title = named ? " " + title_of(report.train_set->metric) : "";
  const auto part = [&title](const char* name, const Measure& measure) {
    return format("%s%s %.4f", name, title.c_str(), measure.value);
  };
  std::string text = part("Train", *report.train_set);
  if (report.validation) text += part(" | Validation", *report.validation);
  if (report.test) text += part(" | Test", *report.test);
  return text;
}

}  // namespace

std::string epoch_line(const EpochReport& report) {
  return format(
      "Epoch %05lld | Average Loss %.4f | %s | Time %.4f%s",
      static_cast<long long>(report.epoch),
      report.average_loss,
      measures(report).c_str(),
      report.seconds,
      times(report).c_str()
  );
}

std::string step_line(const StepReport& report, double seconds_per_step) {
  return format(
      "Epoch %05lld | Step %05lld | Loss %.4f | Time %.4f",
      static_cast<long long>(report.epoch),
      static_cast<long long>(report.step) + 1,
      report.loss,
      seconds_per_step
  );
}

std::string to_json_line(const StepReport& report) {
  return Json{
      {"event", "step"},
      {"epoch", report.epoch},
      {"epochs", report.epochs},
      {"step", report.step},
      {"stepsPerEpoch", report.steps_per_epoch},
      {"globalStep", report.global_step},
      {"loss", number(report.loss)},
      {"learningRate", number(report.learning_rate)},
      {"gradientNorm", report.gradient_norm ? number(*report.gradient_norm) : Json(nullptr)},
      {"items", report.items},
      {"sampledEdges", report.sampled_edges},
      {"inputNodes", report.input_nodes},
      {"seconds", seconds(report.seconds)},
  }
      .dump();
}

std::string to_json_line(const EpochReport& report) {
  Json json{
      {"event", "epoch"},
      {"epoch", report.epoch},
      {"epochs", report.epochs},
      {"steps", report.steps},
      {"averageLoss", number(report.average_loss)},
      {"train", encode(report.train)},
  };
  if (report.train_set) json["trainSet"] = encode(*report.train_set);
  if (report.validation) json["validation"] = encode(*report.validation);
  if (report.test) json["test"] = encode(*report.test);
  json["seconds"] = number(report.seconds);
  json["stepSeconds"] = seconds(report.step_seconds);
  json["secondsPerStep"] = number(report.steady_steps.seconds_per_piece());
  json["evaluationSeconds"] = number(report.evaluation.seconds);
  json["secondsPerEvaluationBatch"] = number(report.evaluation.seconds_per_piece());
  json["items"] = report.items;
  json["sampledEdges"] = report.sampled_edges;
  return json.dump();
}

std::string to_json_line(const FinalReport& report) {
  Json metrics = Json::object();
  for (const auto& [name, value] : report.metrics) metrics[name] = number(value);
  Json json{
      {"event", "final"},
      {"epochs", report.epochs},
      {"globalSteps", report.global_steps},
      {"averageLoss", number(report.average_loss)},
      {"metric", report.metric},
      {"metrics", metrics},
      {"testModel", report.test_model},
      {"best", report.best ? encode(*report.best) : Json(nullptr)},
      {"checkpoint", report.checkpoint},
      {"parametersHash", report.parameters_hash},
      {"preempted", report.preempted},
      {"seconds", number(report.seconds)},
      {"secondsPerStep", number(report.steady_steps.seconds_per_piece())},
  };
  if (report.remote) {
    const auto& expected = report.remote->expected_hit_rate;
    json["remote"] = {
        {"bytesPerStep", number(report.remote->bytes_per_step)},
        {"hitRate", number(report.remote->hit_rate)},
        {"expectedHitRate", expected ? number(*expected) : Json(nullptr)},
    };
  }
  return json.dump();
}

std::string remote_line(const RemoteSummary& remote) {
  std::string text = format("Remote Bytes per Step %.0f", remote.bytes_per_step);
  if (std::isfinite(remote.hit_rate)) text += format(" | Cache Hit Rate %.4f", remote.hit_rate);
  if (std::isfinite(remote.hit_rate) && remote.expected_hit_rate)
    text += format(" | Expected %.4f", *remote.expected_hit_rate);
  return text;
}

std::string to_json_line(const CheckpointReport& report) {
  return Json{
      {"event", "checkpoint"},
      {"written", report.written},
      {"bytes", report.bytes},
      {"seconds", number(report.seconds)},
  }
      .dump();
}

ConsoleSink::ConsoleSink(
    std::FILE* out, std::unique_ptr<ProgressBar> progress, ConsoleOptions options
)
    : out_(out), progress_(std::move(progress)), options_(options) {}

ConsoleSink::~ConsoleSink() {
  end_bar();
}

void ConsoleSink::line(const std::string& text) {
  end_bar();
  std::fprintf(out_, "%s\n", text.c_str());
  std::fflush(out_);
}

void ConsoleSink::begin_bar(const std::string& label, int64_t total, std::string_view unit) {
  if (bar_running_) return;
  progress_->begin(label, total, unit);
  bar_running_ = true;
}

void ConsoleSink::end_bar() {
  if (bar_running_) progress_->end();
  bar_running_ = false;
}

void ConsoleSink::on_phase(Phase phase) {
  phase_ = phase;
  if (options_.format == ConsoleFormat::Json) {
    line(Json{{"event", "phase"}, {"phase", to_string(phase)}}.dump());
    return;
  }
  // The words of DGL's tutorials, which have none for Setup, Checkpoint and Done.
  if (phase == Phase::Train && !said_training_) line("Training...");
  if (phase == Phase::Train) said_training_ = true;
  if (phase == Phase::Validate) line("Validating...");
  if (phase == Phase::Test) line("Testing...");
}

void ConsoleSink::log_step(const StepReport& report) {
  if (options_.log_steps == 0) return;
  (report.warm_up ? unlogged_warm_up_ : unlogged_).add(report.seconds.total);
  if ((report.step + 1) % options_.log_steps != 0) return;
  const Pace& shown = unlogged_.pieces > 0 ? unlogged_ : unlogged_warm_up_;
  const double seconds_per_step = shown.seconds_per_piece();
  unlogged_ = {};
  unlogged_warm_up_ = {};
  line(
      options_.format == ConsoleFormat::Json ? to_json_line(report)
                                             : step_line(report, seconds_per_step)
  );
}

void ConsoleSink::on_step(const StepReport& report) {
  log_step(report);
  if (!progress_) return;
  begin_bar(
      format(
          "epoch %lld/%lld",
          static_cast<long long>(report.epoch) + 1,
          static_cast<long long>(report.epochs)
      ),
      report.steps_per_epoch,
      "steps"
  );
  progress_->advance_to(report.step + 1, format("loss %.4f", report.loss));
}

void ConsoleSink::on_evaluation(const EvaluationProgress& evaluation) {
  if (!progress_) return;
  begin_bar(
      phase_ == Phase::Test ? "testing" : "validating", evaluation.total, to_string(evaluation.unit)
  );
  progress_->advance_to(evaluation.done, {});
}

void ConsoleSink::on_epoch(const EpochReport& report) {
  unlogged_ = {};
  unlogged_warm_up_ = {};
  line(options_.format == ConsoleFormat::Json ? to_json_line(report) : epoch_line(report));
}

void ConsoleSink::on_final(const FinalReport& report) {
  if (options_.format == ConsoleFormat::Json) {
    line(to_json_line(report));
    return;
  }
  for (const auto& [name, value] : report.metrics) {
    if (name == "test_" + report.metric) {
      const char* const whose = report.test_model == "best" ? " by the best epoch" : "";
      line(format("Test %s %.4f%s", title_of(report.metric).c_str(), value, whose));
    } else {
      line(format("%s %.4f", name.c_str(), value));
    }
  }
  if (report.remote) line(remote_line(*report.remote));
  if (report.preempted) line("Stopped on request; checkpoint: " + report.checkpoint);
}

void ConsoleSink::on_checkpoint(const CheckpointReport& report) {
  // For people the run's error tells of a failure; a success would only interrupt the bar.
  if (options_.format == ConsoleFormat::Json) line(to_json_line(report));
}

void ConsoleSink::on_message(const std::string& message) {
  if (options_.format == ConsoleFormat::Json) {
    line(Json{{"event", "message"}, {"message", message}}.dump());
  } else {
    line(message);
  }
}

void TeeSink::on_phase(Phase phase) {
  for (ProgressSink* sink : sinks_) sink->on_phase(phase);
}
void TeeSink::on_mark() {
  for (ProgressSink* sink : sinks_) sink->on_mark();
}
void TeeSink::on_evaluation(const EvaluationProgress& evaluation) {
  for (ProgressSink* sink : sinks_) sink->on_evaluation(evaluation);
}
void TeeSink::on_remote_meter(const std::shared_ptr<const RemoteMeter>& meter) {
  for (ProgressSink* sink : sinks_) sink->on_remote_meter(meter);
}
void TeeSink::on_served_meter(const std::shared_ptr<const ServedMeter>& meter) {
  for (ProgressSink* sink : sinks_) sink->on_served_meter(meter);
}
void TeeSink::on_step(const StepReport& report) {
  for (ProgressSink* sink : sinks_) sink->on_step(report);
}
void TeeSink::on_epoch(const EpochReport& report) {
  for (ProgressSink* sink : sinks_) sink->on_epoch(report);
}
void TeeSink::on_final(const FinalReport& report) {
  for (ProgressSink* sink : sinks_) sink->on_final(report);
}
void TeeSink::on_checkpoint(const CheckpointReport& report) {
  for (ProgressSink* sink : sinks_) sink->on_checkpoint(report);
}
void TeeSink::on_message(const std::string& message) {
  for (ProgressSink* sink : sinks_) sink->on_message(message);
}

}  // namespace gnn::progress
