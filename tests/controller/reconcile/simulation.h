#pragma once

#include "controller/reconcile/data_key.h"
#include "controller/reconcile/gang.h"
#include "controller/reconcile/plan.h"
#include "controller/reconcile/queue.h"
#include "tests/controller/reconcile/builders.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace gnn::reconcile {

/// An API server, kubelets and a clock, small enough to play thousands of histories. It keeps the
/// rules that the controller relies on: names are unique, UIDs are preconditions, finalizers hold
/// objects, and a status write needs the current resourceVersion.
class Simulation {
 public:
  explicit Simulation(api::GnnJob job) {
    world_.job = std::move(job);
    world_.job.status.data_key_secret.reset();
    world_.now = at(0);
  }

  /// One pass of the controller. `stop_after`: it dies after this many actions and writes no status.
  /// `stale`: the status in its cache, if that is behind.
  Plan reconcile(
      std::optional<size_t> stop_after = std::nullopt,
      std::optional<api::GnnJobStatus> stale = std::nullopt
  ) {
    Observed seen = world_;
    if (stale) seen.job.status = *stale;
    if (wants_data_key(seen)) seen.new_data_key.suffix = next_suffix();
    Plan made = plan(seen);
    world_.awaits_culprit_since = made.awaits_culprit_since;
    // A pass with actions replaces the refusals of an earlier one.
    if (!made.actions.empty()) world_.refusals.clear();
    const int64_t refused_before = world_.refused_in_a_row;
    size_t done = 0;
    for (const Action& action : made.actions) {
      if (stop_after && done++ == *stop_after) return made;
      std::visit([this](const auto& each) { apply(each); }, action);
    }
    if (!made.actions.empty()) {
      world_.refused_in_a_row = world_.refusals.empty() ? 0 : refused_before + 1;
    }
    if (stop_after || stale) return made;
    if (made.status_needs_success && !world_.refusals.empty()) return made;
    world_.job.status = made.status;
    return made;
  }

  /// Makes passes until none has anything left to do; false if `limit` passes are not enough.
  bool run_until_idle(int limit = 20) {
    for (int i = 0; i < limit; ++i) {
      const api::GnnJobStatus before = world_.job.status;
      const Plan made = reconcile();
      if (made.actions.empty() && made.status == before) return true;
    }
    return false;
  }

  // ---- what kubelets, schedulers and people do

  void schedule_pod(size_t i) {
    if (objects::Pod* pod = living(i)) schedule(*pod);
  }
  void ready_pod(size_t i) {
    if (objects::Pod* pod = living(i)) make_ready(*pod);
  }
  /// A scheduler that knows groups places and runs all pods that it may.
  void ready_all() {
    for (size_t i = 0; i < world_.pods.size(); ++i) {
      if (may_be_placed(world_.pods[i])) ready_pod(i);
    }
  }
  void end_pod(size_t i, int64_t code) {
    if (objects::Pod* pod = living(i)) end_container(*pod, code, "", world_.now);
  }
  void oom_pod(size_t i) {
    if (objects::Pod* pod = living(i))
      end_container(*pod, 137, "", world_.now).reason = "OOMKilled";
  }
  void evict_pod(size_t i) {
    if (objects::Pod* pod = living(i)) {
      pod->status.phase = "Failed";
      pod->status.reason = "Evicted";
    }
  }
  void refuse_pod(size_t i) {
    if (objects::Pod* pod = living(i)) pod->status.phase = "Failed";
  }
  /// The pod's machine no longer answers, and the cluster has noticed.
  void silence_pod(size_t i) {
    if (objects::Pod* pod = living(i)) {
      pod->status.container_statuses = {
          {.name = std::string(contract::kWorkerContainer), .ready = true, .state = {}}
      };
      add_condition(*pod, "Ready", false);
    }
  }
  void delete_pod(size_t i) {
    if (world_.pods.empty()) return;
    const objects::ObjectMeta meta = world_.pods[i % world_.pods.size()].metadata;
    apply(DeletePod{meta.name, meta.uid, std::nullopt});
  }
  /// The kubelets stop pods that are being deleted or are past their deadline.
  void finish_leaving() {
    for (objects::Pod& pod : world_.pods) {
      if (pod.spec.active_deadline_seconds && !ended(pod)) end_container(pod, 137, "", world_.now);
      if (!pod.metadata.deletion_timestamp) continue;
      if (!ended(pod)) end_container(pod, contract::kExitPreempted, "", world_.now);
      pod.metadata.deletion_grace_period_seconds = 0;
    }
    collect();
  }
  /// Somebody makes a pod of that name with the job's label, or deletes all that are not the job's.
  void make_foreign_pod(const std::string& name) {
    objects::Pod pod;
    pod.metadata.name = name;
    pod.metadata.labels = {{std::string(contract::kLabelJob), world_.job.metadata.name}};
    pod.status.phase = "Pending";
    const auto same = [&](const objects::Pod& each) { return each.metadata.name == name; };
    if (std::none_of(world_.pods.begin(), world_.pods.end(), same)) world_.pods.push_back(pod);
  }
  void delete_foreign_pods() {
    std::erase_if(world_.pods, [this](const objects::Pod& pod) {
      return !is_owned_by(pod.metadata, world_.job);
    });
  }
  /// Somebody deletes the job's groups.
  void delete_groups() {
    for (objects::PodGroup& group : world_.groups) group.metadata.deletion_timestamp = world_.now;
    collect();
  }

