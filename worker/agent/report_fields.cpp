#include "worker/agent/report_fields.h"

#include "common/contract.h"
#include "worker/agent/messages.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <optional>

namespace gnn::agent {

nlohmann::ordered_json begin_report(const AgentOptions& options, int64_t round) {
  return {
      {"contract", contract::kVersion},
      {"job", printable(options.job, 40)},
      {"jobUid", printable(options.job_uid, 64)},
      {"attempt", options.attempt},
      {"round", round},
      {"node", options.node},
  };
}

void add_numbers(nlohmann::ordered_json& report, const JobNumbers& numbers) {
  const auto put_integer = [&](const char* name, const std::optional<int64_t>& value) {
    if (value) report[name] = *value;
  };
  const auto put_decimal = [&](const char* name, const std::optional<double>& value) {
    if (value) report[name] = decimal(*value);
  };
  put_integer("epoch", numbers.epoch);
  put_integer("epochs", numbers.epochs);
  put_integer("step", numbers.step);
  put_decimal("loss", numbers.loss);
  put_decimal("trainMetric", numbers.train_metric);
  put_decimal("validationMetric", numbers.validation_metric);
  put_decimal("testMetric", numbers.test_metric);
  if (!numbers.checkpoint.empty()) report["checkpoint"] = printable(numbers.checkpoint, 1024);
}

std::string decimal(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Inf" : "-Inf";
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

}  // namespace gnn::agent
