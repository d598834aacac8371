#include "controller/reconcile/children.h"

#include "controller/reconcile/conditions.h"
#include "controller/reconcile/data_key.h"
#include "controller/reconcile/desired.h"
#include "controller/reconcile/doubling.h"
#include "controller/reconcile/node_replacement.h"
#include "controller/reconcile/pod_group.h"
#include "controller/reconcile/refusals.h"
#include "controller/reconcile/servers.h"
#include "controller/reconcile/status.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gnn::reconcile {
namespace {

// An object with one of our names that is not owned by this job. It is never adopted, and nothing
// is created beside it.
struct ForeignObject {
  std::string_view kind;
  const objects::ObjectMeta* meta = nullptr;
};

// Of those that all pods share.
std::optional<ForeignObject> foreign_common_object(const Pass& pass) {
  const Observed& in = pass.in;
  std::vector<ForeignObject> candidates;
  if (in.service) candidates.push_back({"Service", &in.service->metadata});
  if (in.config_map) candidates.push_back({"ConfigMap", &in.config_map->metadata});
  if (in.network_policy) candidates.push_back({"NetworkPolicy", &in.network_policy->metadata});
  if (const auto* group = foreign_group(pass)) candidates.push_back({"PodGroup", &group->metadata});
  for (const ForeignObject& each : candidates) {
    if (!is_owned_by(*each.meta, pass.job())) return each;
  }
  return std::nullopt;
}

// Of all without which the gang cannot run.
std::optional<ForeignObject> foreign_object(const Pass& pass) {
  if (const auto common = foreign_common_object(pass)) return common;
  if (pass.gang.stranger != nullptr) return ForeignObject{"Pod", &pass.gang.stranger->metadata};
  for (const ServerView& each : pass.servers.servers) {
    if (each.seen.node >= needed_servers(pass.job())) break;
    if (each.stranger != nullptr) return ForeignObject{"Pod", &each.stranger->metadata};
  }
  return std::nullopt;
}

void describe_foreign_object(Pass& pass, const ForeignObject& object) {
  pass.set(
      condition::kScheduled,
      false,
      reason::kNameTaken,
      std::string(object.kind) + " " + object.meta->name +
          " already exists and is not owned by this GNNJob"
  );
  pass.requeue(pass.in.config.refusal_retry);
}

void describe_refusal(Pass& pass, const ApiRefusal& refusal) {
  pass.set(condition::kScheduled, false, reason_of(refusal.kind), message_of(refusal));
}

Duration retry_wait(const Observed& in) {
  const bool others_may_help =
      std::all_of(in.refusals.begin(), in.refusals.end(), [](const ApiRefusal& each) {
        return each.kind == ApiRefusal::Kind::Quota || each.kind == ApiRefusal::Kind::NameTaken;
      });
  if (others_may_help) return in.config.refusal_retry;
  return doubled(in.config.refusal_retry, in.refused_in_a_row - 1, in.config.refusal_retry_cap);
}

// Whether the refused pod is of a server that the gang can do without.
bool is_of_further_server(const Pass& pass, const ApiRefusal& refusal) {
  return is_of_server(pass.job(), refusal, needed_servers(pass.job()));
}

// What was refused of that without which the gang cannot run.
const ApiRefusal* refusal_of_needed(const Pass& pass) {
  for (const ApiRefusal& each : pass.in.refusals) {
    if (!is_of_further_server(pass, each)) return &each;
  }
  return nullptr;
}

// When to try again what the API server refused; nothing if it refused nothing.
std::optional<TimePoint> retry_time(const Pass& pass) {
  if (pass.in.refusals.empty()) return std::nullopt;
  TimePoint latest{};
  for (const ApiRefusal& each : pass.in.refusals) latest = std::max(latest, each.time);
  return latest + retry_wait(pass.in);
}

void ensure_common_children(Pass& pass) {
  const Observed& in = pass.in;
  const auto is_drifted = [&](const auto& observed, const auto& wanted) {
    return is_owned_by(observed.metadata, in.job) && observed.spec != wanted.spec;
  };
  objects::Service service = desired_service(in.job);
  if (!in.service) {
    pass.out.actions.emplace_back(CreateService{std::move(service)});
  } else if (is_drifted(*in.service, service)) {
    service.metadata.uid = in.service->metadata.uid;
    pass.out.actions.emplace_back(UpdateService{std::move(service)});
  }
  if (!in.config_map) {
    pass.out.actions.emplace_back(CreateConfigMap{desired_config_map(in.job)});
  }
  if (!in.config.network_policy) return;
  objects::NetworkPolicy policy = desired_network_policy(in.job, in.config.fence);
  if (!in.network_policy) {
    pass.out.actions.emplace_back(CreateNetworkPolicy{std::move(policy)});
  } else if (is_drifted(*in.network_policy, policy)) {
    policy.metadata.uid = in.network_policy->metadata.uid;
    pass.out.actions.emplace_back(UpdateNetworkPolicy{std::move(policy)});
  }
}

void create_pods(Pass& pass) {
  if (pass.preparing()) {
    pass.out.actions.emplace_back(CreatePod{desired_prepare_pod(
        pass.job(), pass.attempt, pass.in.config.pod_user, admission_of_nodes(pass)
    )});
    return;
  }
  // Since the attempt began: what its rounds have cost is theirs to count.
  const api::GnnJobStatus& status = pass.status();
  const int64_t rounds_left = std::max<int64_t>(
      pass.job().spec.run_policy.max_restarts - (status.restarts - status.round), 0
  );
  const auto admission = admission_of_nodes(pass);
  for (const NodeView& node : pass.gang.nodes) {
    if (node.phase != NodePhase::Missing) continue;
    objects::Pod pod = desired_pod(
        pass.job(),
        {.attempt = pass.attempt,
         .node = node.node,
         .restart = restart_of(status, node.node),
         .rounds_left = rounds_left,
         .group = group_of_new_workers(pass),
         .admission = admission},
        pass.in.config.pod_user
    );
    choose_scheduler(pass, pod);
    pass.out.actions.emplace_back(CreatePod{std::move(pod)});
  }
}

// Whether the job is not admitted, or not in a way by which its pods can be made; says so.
bool lacks_admission(Pass& pass) {
  const auto problem = admission_problem(pass);
  if (!problem) return false;
  if (!pass.gang.is_complete()) {
    pass.set(condition::kScheduled, false, reason::kQueued, problem->message);
    forget_group(pass);
  }
  pass.requeue(pass.in.config.refusal_retry);
  return true;
}

// Whether nothing is to be created, because what is missing may only not be seen.
bool waits_for_memory(Pass& pass) {
  if (pass.in.memory_limit.empty()) return false;
  pass.requeue(pass.in.config.refusal_retry);
  return true;
}

}  // namespace

