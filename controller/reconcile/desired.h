#pragma once

#include "common/api/gnn_job.h"
#include "controller/objects/config_map.h"
#include "controller/objects/network_policy.h"
#include "controller/objects/pod.h"
#include "controller/objects/service.h"
#include "controller/reconcile/observed.h"

#include <cstdint>
#include <map>
#include <string>

/// The children that a job should have. Names are deterministic, and the job owns each child.
namespace gnn::reconcile {

using Labels = std::map<std::string, std::string>;

/// Which pod of a job.
struct PodPlace {
  int64_t attempt = 1;
  int64_t node = 0;
  int64_t restart = 0;      ///< how often the node's pod was replaced before in the attempt
  int64_t rounds_left = 0;  ///< how often the attempt may restart its ranks in place
};

/// By which all pods of a job are watched and addressed.
[[nodiscard]] Labels identifying_labels(const api::GnnJob& job);
/// The same for a pod of the gang, with those by which it is grouped.
[[nodiscard]] Labels identifying_labels(const api::GnnJob& job, const PodPlace& place);

/// Headless. Publishes pods that are not ready, since pods must find each other to become ready.
[[nodiscard]] objects::Service desired_service(const api::GnnJob& job);

/// Whether the job's nodes ask each other for parts of the data, and therefore need a data key.
[[nodiscard]] bool serves_data(const api::GnnJob& job);

/// Holds the worker's part of the spec; immutable. The data key is put in when it is created.
[[nodiscard]] objects::ConfigMap desired_config_map(const api::GnnJob& job);

/// The job's pods reach each other on every port. Others reach only the agents' HTTP port, and the
/// job's pods reach others, as the fence allows.
[[nodiscard]] objects::NetworkPolicy desired_network_policy(
    const api::GnnJob& job, const JobFence& fence = {}
);

/// The pod of one node in one attempt, within Pod Security "restricted".
[[nodiscard]] objects::Pod desired_pod(const api::GnnJob& job, const PodPlace& place);

/// The pod that makes the job's data, from the workers' template and within the same bounds. It has no
/// attempt or node label, so that nobody takes it for one of the gang.
[[nodiscard]] objects::Pod desired_prepare_pod(const api::GnnJob& job, int64_t attempt);

}  // namespace gnn::reconcile