  // ---- what Kueue and its administrators do

  /// Every Workload that may have quota gets it.
  void admit_workloads() {
    sync_workloads();
    for (objects::Workload& each : world_.workloads) {
      const bool waits = each.active && !holds_quota(each) && !each.metadata.deletion_timestamp &&
                         !objects::is_true(each, objects::kueue::kFinished);
      if (!waits) continue;
      objects::Admission admission{.cluster_queue = "cluster-queue", .pod_sets = {}};
      for (const objects::PodSet& pod_set : each.pod_sets) {
        admission.pod_sets.push_back(
            {.name = pod_set.name, .flavors = {"flavor"}, .count = pod_set.count}
        );
      }
      each.admission = std::move(admission);
      say(each, objects::kueue::kQuotaReserved, true, "QuotaReserved");
      say(each, objects::kueue::kAdmitted, true, "Admitted");
      if (objects::is_true(each, objects::kueue::kEvicted)) {
        say(each, objects::kueue::kEvicted, false, "QuotaReserved");
      }
    }
  }
  void evict_workloads(const std::string& why) {
    for (objects::Workload& each : world_.workloads) {
      if (holds_quota(each) && !objects::is_true(each, objects::kueue::kFinished)) {
        say(each, objects::kueue::kEvicted, true, why);
      }
    }
  }
  void set_workloads_active(bool active) {
    for (objects::Workload& each : world_.workloads) each.active = active;
    sync_workloads();
  }
  void delete_workloads() {
    for (objects::Workload& each : world_.workloads) each.metadata.deletion_timestamp = world_.now;
    collect();
  }
  void advance(int64_t seconds) { world_.now += std::chrono::seconds(seconds); }

  [[nodiscard]] int64_t pods_made() const { return pods_made_; }
  Observed& world() { return world_; }
  [[nodiscard]] const api::GnnJobStatus& status() const { return world_.job.status; }
  /// Groups that are not being deleted.
  [[nodiscard]] int64_t live_groups() const {
    return std::ranges::count_if(world_.groups, [](const objects::PodGroup& group) {
      return !group.metadata.deletion_timestamp;
    });
  }
  /// Pods were created whose group was not there.
  [[nodiscard]] bool made_pods_without_group() const { return made_pods_without_group_; }
  /// A pod that serves data was created without a key from a Secret that the controller made.
  [[nodiscard]] bool made_pods_without_key() const { return made_pods_without_key_; }
  /// An admission was given back while the job had pods.
  [[nodiscard]] bool gave_back_with_pods() const { return gave_back_with_pods_; }
  bool quota = false;         ///< pods beyond the first are refused
  bool drops_groups = false;  ///< pods lose the group that they name

 private:
  static bool ended(const objects::Pod& pod) {
    return pod.status.phase == "Succeeded" || pod.status.phase == "Failed";
  }

  objects::Pod* living(size_t i) {
    if (world_.pods.empty()) return nullptr;
    objects::Pod& pod = world_.pods[i % world_.pods.size()];
    return ended(pod) ? nullptr : &pod;
  }

  objects::Pod* find(const std::string& name, const std::string& uid) {
    for (objects::Pod& pod : world_.pods) {
      if (pod.metadata.name == name && pod.metadata.uid == uid) return &pod;
    }
    return nullptr;
  }

  /// Removes deleted pods with no grace period and no finalizer left.
  void collect() {
    std::erase_if(world_.pods, [](const objects::Pod& pod) {
      return pod.metadata.deletion_timestamp && pod.metadata.deletion_grace_period_seconds == 0 &&
             pod.metadata.finalizers.empty();
    });
    std::erase_if(world_.workloads, [](const objects::Workload& each) {
      return each.metadata.deletion_timestamp && each.metadata.finalizers.empty();
    });
    // Of Kubernetes' own groups, pods that have not ended hold one that is being deleted.
    std::erase_if(world_.groups, [this](const objects::PodGroup& group) {
      const bool held =
          group.api == objects::GroupApi::Native &&
          std::ranges::any_of(world_.pods, [&](const objects::Pod& pod) {
            return !ended(pod) && pod.spec.group && pod.spec.group->group == group.metadata.name;
          });
      return group.metadata.deletion_timestamp && !held;
    });
  }

