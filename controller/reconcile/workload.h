#pragma once

#include "controller/objects/workload.h"
#include "controller/reconcile/action.h"
#include "controller/reconcile/observed.h"

#include <optional>
#include <string>
#include <vector>

/// What becomes of the Workloads of a job: made, kept up to date, given back, finished.
namespace gnn::reconcile {

struct Pass;

/// What a plan must know of a queue and no watch shows.
struct QueueNeeds {
  std::vector<std::string> flavors;  ///< names of ResourceFlavors
  /// Without a name: the cluster's default for pods that name none.
  std::optional<objects::PriorityClass> priority_class;
  /// A Workload that is missed: it may be there without the job's labels, or not be watched yet.
  std::optional<std::string> workload;
};
[[nodiscard]] QueueNeeds queue_needs(const Pass& pass);

/// Makes the Workload that the job waits for, and tells Kueue what has become of the job. The status
/// must be what this pass makes of it.
void tend_workloads(Pass& pass);

/// For a job that has ended: tells Kueue how, once none of its pods occupies a machine.
void finish_workloads(Pass& pass);

/// For a job that is being deleted: lets its Workloads go, once none of its pods occupies a machine.
void release_workloads(Pass& pass);

/// The same for the Workloads of earlier jobs of the same name and for those that have no owner any more,
/// once somebody has deleted them.
void release_workloads_of_earlier_jobs(Pass& pass);

/// For jobs that no operator queues any more: gives the quota back, whatever their pods do.
[[nodiscard]] std::vector<Action> give_up_workloads(const std::vector<objects::Workload>& workloads
);

/// As release_workloads(), for Workloads whose job is gone, with the pods of such jobs.
struct OrphanedWorkloads {
  std::vector<Action> actions;
  /// When a pod that is being deleted counts as lost with its machine.
  std::optional<TimePoint> next;
};
[[nodiscard]] OrphanedWorkloads release_orphaned_workloads(
    const std::vector<objects::Workload>& workloads,
    const std::vector<objects::Pod>& pods,
    TimePoint now,
    Duration lost_after
);

}  // namespace gnn::reconcile
