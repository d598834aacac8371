#pragma once

#include "common/api/gnn_job.h"
#include "common/api/report.h"
#include "common/clock.h"
#include "controller/objects/config_map.h"
#include "controller/objects/network_policy.h"
#include "controller/objects/pod.h"
#include "controller/objects/pod_group.h"
#include "controller/objects/service.h"
#include "controller/objects/workload.h"
#include "controller/reconcile/config.h"
#include "controller/reconcile/pacing.h"
#include "controller/reconcile/pod_admission.h"
#include "controller/reconcile/refusals.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace gnn::reconcile {

/// A status of which the API server kept something else than it was sent: an older CRD lacks some of its
/// fields, or an admission webhook changes them.
struct CutStatus {
  api::GnnJobStatus sent;
  api::GnnJobStatus kept;
  int64_t in_a_row = 1;
};

/// A data key that the status does not know yet.
struct NewDataKey {
  std::string suffix;  ///< of its Secret's name
  bool made = false;   ///< this controller has created the Secret
  friend bool operator==(const NewDataKey&, const NewDataKey&) = default;
};

/// What was found in the events of a pod that does not start.
struct StartTrouble {
  std::string text;  ///< empty: nothing
  TimePoint read{};
};

/// All that a reconcile pass may look at. Time is a field like any other.
struct Observed {
  api::GnnJob job;
  /// Every pod of the namespace whose label gnn.dev/job is the job's name, whoever owns it.
  std::vector<objects::Pod> pods;
  /// UIDs of those that name the job as their controller, but were there before the job knew of their
  /// attempt or replacement, as a read of the job has shown.
  std::set<std::string> impostors;
  /// What events say of pods that do not start, by the pods' UIDs; see pod_to_explain().
  std::map<std::string, StartTrouble> start_troubles;
  /// The objects with the children's name, whoever owns them.
  std::optional<objects::Service> service;
  std::optional<objects::ConfigMap> config_map;
  std::optional<objects::NetworkPolicy> network_policy;
  /// The groups of pods with the job's label or owner reference, whoever owns them.
  std::vector<objects::PodGroup> groups;
  /// The APIs for groups that the operator may use and the API server serves.
  std::vector<objects::GroupApi> group_apis;
  /// Of the others that it may use, those whose groups cannot be known at present, and why. What is in
  /// neither is not served.
  std::map<objects::GroupApi, std::string> unknown_group_apis;
  /// The version of Kueue's API, if the operator may use it and its Workloads are known.
  std::optional<objects::KueueVersion> kueue;
  /// Why they cannot be known at present; empty: they are, or the API is not served.
  std::string kueue_unknown;
  /// The Workloads with the job's label or owner reference, and those of the names that it needs,
  /// whoever owns them.
  std::vector<objects::Workload> workloads;
  /// Of the cluster-scoped objects that queue_needs() names, those that could be read.
  Flavors flavors;
  std::optional<objects::PriorityOfClass> priority;  ///< of the class that queue_needs() names
  /// How many servers the spec asks for, where the job has another number by its admission.
  std::optional<int64_t> servers_asked;
  /// The last answer of node 0's agent, or of the pod that prepares the data.
  std::optional<api::ProgressReport> progress;
  /// What the last pass that had actions was refused; empty if nothing.
  std::vector<ApiRefusal> refusals;
  /// How many passes in a row were refused something; 0 if the last one with actions was not.
  int64_t refused_in_a_row = 0;
  /// When this controller last wrote the job's status; nothing if it has not yet.
  std::optional<TimePoint> status_written;
  /// The same for a status with other node counts than before.
  std::optional<TimePoint> counts_written;
  /// The last write, if it was cut.
  std::optional<CutStatus> cut_status;
  /// The writes of the last passes, by which those that do not last are paced.
  WriteHistory writes;
  /// Plan::awaits_culprit_since of the previous pass.
  std::optional<TimePoint> awaits_culprit_since;
  /// Given only if wants_data_key().
  NewDataKey new_data_key;
  /// Name of an older job of the namespace whose gang holds pods and is being scheduled; see
  /// is_older_gang_in_placement(). Needed only if wants_competitors().
  std::optional<std::string> older_gang;
  /// That objects of the job's namespace are left out of the caches, as a sentence; empty: none are.
  /// What is not seen may exist then.
  std::string memory_limit;
  /// Jobs of the namespace lately waited long for each other's passes: it has its share of the workers.
  bool waits_for_workers = false;
  /// Many other jobs wait for a pass.
  bool busy = false;
  OperatorConfig config;
  TimePoint now{};
  /// How much later than the true time `now` may be, and how much earlier.
  Duration now_ahead_at_most{0};
  Duration now_behind_at_most{0};
};

/// The time that has come for certain: what cannot be undone, such as a deadline's end, waits for it.
[[nodiscard]] inline TimePoint earliest_now(const Observed& observed) {
  return observed.now - observed.now_ahead_at_most;
}
/// A stamp beyond it was made by a clock that was wrong.
[[nodiscard]] inline TimePoint latest_now(const Observed& observed) {
  return observed.now + observed.now_behind_at_most;
}

}  // namespace gnn::reconcile