  [[nodiscard]] bool has_group_of(const objects::Pod& pod) const {
    return !pod.spec.group || std::ranges::any_of(world_.groups, [&](const auto& group) {
      return group.metadata.name == pod.spec.group->group;
    });
  }

  [[nodiscard]] bool is_served(objects::GroupApi api) const {
    return std::ranges::find(world_.group_apis, api) != world_.group_apis.end();
  }

  // A pod waits for its group, and with it for the others of it.
  [[nodiscard]] bool may_be_placed(const objects::Pod& pod) const {
    if (!pod.spec.group || !pod.spec.node_name.empty()) return true;
    const objects::GroupMembership& named = *pod.spec.group;
    const auto group = std::ranges::find_if(world_.groups, [&](const objects::PodGroup& each) {
      return each.api == named.api && each.metadata.name == named.group &&
             !each.metadata.deletion_timestamp;
    });
    if (!is_served(named.api) || group == world_.groups.end()) return false;
    const auto members = std::ranges::count_if(world_.pods, [&](const objects::Pod& each) {
      return each.spec.group == named && !ended(each) && !each.metadata.deletion_timestamp;
    });
    return members >= group->spec.min_count;
  }

  void apply(const CreatePod& action) {
    const auto same = [&](const objects::Pod& pod) {
      return pod.metadata.name == action.pod.metadata.name;
    };
    const auto taken = std::find_if(world_.pods.begin(), world_.pods.end(), same);
    if (taken != world_.pods.end()) {
      if (!is_owned_by(taken->metadata, world_.job)) {
        world_.refusals.push_back(
            {.kind = ApiRefusal::Kind::NameTaken,
             .object = "pod " + action.pod.metadata.name,
             .message = "pod " + action.pod.metadata.name + " already exists",
             .time = world_.now}
        );
      }
      return;
    }
    if (quota && !world_.pods.empty()) {
      world_.refusals.push_back(
          {.kind = ApiRefusal::Kind::Quota,
           .object = "pod " + action.pod.metadata.name,
           .message = "exceeded quota",
           .time = world_.now}
      );
      return;
    }
    objects::Pod pod = action.pod;
    if (serves_data(world_.job) && !contract::attempt_of_prepare_pod("arxiv", pod.metadata.name)) {
      const auto& file = pod.spec.secret_file;
      made_pods_without_key_ = made_pods_without_key_ || !file || !secrets_.contains(file->secret);
    }
    pod.metadata.uid = "pod-uid-" + std::to_string(++pods_made_);
    pod.metadata.creation_timestamp = world_.now;
    pod.status.phase = "Pending";
    // Where the group's API has gone, no group can be made.
    const bool needs_group = pod.spec.group && is_served(pod.spec.group->api);
    made_pods_without_group_ = made_pods_without_group_ || (needs_group && !has_group_of(pod));
    if (drops_groups) pod.spec.group.reset();
    world_.pods.push_back(std::move(pod));
  }
  void apply(const CreateGroup& action) {
    const auto same = [&](const objects::PodGroup& group) {
      return group.metadata.name == action.group.metadata.name;
    };
    if (std::ranges::any_of(world_.groups, same)) return;
    objects::PodGroup group = action.group;
    group.metadata.uid = "group-uid-" + std::to_string(++groups_made_);
    world_.groups.push_back(std::move(group));
  }
  void apply(const DeleteGroup& action) {
    for (objects::PodGroup& group : world_.groups) {
      if (group.metadata.uid == action.uid) group.metadata.deletion_timestamp = world_.now;
    }
    collect();
  }
  objects::Workload* find(const objects::Workload& workload) {
    for (objects::Workload& each : world_.workloads) {
      if (each.metadata.uid == workload.metadata.uid) return &each;
    }
    return nullptr;
  }
  void say(objects::Workload& workload, std::string_view type, bool holds, const std::string& why)
      const {
    objects::set_condition(
        workload,
        {.type = std::string(type),
         .status = holds ? "True" : "False",
         .reason = why,
         .message = "says Kueue",
         .last_transition_time = {}},
        world_.now
    );
  }
  /// Kueue evicts what is deactivated.
  void sync_workloads() {
    for (objects::Workload& each : world_.workloads) {
      if (each.active || objects::is_true(each, objects::kueue::kEvicted)) continue;
      say(each, objects::kueue::kEvicted, true, "Deactivated");
    }
  }

