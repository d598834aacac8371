#include "controller/reconcile/pod_group.h"

#include "common/api/enums.h"
#include "common/contract.h"
#include "common/printable.h"
#include "controller/reconcile/conditions.h"
#include "controller/reconcile/desired.h"
#include "controller/reconcile/node_replacement.h"

#include <algorithm>
#include <vector>

namespace gnn::reconcile {
namespace {

using api::GangProvider;
using api::SchedulingStatus;
using objects::GroupApi;

constexpr size_t kMaxGroupMessageBytes = 1024;
constexpr std::string_view kDefaultScheduler = "default-scheduler";

std::string name_of_group(const Pass& pass) {
  return contract::group_name(pass.job().metadata.name, pass.attempt);
}

SchedulingStatus in_group(const Pass& pass, GroupApi api) {
  return {.provider = std::string(objects::to_string(api)), .group = name_of_group(pass)};
}

SchedulingStatus one_by_one(const std::string& why = {}) {
  SchedulingStatus chosen{.provider = std::string(api::to_string(GangProvider::None))};
  if (!why.empty()) chosen.message = "Pods are placed one by one: " + why;
  return chosen;
}

template <class T>
bool holds(const std::vector<T>& all, const T& one) {
  return std::ranges::find(all, one) != all.end();
}

// Why this API's groups are not to be had; empty if they are.
std::string why_not_offered(const Pass& pass, GroupApi api) {
  const std::string groups = "podgroups of " + objects::api_version_of(api);
  if (!holds(pass.in.config.group_apis, api)) return "the operator may not use " + groups;
  if (!holds(pass.in.group_apis, api)) return "the API server does not serve " + groups;
  const api::Scheduling& scheduling = *pass.job().spec.scheduling;
  if (api != GroupApi::Native &&
      (scheduling.scheduling_constraints || scheduling.disruption_mode)) {
    return std::string(objects::to_string(api)) +
           " knows neither schedulingConstraints nor disruptionMode";
  }
  return "";
}

SchedulingStatus if_offered(const Pass& pass, GroupApi api) {
  const std::string why_not = why_not_offered(pass, api);
  return why_not.empty() ? in_group(pass, api) : one_by_one(why_not);
}

// The API that the spec asks for, or why it asks for none.
struct AskedApi {
  std::optional<GroupApi> api{};
  std::string why_none{};
};

AskedApi asked_of_scheduler(const Pass& pass) {
  const std::string scheduler =
      pass.job().spec.workers.pod_template->scheduler_name.value_or(std::string(kDefaultScheduler));
  const OperatorConfig& config = pass.in.config;
  if (holds(config.volcano_schedulers, scheduler)) return {.api = GroupApi::Volcano};
  if (holds(config.coscheduling_schedulers, scheduler)) return {.api = GroupApi::Coscheduling};
  if (scheduler == kDefaultScheduler) return {.api = GroupApi::Native};
  return {.why_none = "no groups are known of the scheduler " + scheduler};
}

AskedApi asked_api(const Pass& pass) {
  switch (pass.job().spec.scheduling->provider) {
    case GangProvider::Auto:
      return asked_of_scheduler(pass);
    case GangProvider::None:
      return {};
    case GangProvider::Native:
      return {.api = GroupApi::Native};
    case GangProvider::Coscheduling:
      return {.api = GroupApi::Coscheduling};
    case GangProvider::Volcano:
      return {.api = GroupApi::Volcano};
  }
  return {};
}

const std::vector<std::string>& schedulers_of(const OperatorConfig& config, GroupApi api) {
  static const std::vector<std::string> kUnknown;
  switch (api) {
    case GroupApi::Coscheduling:
      return config.coscheduling_schedulers;
    case GroupApi::Volcano:
      return config.volcano_schedulers;
    case GroupApi::Native:
      break;
  }
  return kUnknown;
}

// If the job names a scheduler, it must be one of those that place groups of this API, as far as these
// are known.
SchedulingStatus if_scheduler_knows(const Pass& pass, GroupApi api) {
  const std::string named = pass.job().spec.workers.pod_template->scheduler_name.value_or("");
  const std::vector<std::string>& known = schedulers_of(pass.in.config, api);
  if (named.empty() || known.empty() || holds(known, named)) return if_offered(pass, api);
  std::string names;
  for (const std::string& each : known) names += (names.empty() ? "" : ", ") + each;
  return one_by_one(
      "the operator knows no groups of " + std::string(objects::to_string(api)) +
      " for the scheduler " + named + ", only for " + names
  );
}

// What the spec asks for, as far as it is to be had.
SchedulingStatus wanted(const Pass& pass) {
  const AskedApi asked = asked_api(pass);
  return asked.api ? if_scheduler_knows(pass, *asked.api) : one_by_one(asked.why_none);
}

bool has_begun(const Pass& pass) {
  return std::ranges::any_of(pass.gang.nodes, [](const NodeView& node) {
    return node.pod != nullptr;
  });
}

// Volcano makes a group of its own for a pod that names none, and has the pod name that.
bool names_group_of_attempt(const Pass& pass, const objects::Pod& pod) {
  return pod.spec.group && pod.spec.group->group == name_of_group(pass);
}

// What the first pods of the attempt's nodes say: they were created alike.
struct FirstPods {
  const objects::Pod* grouped = nullptr;
  const objects::Pod* ungrouped = nullptr;
};

FirstPods first_pods(const Pass& pass) {
  FirstPods found;
  for (const NodeView& node : pass.gang.nodes) {
    if (node.pod == nullptr || restart_of(pass.job().status, node.node) > 0) continue;
    (names_group_of_attempt(pass, *node.pod) ? found.grouped : found.ungrouped) = node.pod;
  }
  return found;
}

SchedulingStatus dropped(const objects::Pod& pod) {
  return one_by_one(
      "pod " + pod.metadata.name + " was created without its group: the API server drops " +
      "spec.schedulingGroup while its feature gate GenericWorkload is off"
  );
}

const objects::PodGroup* find_group(const Pass& pass) {
  const auto& chosen = pass.status().scheduling;
  const bool decided = chosen && chosen->provider;
  const auto api = decided ? objects::group_api_of(*chosen->provider) : std::nullopt;
  for (const objects::PodGroup& group : pass.in.groups) {
    if (api == group.api && chosen->group == group.metadata.name) return &group;
  }
  return nullptr;
}

objects::GroupMembership membership(const Pass& pass) {
  const SchedulingStatus& chosen = *pass.status().scheduling;
  return {.api = *objects::group_api_of(*chosen.provider), .group = *chosen.group};
}

// Schedulers place only pods of one scheduler and one priority together.
bool servers_may_join(const api::GnnJob& job) {
  if (!job.spec.servers) return false;
  const api::PodTemplate& workers = *job.spec.workers.pod_template;
  const api::PodTemplate& servers = *job.spec.servers->pod_template;
  return workers.scheduler_name == servers.scheduler_name &&
         workers.priority_class_name == servers.priority_class_name;
}

// Whether the server has a pod that waits with the group, or gets one.
bool is_to_join(const Pass& pass, const ServerView& server) {
  const NodePhase phase = server.seen.phase;
  if (phase == NodePhase::Starting || phase == NodePhase::Ready) return false;
  return phase != NodePhase::Unscheduled || waits_for_group(pass, *server.seen.pod);
}

GroupMembers count_members(const Pass& pass) {
  GroupMembers members{.workers = static_cast<int64_t>(pass.gang.nodes.size())};
  if (!servers_may_join(pass.job())) return members;
  members.servers = std::ranges::count_if(pass.servers.servers, [&](const ServerView& each) {
    return each.seen.node < needed_servers(pass.job()) && is_to_join(pass, each);
  });
  return members;
}

// Whether the API server still serves the API that was chosen.
bool is_served(const Pass& pass) {
  return holds(pass.in.group_apis, membership(pass).api);
}

void remove_groups_but(Pass& pass, const std::string& kept) {
  for (const objects::PodGroup& group : pass.in.groups) {
    const objects::ObjectMeta& meta = group.metadata;
    if (!is_owned_by(meta, pass.job()) || meta.deletion_timestamp || meta.name == kept) continue;
    pass.out.actions.emplace_back(DeleteGroup{group.api, meta.name, meta.uid, meta.resource_version}
    );
  }
}

}  // namespace

void choose_group(Pass& pass) {
  auto& chosen = pass.status().scheduling;
  if (!pass.job().spec.scheduling || pass.preparing()) return chosen.reset();
  if (!has_begun(pass) || !chosen || !chosen->provider) chosen = wanted(pass);
  const FirstPods pods = first_pods(pass);
  if (pods.grouped != nullptr) {
    if (!chosen->group) chosen = in_group(pass, pods.grouped->spec.group->api);
  } else if (pods.ungrouped != nullptr && chosen->group) {
    chosen = dropped(*pods.ungrouped);
  }
}

void forget_group(Pass& pass) {
  pass.status().scheduling.reset();
}

bool has_group(const Pass& pass) {
  return pass.status().scheduling && pass.status().scheduling->group;
}

std::string why_group_is_unknown(const Pass& pass) {
  if (!pass.job().spec.scheduling || pass.preparing()) return "";
  if (pass.gang.is_complete() || was_placed(pass)) return "";
  if (has_begun(pass) && !has_group(pass)) return "";
  const auto api = has_group(pass) ? std::optional(membership(pass).api) : asked_api(pass).api;
  if (!api) return "";
  const auto found = pass.in.unknown_group_apis.find(*api);
  return found == pass.in.unknown_group_apis.end() ? "" : found->second;
}

bool group_stands(const Pass& pass) {
  if (!has_group(pass)) return false;
  // Nothing is given up for what nobody can know now.
  if (pass.in.unknown_group_apis.contains(membership(pass).api)) return true;
  if (!is_served(pass)) return false;
  const objects::PodGroup* group = find_group(pass);
  if (group == nullptr) return pass.in.refusals.empty();
  return is_owned_by(group->metadata, pass.job()) && !group->metadata.deletion_timestamp;
}

bool waits_for_group(const Pass& pass, const objects::Pod& pod) {
  return pod.spec.node_name.empty() && pod.spec.group &&
         contract::attempt_of_group(pass.job().metadata.name, pod.spec.group->group);
}

bool was_placed(const Pass& pass) {
  const api::GnnJobStatus& status = pass.job().status;
  return is_true(status, condition::kScheduled) || !status.replaced_nodes.empty();
}

std::optional<objects::GroupMembership> group_of_new_workers(const Pass& pass) {
  if (!has_group(pass) || was_placed(pass)) return std::nullopt;
  return membership(pass);
}

std::optional<objects::GroupMembership> group_of_new_servers(const Pass& pass) {
  if (!has_group(pass) || was_placed(pass) || !servers_may_join(pass.job())) return std::nullopt;
  const objects::PodGroup* group = find_group(pass);
  const auto workers = static_cast<int64_t>(pass.gang.nodes.size());
  // One that was made for the workers alone does not wait for servers.
  if (group != nullptr && group->spec.min_count == workers) return std::nullopt;
  return membership(pass);
}

void choose_scheduler(const Pass& pass, objects::Pod& pod) {
  if (!pod.spec.group || !pod.spec.scheduler_name.empty()) return;
  const std::vector<std::string>& known = schedulers_of(pass.in.config, pod.spec.group->api);
  if (!known.empty()) pod.spec.scheduler_name = known.front();
}

const objects::PodGroup* foreign_group(const Pass& pass) {
  const objects::PodGroup* group = find_group(pass);
  return group != nullptr && !is_owned_by(group->metadata, pass.job()) ? group : nullptr;
}

void create_group(Pass& pass) {
  if (!has_group(pass) || was_placed(pass) || find_group(pass) != nullptr) return;
  if (!is_served(pass)) return;
  pass.out.actions.emplace_back(CreateGroup{
      desired_group(pass.job(), membership(pass).api, pass.attempt, count_members(pass))
  });
}

void remove_other_groups(Pass& pass) {
  const bool none = pass.status().scheduling && !pass.status().scheduling->group;
  remove_groups_but(pass, none ? "" : name_of_group(pass));
}

void remove_all_groups(Pass& pass) {
  remove_groups_but(pass, "");
}

bool is_queued(const Pass& pass) {
  const objects::PodGroup* group = find_group(pass);
  return group != nullptr && group->api == GroupApi::Volcano && group->phase == "Pending";
}

std::string why_group_waits(const Pass& pass) {
  const objects::PodGroup* group = find_group(pass);
  if (group == nullptr) return "";
  for (const objects::GroupCondition& each : group->conditions) {
    const bool waits = (each.type == "PodGroupInitiallyScheduled" && each.status == "False") ||
                       (each.type == "Unschedulable" && each.status == "True");
    if (!waits) continue;
    return printable_line(each.message.empty() ? each.reason : each.message, kMaxGroupMessageBytes);
  }
  return "";
}

}  // namespace gnn::reconcile
