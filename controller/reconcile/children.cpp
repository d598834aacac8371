#include "common/contract.h"
#include "controller/reconcile/desired.h"
#include "controller/reconcile/pass.h"

#include <algorithm>
#include <string>
#include <utility>

namespace gnn::reconcile {
namespace {

std::string_view reason_of(ApiRefusal::Kind kind) {
  switch (kind) {
    case ApiRefusal::Kind::Quota:
      return reason::kQuotaExceeded;
    case ApiRefusal::Kind::NameTaken:
      return reason::kNameTaken;
    case ApiRefusal::Kind::Forbidden:
    case ApiRefusal::Kind::Invalid:
      return reason::kRefused;
  }
  return reason::kRefused;
}

/// Something of our name belongs to somebody else. It is never adopted, and nothing is started
/// beside it.
bool is_taken(Pass& pass, const objects::ObjectMeta& meta, std::string_view kind) {
  if (is_owned_by(meta, pass.job())) return false;
  pass.set(
      condition::kScheduled,
      false,
      reason::kNameTaken,
      "The " + std::string(kind) + " " + meta.name +
          " is there already and does not belong to this job"
  );
  pass.requeue(pass.in.config.refusal_retry);
  return true;
}

bool any_name_is_taken(Pass& pass) {
  const Observed& in = pass.in;
  return (in.service && is_taken(pass, in.service->metadata, "Service")) ||
         (in.config_map && is_taken(pass, in.config_map->metadata, "ConfigMap")) ||
         (in.network_policy && is_taken(pass, in.network_policy->metadata, "NetworkPolicy")) ||
         (pass.gang.stranger != nullptr && is_taken(pass, pass.gang.stranger->metadata, "pod"));
}

/// What the API server said a moment ago it would say again.
bool was_refused_just_now(Pass& pass) {
  if (pass.in.refusals.empty()) return false;
  const ApiRefusal& refusal = pass.in.refusals.front();
  if (!pass.gang.is_complete()) {
    pass.set(
        condition::kScheduled,
        false,
        reason_of(refusal.kind),
        "The API server refuses " + refusal.object + ": " + refusal.message
    );
  }
  TimePoint latest{};
  for (const ApiRefusal& each : pass.in.refusals) latest = std::max(latest, each.time);
  const TimePoint again = latest + pass.in.config.refusal_retry;
  if (pass.in.now >= again) return false;
  pass.requeue_at(again);
  return true;
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
    pass.out.actions.emplace_back(UpdateNetworkPolicy{std::move(policy)});
  }
}

}  // namespace

void create_children(Pass& pass) {
  // A gang that is there runs on, whatever is wrong beside it.
  const bool complete = pass.gang.is_complete();
  if (!complete && any_name_is_taken(pass)) return;
  if (was_refused_just_now(pass)) return;
  ensure_common_children(pass);
  if (complete) return;
  const std::int64_t rounds_left =
      std::max<std::int64_t>(pass.job().spec.run_policy.max_restarts - pass.status().restarts, 0);
  for (const NodeView& node : pass.gang.nodes) {
    if (node.phase != NodePhase::Missing) continue;
    pass.out.actions.emplace_back(
        CreatePod{desired_pod(pass.job(), pass.attempt, node.node, rounds_left)}
    );
  }
  // One write tells of the creates and of what they led to. It is true only if none is refused.
  pass.set(condition::kScheduled, false, reason::kPlacing, "All pods exist and are being placed");
  pass.out.status_needs_success = true;
}

}  // namespace gnn::reconcile
