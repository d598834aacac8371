#include "controller/reconcile/machines.h"

#include "common/api/fields.h"

#include <algorithm>
#include <cstdint>

namespace gnn::reconcile {
namespace {

bool can_be_the_machines_fault(FailureKind kind) {
  switch (kind) {
    case FailureKind::OutOfMemory:
    case FailureKind::StorageExceeded:
    case FailureKind::Error:
    case FailureKind::NotStarted:
    case FailureKind::Disrupted:
    case FailureKind::NodeLost:
      return true;
    case FailureKind::Configuration:
    case FailureKind::Data:
    case FailureKind::PeerLost:
    case FailureKind::Preempted:
    case FailureKind::PodDeleted:
      return false;
  }
  return false;
}

}  // namespace

void count_machine(Pass& pass, const NodeFailure& failure) {
  const auto& limit = pass.job().spec.run_policy.failure_policy.max_restarts_per_node;
  if (!limit || failure.machine.empty() || !can_be_the_machines_fault(failure.kind)) return;
  std::vector<api::MachineRestarts>& machines = pass.status().machines;
  const auto known =
      std::find_if(machines.begin(), machines.end(), [&](const api::MachineRestarts& each) {
        return each.name == failure.machine;
      });
  if (known != machines.end()) {
    ++known->restarts;
    return;
  }
  if (machines.size() == static_cast<size_t>(api::kMaxMachines)) {
    machines.erase(std::min_element(
        machines.begin(),
        machines.end(),
        [](const auto& a, const auto& b) { return a.restarts < b.restarts; }
    ));
  }
  machines.push_back({.name = failure.machine, .restarts = 1});
}

std::vector<std::string> avoided_machines(const api::GnnJob& job) {
  const auto& limit = job.spec.run_policy.failure_policy.max_restarts_per_node;
  std::vector<std::string> names;
  for (const api::MachineRestarts& each : job.status.machines) {
    if (limit && each.restarts > *limit) names.push_back(each.name);
  }
  return names;
}

}  // namespace gnn::reconcile
