#pragma once

#include "common/api/gnn_job.h"
#include "controller/objects/config_map.h"
#include "controller/objects/network_policy.h"
#include "controller/objects/pod.h"
#include "controller/objects/service.h"
#include "controller/reconcile/observed.h"

#include <cstdint>

/// The children that a job should have. Names are deterministic, each child is owned by the job.
namespace gnn::reconcile {

/// Headless, with the addresses of pods that are not ready yet: they must meet to become ready.
[[nodiscard]] objects::Service desired_service(const api::GnnJob& job);

/// The worker's part of the job; immutable.
[[nodiscard]] objects::ConfigMap desired_config_map(const api::GnnJob& job);

/// Pods of the job reach each other on every port; others reach the agent's HTTP port alone, and
/// the job's pods reach others, as far as the fence lets them.
[[nodiscard]] objects::NetworkPolicy desired_network_policy(
    const api::GnnJob& job, const JobFence& fence = {}
);

/// One node of one attempt, within Pod Security "restricted". `rounds_left` is fixed from now on.
[[nodiscard]] objects::Pod desired_pod(
    const api::GnnJob& job, std::int64_t attempt, std::int64_t node, std::int64_t rounds_left
);

}  // namespace gnn::reconcile