bool waits_for_retry(Pass& pass) {
  const auto retry = retry_time(pass);
  if (!retry || pass.in.now >= *retry) return false;
  pass.requeue_at(*retry);
  return true;
}

void create_children(Pass& pass) {
  // A gang that exists runs on, whatever happens to its other children.
  const bool complete = pass.gang.is_complete();
  if (waits_for_memory(pass)) {
    if (!complete) {
      pass.set(condition::kScheduled, false, reason::kMemoryLimit, pass.in.memory_limit);
    }
    return;
  }
  const ApiRefusal* refusal = refusal_of_needed(pass);
  if (!complete) {
    if (const auto foreign = foreign_object(pass)) return describe_foreign_object(pass, *foreign);
    if (refusal != nullptr) describe_refusal(pass, *refusal);
  }
  const bool waits = waits_for_retry(pass);
  if (waits && refusal != nullptr) return;
  ensure_common_children(pass);
  if (complete && foreign_common_object(pass)) return;
  const bool lacks_pods = !complete || lacks_server_pods(pass);
  if (lacks_pods && (lacks_admission(pass) || lacks_data_key(pass))) return;
  create_group(pass);
  create_server_pods(pass, ServerShare::Needed, group_of_new_servers(pass));
  if (complete) {
    // In no pass with a pod of the gang: pods are created side by side, and a quota may not suffice
    // for all.
    if (!waits) create_server_pods(pass, ServerShare::Further);
    return;
  }
  create_pods(pass);
  // The status is written after the creates and assumes that none is refused.
  pass.set(condition::kScheduled, false, reason::kPlacing, std::string(kPlacingMessage));
  pass.out.status_needs_success = true;
}

void create_servers(Pass& pass) {
  if (!lacks_server_pods(pass) || !is_true(pass.status(), condition::kAccepted)) return;
  if (waits_for_memory(pass)) return;
  if (!pass.gang.previous.empty() || foreign_common_object(pass) || waits_for_retry(pass)) return;
  if (admission_problem(pass)) return pass.requeue(pass.in.config.refusal_retry);
  ensure_common_children(pass);
  if (lacks_data_key(pass)) return;
  create_server_pods(pass, ServerShare::Needed);
  create_server_pods(pass, ServerShare::Further);
}

}  // namespace gnn::reconcile
