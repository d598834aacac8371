#pragma once

#include "common/api/gnn_job.h"
#include "common/contract.h"
#include "controller/objects/pod.h"
#include "controller/reconcile/conditions.h"
#include "controller/reconcile/desired.h"
#include "controller/reconcile/plan.h"
#include "tests/common/api/sample_job.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

/// Builders for the policies' tests: a job of two nodes, and pods in any state.
namespace gnn::reconcile {

inline TimePoint at(int64_t seconds) {
  return TimePoint(std::chrono::seconds(1'800'000'000 + seconds));
}

inline api::GnnJob small_job(int64_t nodes = 2) {
  api::GnnJob job = api::sample_job();
  job.metadata.uid = "uid-of-arxiv";
  job.metadata.generation = 1;
  job.metadata.creation_timestamp = at(0);
  job.spec.workers.nodes = nodes;
  return job;
}

/// The same, with data that are made first.
inline api::GnnJob job_with_prepare(int64_t nodes = 2) {
  api::GnnJob job = small_job(nodes);
  job.spec.dataset = api::sample_prepare_job().spec.dataset;
  job.spec.prepare = api::sample_prepare_job().spec.prepare;
  return job;
}

/// The small job on data of one partition, which each server holds.
inline api::GnnJob job_with_servers(int64_t nodes = 2, int64_t servers = 2) {
  api::GnnJob job = small_job(nodes);
  job.spec.dataset = api::sample_served_job().spec.dataset;
  job.spec.placement = api::Placement{.partitions = 1};
  job.spec.servers = api::sample_served_job().spec.servers;
  job.spec.servers->nodes = servers;
  job.status.data_key_secret = "arxiv-key-0123456789abcdef0123456789abcdef";
  return job;
}

/// The pod of a node, as it is after its creation.
inline objects::Pod pod_of(
    const api::GnnJob& job,
    int64_t node,
    int64_t attempt = 1,
    TimePoint born = at(0),
    int64_t restart = 0
) {
  objects::Pod pod = desired_pod(
      job,
      {.attempt = attempt,
       .node = node,
       .restart = restart,
       .rounds_left = job.spec.run_policy.max_restarts}
  );
  pod.metadata.uid = "uid-of-" + pod.metadata.name;
  pod.metadata.creation_timestamp = born;
  pod.status.phase = "Pending";
  return pod;
}

/// The worker container's variable of that name, or "(absent)".
inline std::string env_of(const objects::Pod& pod, std::string_view name) {
  for (const api::EnvVar& variable : pod.spec.containers.at(0).env) {
    if (variable.name == name) return variable.value.value_or("");
  }
  return "(absent)";
}

inline void add_condition(
    objects::Pod& pod,
    std::string type,
    bool holds,
    std::string reason = "",
    std::string message = ""
) {
  std::erase_if(pod.status.conditions, [&](const auto& each) { return each.type == type; });
  pod.status.conditions.push_back(
      {.type = std::move(type),
       .status = holds ? "True" : "False",
       .reason = std::move(reason),
       .message = std::move(message),
       .last_transition_time = {}}
  );
}

inline objects::Pod& schedule(objects::Pod& pod) {
  pod.spec.node_name = "machine";
  add_condition(pod, "PodScheduled", true);
  return pod;
}

inline objects::Pod& make_ready(objects::Pod& pod) {
  schedule(pod);
  pod.status.phase = "Running";
  pod.status.pod_ip = "127.64.0.1";
  add_condition(pod, "Ready", true);
  return pod;
}

inline objects::ContainerTerminated& end_container(
    objects::Pod& pod, int64_t exit_code, std::string message = "", TimePoint time = at(50)
) {
  schedule(pod);
  add_condition(pod, "Ready", false);
  pod.status.phase = exit_code == 0 ? "Succeeded" : "Failed";
  objects::ContainerStatus status;
  status.name = contract::kWorkerContainer;
  status.state.terminated.emplace();
  status.state.terminated->exit_code = exit_code;
  status.state.terminated->reason = exit_code == 0 ? "Completed" : "Error";
  status.state.terminated->message = std::move(message);
  status.state.terminated->finished_at = time;
  pod.status.container_statuses = {status};
  return *pod.status.container_statuses[0].state.terminated;
}

inline void mark_deleted(objects::Pod& pod, TimePoint due, int64_t grace = 120) {
  pod.metadata.deletion_timestamp = due;
  pod.metadata.deletion_grace_period_seconds = grace;
}

/// A job whose first attempt is running, with the status that the controller wrote.
inline Observed running(int64_t nodes = 2) {
  Observed observed;
  observed.job = small_job(nodes);
  observed.now = at(30);
  for (int64_t node = 0; node < nodes; ++node) {
    objects::Pod pod = pod_of(observed.job, node);
    observed.pods.push_back(make_ready(pod));
  }
  observed.service = desired_service(observed.job);
  observed.config_map = desired_config_map(observed.job);
  observed.network_policy = desired_network_policy(observed.job);
  observed.job.status = plan(observed).status;
  return observed;
}

inline std::string reason_of(const Plan& plan, std::string_view type) {
  const api::Condition* found = find_condition(plan.status, type);
  return found == nullptr ? "" : found->reason;
}

inline std::string message_of(const Plan& plan, std::string_view type) {
  const api::Condition* found = find_condition(plan.status, type);
  return found == nullptr ? "" : found->message;
}

/// What the next pass observes, if the status was written and nothing else changed.
inline Observed next(const Observed& observed, const Plan& before, int64_t wait_seconds = 1) {
  Observed later = observed;
  later.job.status = before.status;
  later.awaits_culprit_since = before.awaits_culprit_since;
  later.now += std::chrono::seconds(wait_seconds);
  return later;
}

/// The attempt that a restart began, running since it was allowed to start.
inline Observed restarted(const Observed& observed, const Plan& decided) {
  Observed later = next(observed, decided);
  later.now = std::max(later.now, decided.status.next_attempt_time.value_or(later.now));
  later.pods.clear();
  for (int64_t node = 0; node < later.job.spec.workers.nodes; ++node) {
    objects::Pod pod = pod_of(later.job, node, decided.status.attempt, later.now);
    later.pods.push_back(make_ready(pod));
  }
  later.job.status = plan(later).status;
  return later;
}

inline std::vector<std::string> event_reasons(const Plan& plan) {
  std::vector<std::string> reasons;
  for (const EventRecord& event : plan.events) reasons.push_back(event.reason);
  return reasons;
}

template <class T>
int64_t count_of(const Plan& plan) {
  return std::count_if(plan.actions.begin(), plan.actions.end(), [](const Action& action) {
    return std::holds_alternative<T>(action);
  });
}

template <class T>
std::vector<T> actions_of(const Plan& plan) {
  std::vector<T> found;
  for (const Action& action : plan.actions) {
    if (const T* match = std::get_if<T>(&action)) found.push_back(*match);
  }
  return found;
}

inline std::string result_message(
    const api::GnnJob& job, int64_t attempt, int64_t node, const std::string& rest = ""
) {
  return R"({"contract": 1, "job": ")" + job.metadata.name + R"(", "jobUid": ")" +
         job.metadata.uid + R"(", "attempt": )" + std::to_string(attempt) + R"(, "node": )" +
         std::to_string(node) + R"(, "exitCode": 0, "reason": "Done")" +
         (rest.find("\"round\"") == std::string::npos ? R"(, "round": 0)" : "") + rest + "}";
}

}  // namespace gnn::reconcile
