#include "tests/controller/app/simulation/users.h"

#include "common/api/codec.h"
#include "common/contract.h"
#include "tests/common/api/sample_job.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace gnn::simulation {
namespace {

const std::string kUser = "user";
const std::string kForeignFinalizer = "example.com/hold";
const std::string kQueueLabel = "kueue.x-k8s.io/queue-name";
constexpr size_t kMostJobs = 3;

void toggle_finalizer(Json& object) {
  Json& all = object["metadata"]["finalizers"];
  if (!all.is_array()) all = Json::array();
  const auto found = std::find(all.begin(), all.end(), kForeignFinalizer);
  if (found != all.end()) {
    all.erase(found);
  } else if (!is_deleted(object)) {
    all.push_back(kForeignFinalizer);
  }
}

}  // namespace

api::GnnJob Users::any_job(const std::string& name_space, const std::string& name) {
  api::GnnJob job = dice_.chance(0.2)   ? api::sample_served_job()
                    : dice_.chance(0.2) ? api::sample_prepare_job()
                                        : api::sample_job();
  job.metadata.name = name;
  job.metadata.namespace_ = name_space;
  if (job.spec.placement) {
    job.spec.placement->partitions = 1;
    job.spec.placement->topology = api::PlacementMode::Replicated;
    job.spec.placement->features = api::PlacementMode::Replicated;
  }
  if (job.spec.servers) {
    job.spec.placement = api::Placement{.partitions = 1};
    job.spec.servers->nodes = dice_.between(1, 2);
  }
  job.spec.workers.nodes = dice_.between(1, 2);
  job.spec.suspend = dice_.chance(0.1);
  api::RunPolicy& policy = job.spec.run_policy;
  policy.max_restarts = dice_.between(0, 4);
  policy.scheduling_timeout_seconds = 60;
  policy.startup_deadline_seconds = 60;
  if (dice_.chance(0.15)) policy.active_deadline_seconds = dice_.between(30, 900);
  if (dice_.chance(0.2)) policy.ttl_seconds_after_finished = dice_.between(0, 300);
  policy.clean_pod_policy = dice_.pick<api::CleanPodPolicy>(
      {api::CleanPodPolicy::Running, api::CleanPodPolicy::All, api::CleanPodPolicy::None}
  );
  if (dice_.chance(0.2)) {
    policy.failure_policy.rules.push_back(
        {.reasons = {api::FailureReason::PodDeleted},
         .action = dice_.chance(0.5) ? api::FailureAction::Fail : api::FailureAction::Restart}
    );
  }
  if (groups_ && dice_.chance(0.6)) {
    job.spec.scheduling.emplace().provider = api::GangProvider::Coscheduling;
  }
  if (dice_.chance(0.1)) policy.failure_policy.max_restarts_per_node = 1;
  return job;
}

void Users::create_job() {
  const std::string name_space = dice_.chance(0.7) ? "a" : "b";
  const std::string name = "j" + std::to_string(dice_.below(3));
  if (server_.terminating().contains(name_space)) return;
  Json job = api::encode(any_job(name_space, name));
  if (kueue_ && dice_.chance(0.6)) job["metadata"]["labels"][kQueueLabel] = "q";
  server_.create(kinds::kJobs, std::move(job), kUser);
}

void Users::act() {
  const std::vector<Object> jobs = server_.snapshot(kinds::kJobs);
  if (jobs.empty() || (jobs.size() < kMostJobs && dice_.chance(0.2))) return create_job();
  const Object job = dice_.pick(jobs);
  switch (dice_.below(10)) {
    case 0:
      return delete_job(job);
    case 1:
      return touch_child();
    case 2:
    case 3:
      return touch_pod();
    case 4:
      return make_foreign_pod();
    case 5:
      return administer();
    default:
      return change_job(job);
  }
}

void Users::delete_job(const Object& job) {
  const auto policy = dice_.pick<std::string>({"Background", "Foreground", "Orphan"});
  server_.remove(kinds::kJobs, key_in(*job), kUser, {{"propagationPolicy", policy}});
}

void Users::change_job(const Object& job) {
  Json changed = *job;
  Json& spec = changed["spec"];
  switch (dice_.below(7)) {
    case 0:
    case 1:
      spec["suspend"] = !spec.value("suspend", false);
      break;
    case 2:
      if (spec.contains("servers")) spec["servers"]["nodes"] = dice_.between(1, 3);
      break;
    case 3:
      spec["runPolicy"]["ttlSecondsAfterFinished"] = dice_.between(0, 300);
      break;
    case 4: {
      if (!kueue_) return;
      Json& labels = changed["metadata"]["labels"];
      if (labels.is_object() && labels.contains(kQueueLabel) && dice_.chance(0.5)) {
        labels.erase(kQueueLabel);
      } else {
        labels[kQueueLabel] = dice_.pick<std::string>({"q", "r"});
      }
      break;
    }
    case 5:
      toggle_finalizer(changed);
      break;
    default:
      changed["metadata"]["annotations"]["note"] = std::to_string(dice_.below(100));
  }
  server_.change(kinds::kJobs, std::move(changed), kUser);
}