  void apply(const CreateWorkload& action) {
    const auto same = [&](const objects::Workload& each) {
      return each.metadata.name == action.workload.metadata.name;
    };
    if (std::ranges::any_of(world_.workloads, same)) return;
    objects::Workload workload = action.workload;
    workload.metadata.uid = "workload-uid-" + std::to_string(++workloads_made_);
    world_.workloads.push_back(std::move(workload));
  }
  void apply(const UpdateWorkload& action) {
    objects::Workload* workload = find(action.workload);
    if (workload == nullptr) return;
    workload->queue = action.workload.queue;
    workload->active = action.workload.active;
    workload->suspended_with_job = action.workload.suspended_with_job;
    // The API server refuses others once there is quota.
    if (!holds_quota(*workload)) {
      workload->pod_sets = action.workload.pod_sets;
      workload->pod_sets_digest = action.workload.pod_sets_digest;
    }
    sync_workloads();
  }
  void apply(const UpdateWorkloadStatus& action) {
    objects::Workload* workload = find(action.workload);
    if (workload == nullptr) return;
    const bool gives_back = workload->admission && !action.workload.admission;
    gave_back_with_pods_ =
        gave_back_with_pods_ ||
        (gives_back && std::ranges::any_of(world_.pods, [&](const auto& pod) {
           const bool prepared =
               contract::attempt_of_prepare_pod(world_.job.metadata.name, pod.metadata.name)
                   .has_value();
           return is_owned_by(pod.metadata, world_.job) && !prepared;
         }));
    workload->conditions = action.workload.conditions;
    if (gives_back) workload->admission.reset();
  }
  void apply(const AdoptWorkload& action) {
    if (objects::Workload* workload = find(action.workload)) {
      workload->metadata.owner_references = action.workload.metadata.owner_references;
      workload->metadata.labels = action.workload.metadata.labels;
    }
  }
  void apply(const ReleaseWorkload& action) {
    if (objects::Workload* workload = find(action.workload)) {
      std::erase(workload->metadata.finalizers, std::string(objects::kueue::kFinalizer));
    }
    collect();
  }
  void apply(const DeleteWorkload& action) {
    if (objects::Workload* workload = find(action.workload)) {
      workload->metadata.deletion_timestamp = world_.now;
    }
    collect();
  }
  void apply(const CreateService& action) {
    if (!world_.service) world_.service = action.service;
  }
  void apply(const CreateConfigMap& action) {
    if (!world_.config_map) world_.config_map = action.config_map;
  }
  void apply(const CreateDataKey& action) { secrets_.insert(action.secret.metadata.name); }
  // As nobody else draws it again.
  std::string next_suffix() {
    const std::string number = std::to_string(++keys_drawn_);
    return std::string(32 - number.size(), '0') + number;
  }
  void apply(const CreateNetworkPolicy& action) {
    if (!world_.network_policy) world_.network_policy = action.network_policy;
  }
  void apply(const UpdateService& action) { world_.service = action.service; }
  void apply(const UpdateNetworkPolicy& action) { world_.network_policy = action.network_policy; }
  void apply(const ReleasePod& action) {
    if (objects::Pod* pod = find(action.name, action.uid)) {
      std::erase(pod->metadata.finalizers, std::string(contract::kPodFinalizer));
    }
    collect();
  }
  void apply(const RelabelPod& action) {
    if (objects::Pod* pod = find(action.name, action.uid)) {
      for (const auto& [key, value] : action.labels) pod->metadata.labels[key] = value;
    }
  }
  void apply(const DeletePod& action) {
    objects::Pod* pod = find(action.name, action.uid);
    if (pod == nullptr) return;
    const bool at_once =
        ended(*pod) || pod->spec.node_name.empty() || action.grace_period_seconds == 0;
    const int64_t grace = at_once ? 0 : 120;
    if (!pod->metadata.deletion_timestamp) {
      mark_deleted(*pod, world_.now + std::chrono::seconds(grace), grace);
    } else if (at_once) {
      pod->metadata.deletion_grace_period_seconds = 0;
    }
    collect();
  }
  void apply(const StopPod& action) {
    if (objects::Pod* pod = find(action.name, action.uid)) pod->spec.active_deadline_seconds = 1;
  }
  void apply(const DeleteJob&) {}

  Observed world_;
  std::set<std::string> secrets_;
  int64_t keys_drawn_ = 0;
  bool made_pods_without_key_ = false;
  int64_t pods_made_ = 0;
  int64_t groups_made_ = 0;
  int64_t workloads_made_ = 0;
  bool gave_back_with_pods_ = false;
  bool made_pods_without_group_ = false;
};

}  // namespace gnn::reconcile
