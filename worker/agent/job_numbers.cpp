#include "worker/agent/job_numbers.h"

#include "common/contract.h"

namespace gnn::agent {

api::ProgressReport make_report(
    const AgentOptions& options, int64_t round, const JobNumbers& numbers
) {
  const auto decimal = [](const std::optional<double>& value) -> std::optional<std::string> {
    if (!value) return std::nullopt;
    return api::encode_decimal(*value);
  };
  api::ProgressReport report;
  report.job = options.job;
  report.job_uid = options.job_uid;
  report.attempt = options.attempt;
  report.round = round;
  report.node = options.node;
  report.progress.epoch = numbers.epoch;
  report.progress.epochs = numbers.epochs;
  report.progress.global_step = numbers.global_step;
  report.progress.loss = decimal(numbers.loss);
  if (!numbers.metric.empty()) report.progress.metric_name = numbers.metric;
  report.progress.train_metric = decimal(numbers.train_metric);
  report.progress.validation_metric = decimal(numbers.validation_metric);
  report.progress.test_metric = decimal(numbers.test_metric);
  if (!numbers.test_model.empty()) report.progress.test_model = numbers.test_model;
  if (numbers.best) {
    report.progress.best_epoch = numbers.best->epoch + 1;
    report.progress.best_metric = api::encode_decimal(numbers.best->value);
    if (!numbers.best->checkpoint.empty())
      report.progress.best_checkpoint = numbers.best->checkpoint;
  }
  if (!numbers.checkpoint.empty()) report.progress.checkpoint = numbers.checkpoint;
  return report;
}

std::string encode_progress(
    const AgentOptions& options, const AgentState& state, const JobNumbers& numbers
) {
  api::ProgressReport report = make_report(options, state.round, numbers);
  report.phase = state.phase;
  if (state.items_per_second > 0)
    report.progress.rate = api::encode_decimal(state.items_per_second);
  report.restarts_nodes = options.node == 0 && options.node_restart.has_value();
  report.awaited_node = state.awaited_node;
  report.progress.eta_seconds = numbers.eta_seconds;
  return api::encode(report, contract::kMaxProgressBytes);
}

}  // namespace gnn::agent
