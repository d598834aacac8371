#pragma once

#include "controller/reconcile/pass.h"

#include <string>
#include <vector>

/// Machines on which a job has failed, and which of them its next attempts avoid
/// (failurePolicy.maxRestartsPerNode). A machine is a Kubernetes node.
namespace gnn::reconcile {

/// Counts a restart against the machine of the failure that caused it, where that can be the
/// machine's fault. The list stays short: the machine with the fewest restarts makes room.
void count_machine(Pass& pass, const NodeFailure& failure);

/// The names of the machines that the job's pods must not be placed on, as the status says.
[[nodiscard]] std::vector<std::string> avoided_machines(const api::GnnJob& job);

}  // namespace gnn::reconcile
