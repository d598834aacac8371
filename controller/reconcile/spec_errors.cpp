#include "controller/reconcile/spec_errors.h"

#include "common/api/validation.h"

namespace gnn::reconcile {
namespace {

constexpr std::string_view kAny = "*";

}  // namespace

std::vector<std::string> spec_errors(const api::GnnJob& job, const api::AllowedKeys& allowed_keys) {
  std::vector<std::string> errors;
  for (const api::FieldError& error : api::validate(job)) {
    errors.push_back(error.path + ": " + error.message);
  }
  if (!errors.empty()) return errors;
  if (const Status allowed = api::check_pod_metadata(job.spec, allowed_keys); !allowed) {
    return {allowed.error().message};
  }
  if (!job.spec.workers.pod_template) {
    errors.emplace_back("spec.workers.template: required field is missing");
  }
  if (job.spec.servers && !job.spec.servers->pod_template) {
    errors.emplace_back("spec.servers.template: required field is missing");
  }
  return errors;
}

std::string volcano_queue_error(
    const api::GnnJob& job, const std::optional<VolcanoQueues>& allowed
) {
  const auto& scheduling = job.spec.scheduling;
  if (!allowed || !scheduling || !scheduling->volcano || !scheduling->volcano->queue) return {};
  const std::string& queue = *scheduling->volcano->queue;
  std::string names;
  for (const std::string& name_space : {job.metadata.namespace_, std::string(kAny)}) {
    const auto found = allowed->find(name_space);
    if (found == allowed->end()) continue;
    for (const std::string& each : found->second) {
      if (each == queue || each == kAny) return {};
      names += (names.empty() ? "" : ", ") + each;
    }
  }
  return "spec.scheduling.volcano.queue: jobs of namespace " + job.metadata.namespace_ +
         " may not use queue " + queue + "; an administrator allows " +
         (names.empty() ? "none by name" : "only: " + names);
}

std::string idle_gpus(const api::GnnJobSpec& spec) {
  if (spec.workers.gpus_per_process == 0 || spec.training.device != api::DeviceChoice::CPU) {
    return {};
  }
  return "with training.device CPU the GPUs that workers.gpusPerProcess requests stay idle";
}

std::string unreachable_tracker(const api::GnnJobSpec& spec, const OperatorConfig& config) {
  const bool told = spec.tracking && spec.tracking->mlflow;
  const bool fenced = config.network_policy && config.fence.egress && config.fence.egress->empty();
  if (!told || !fenced) return {};
  return "the job's NetworkPolicy lets no pod reach tracking.mlflow.uri, and no run will be seen "
         "there: an "
         "administrator can let pods reach it by jobs.networkPolicy.egress.rules";
}

}  // namespace gnn::reconcile
