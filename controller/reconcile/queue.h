#pragma once

#include "controller/objects/workload.h"
#include "controller/reconcile/observed.h"
#include "controller/reconcile/pod_admission.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// A job with a queue has pods only while Kueue admits the Workload that stands for it. That is one
/// for the job, and another one for the pod that prepares its data. spec.suspend remains the user's.
namespace gnn::reconcile {

struct Pass;

/// The PodSets of a job's Workload.
inline constexpr std::string_view kWorkersPodSet = "workers";
inline constexpr std::string_view kServersPodSet = "servers";
inline constexpr std::string_view kPreparePodSet = "prepare";

/// What a job's queue says. Pointers point into Observed.
struct QueueView {
  bool wanted = false;  ///< the job may have pods only while its Workload is admitted
  bool known = false;   ///< the API is served, and its Workloads are known
  std::string workload_name{};
  const objects::Workload* workload = nullptr;   ///< the job's
  const objects::Workload* adoptable = nullptr;  ///< made for the job by Kueue; nobody owns it yet
  const objects::Workload* foreign = nullptr;    ///< somebody else's of that name
  bool admitted = false;
  bool has_pods = false;  ///< the job has a pod of any kind that has not ended long ago
};

/// `prepares`: of the pod that prepares the data, not of the gang.
[[nodiscard]] QueueView view_queue(const Observed& observed, bool prepares);

/// The name of the queue that the job is to wait in; empty: none.
[[nodiscard]] std::string queue_of(const api::GnnJob& job, const OperatorConfig& config);

/// Whether the job waits in a queue before it has pods.
[[nodiscard]] bool wants_queue(const api::GnnJob& job, const OperatorConfig& config);

/// Kueue's word for the present cluster being the manager of another one that runs the job.
[[nodiscard]] bool is_run_by_multikueue(const Observed& observed);

/// Whether the Workload holds a part of the quota.
[[nodiscard]] bool holds_quota(const objects::Workload& workload);

/// Whether the job's status says that it waits in its queue, or leaves its machines for that.
[[nodiscard]] bool is_in_queue(const api::GnnJobStatus& status);

/// Whether the job must not have pods now.
[[nodiscard]] bool must_wait_in_queue(const Pass& pass);
/// Stops the pods of a job that is not admitted, and says why it waits.
void wait_in_queue(Pass& pass);

/// Which PodSet the pod of a node is of.
[[nodiscard]] std::string_view pod_set_of_nodes(const Pass& pass);

/// What the admission adds to the job's pods; nothing for a job without a queue.
[[nodiscard]] std::optional<PodAdmission> admission_of_nodes(const Pass& pass);
[[nodiscard]] std::optional<PodAdmission> admission_of_servers(const Pass& pass);
/// What the job's Workload asks for that is less than its pods will, in words; empty: nothing.
[[nodiscard]] std::string shortfall_of_workload(const Pass& pass);
/// Why no pod can be created although the job is admitted.
[[nodiscard]] std::optional<AdmissionProblem> admission_problem(const Pass& pass);

/// What of the spec waits until the job is queued anew, in a sentence; empty: nothing.
[[nodiscard]] std::string queue_note(const Pass& pass);

/// The job with as many servers as are admitted; nothing if that is what its spec says.
[[nodiscard]] std::optional<Observed> with_admitted_servers(const Observed& observed);

/// Sets status.scheduling.workload and clusterQueue.
void show_queue(Pass& pass);

}  // namespace gnn::reconcile