void Users::touch_child() {
  const std::string& kind = dice_.pick<std::string>(
      {kinds::kServices, kinds::kConfigMaps, kinds::kNetworkPolicies, kinds::kGroups}
  );
  const std::vector<Object> all = server_.snapshot(kind);
  if (all.empty()) return;
  const Object child = dice_.pick(all);
  if (dice_.chance(0.5)) return server_.remove(kind, key_in(*child), kUser);
  Json changed = *child;
  if (kind == kinds::kServices) {
    changed["spec"]["selector"]["broken"] = "yes";
  } else {
    changed["metadata"]["labels"]["extra"] = "yes";
  }
  server_.change(kind, std::move(changed), kUser);
}

void Users::touch_pod() {
  const std::vector<Object> all = server_.snapshot(kinds::kPods);
  if (all.empty()) return;
  const Object pod = dice_.pick(all);
  Json changed = *pod;
  switch (dice_.below(4)) {
    case 0:
      return server_.remove(kinds::kPods, key_in(*pod), kUser);
    case 1:
      changed["metadata"]["labels"].erase(std::string(contract::kLabelJob));
      break;
    case 2:
      toggle_finalizer(changed);
      break;
    default:
      changed["metadata"]["labels"][std::string(contract::kLabelAttempt)] = "7";
  }
  server_.change(kinds::kPods, std::move(changed), kUser);
}

// With the labels of a job of ours, and a name that one of its pods may need.
void Users::make_foreign_pod() {
  const std::string job = "j" + std::to_string(dice_.below(3));
  const std::string name = dice_.chance(0.3)
                               ? contract::server_pod_name(job, 0, dice_.between(0, 1))
                               : contract::pod_name(job, dice_.between(1, 3), dice_.between(0, 1));
  Json pod = {
      {"metadata",
       {{"name", name},
        {"namespace", "a"},
        {"labels", {{contract::kLabelJob, job}, {kForeignLabel, "yes"}}}}},
      {"spec", {{"containers", Json::array()}}}
  };
  const Object owner = server_.find(kinds::kJobs, {.namespace_ = "a", .name = job});
  if (owner && dice_.chance(0.3)) {
    pod["metadata"]["ownerReferences"] = Json::array(
        {{{"apiVersion", contract::kApiGroupVersion},
          {"kind", contract::kKind},
          {"name", job},
          {"uid", uid_in(*owner)},
          {"controller", true}}}
    );
  }
  server_.create(kinds::kPods, std::move(pod), kUser);
}

void Users::administer() {
  const std::string name_space = dice_.chance(0.7) ? "a" : "b";
  switch (dice_.below(7)) {
    case 0:
      pod_quota_[name_space] = dice_.below(3);
      return;
    case 1:
      pod_quota_.clear();
      return;
    case 2:
      refused_kinds_.insert(dice_.pick<std::string>(
          {kinds::kPods, kinds::kServices, kinds::kConfigMaps, kinds::kWorkloads}
      ));
      return;
    case 3:
      refused_kinds_.clear();
      return;
    case 4:
      changes_pods_ = !changes_pods_;
      return;
    case 5:
      if (kueue_) server_.serve(kinds::kWorkloads, !server_.serves(kinds::kWorkloads));
      if (groups_ && dice_.chance(0.5)) {
        server_.serve(kinds::kGroups, !server_.serves(kinds::kGroups));
      }
      return;
    default:
      if (dice_.chance(0.2)) server_.terminate("b", true);
  }
}

std::optional<Refusal> Users::admit(const std::string& kind, Json& object) {
  if (refused_kinds_.contains(kind)) {
    if (dice_.chance(0.3)) {
      return Refusal{500, "InternalError", "failed calling webhook: it does not answer"};
    }
    return Refusal{403, "Forbidden", "admission webhook denied the request: no " + kind};
  }
  if (kind != kinds::kPods) return std::nullopt;
  const std::string name_space = key_in(object).namespace_;
  const auto quota = pod_quota_.find(name_space);
  if (quota != pod_quota_.end()) {
    const auto& pods = server_.all(kinds::kPods);
    const auto used = static_cast<size_t>(std::ranges::count_if(pods, [&](const auto& each) {
      return each.first.namespace_ == name_space;
    }));
    if (used >= quota->second) {
      return Refusal{403, "Forbidden", "pods is forbidden: exceeded quota: pods"};
    }
  }
  if (changes_pods_) {
    object["metadata"]["annotations"]["injected"] = "true";
    object["spec"]["terminationGracePeriodSeconds"] = 5;
  }
  return std::nullopt;
}

void Users::make_way() {
  pod_quota_.clear();
  refused_kinds_.clear();
  changes_pods_ = false;
  server_.serve(kinds::kWorkloads, true);
  server_.serve(kinds::kGroups, true);
  for (const std::string& kind :
       {kinds::kPods,
        kinds::kServices,
        kinds::kConfigMaps,
        kinds::kSecrets,
        kinds::kNetworkPolicies,
        kinds::kGroups,
        kinds::kWorkloads}) {
    for (const Object& object : server_.snapshot(kind)) {
      if (!is_orphan(*object) && !is_foreign(*object)) continue;
      server_.remove(kind, key_in(*object), kUser, {{"gracePeriodSeconds", 0}});
    }
  }
  for (const std::string& kind : {kinds::kPods, kinds::kJobs}) {
    for (const Object& object : server_.snapshot(kind)) {
      if (!has_finalizer(*object, kForeignFinalizer)) continue;
      Json changed = *object;
      drop_finalizer(changed, kForeignFinalizer);
      server_.change(kind, std::move(changed), kUser);
    }
  }
}

}  // namespace gnn::simulation
