#pragma once

#include "common/api/gnn_job.h"
#include "controller/objects/config_map.h"
#include "controller/objects/network_policy.h"
#include "controller/objects/pod.h"
#include "controller/objects/pod_group.h"
#include "controller/objects/secret.h"
#include "controller/objects/service.h"
#include "controller/reconcile/observed.h"
#include "controller/reconcile/pod_admission.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

/// The children that a job should have. Names are deterministic, and the job owns each child.
namespace gnn::reconcile {

using Labels = std::map<std::string, std::string>;

/// Which pod of a job.
struct PodPlace {
  int64_t attempt = 1;
  int64_t node = 0;
  int64_t restart = 0;      ///< how often the node's pod was replaced before in the attempt
  int64_t rounds_left = 0;  ///< how often the attempt may restart its ranks in place
  std::optional<objects::GroupMembership> group = {};
  std::optional<PodAdmission> admission = {};
};

/// Which pod of a job's sampling servers.
struct ServerPlace {
  int64_t server = 0;
  int64_t restart = 0;  ///< how many pods of this server there were before
  std::optional<objects::GroupMembership> group = {};
  std::optional<PodAdmission> admission = {};
};

/// By which all pods of a job are watched and addressed.
[[nodiscard]] Labels identifying_labels(const api::GnnJob& job);
/// The same for a pod of the gang, with those by which it is grouped.
[[nodiscard]] Labels identifying_labels(const api::GnnJob& job, const PodPlace& place);

/// The same for a pod of a server.
[[nodiscard]] Labels identifying_labels(const api::GnnJob& job, const ServerPlace& place);

/// Headless. Publishes pods that are not ready, since pods must find each other to become ready.
[[nodiscard]] objects::Service desired_service(const api::GnnJob& job);

/// Whether the job's nodes ask each other, or servers, for parts of the data or batches of them, and
/// therefore need a data key.
[[nodiscard]] bool serves_data(const api::GnnJob& job);

/// Holds the worker's part of the spec; immutable.
[[nodiscard]] objects::ConfigMap desired_config_map(const api::GnnJob& job);

/// For the data key, which is put in when it is created. `suffix`: of contract::data_key_name().
[[nodiscard]] objects::Secret desired_data_key(const api::GnnJob& job, std::string_view suffix);

/// The job's pods reach each other on every port. Others reach only the agents' HTTP port, and the
/// job's pods reach others, as the fence allows.
[[nodiscard]] objects::NetworkPolicy desired_network_policy(
    const api::GnnJob& job, const JobFence& fence = {}
);

/// How many pods of each role an attempt's group has.
struct GroupMembers {
  int64_t workers = 0;
  int64_t servers = 0;
};

/// The group of an attempt's pods, which are placed together if the job asks for a gang.
[[nodiscard]] objects::PodGroup desired_group(
    const api::GnnJob& job, objects::GroupApi api, int64_t attempt, const GroupMembers& members
);

/// The pod of one node in one attempt, within Pod Security "restricted".
[[nodiscard]] objects::Pod desired_pod(
    const api::GnnJob& job, const PodPlace& place, PodUser user = PodUser::OfImages
);

/// The pod that makes the job's data, from the workers' template and within the same bounds. It has no
/// attempt or node label, so that nobody takes it for one of the gang.
[[nodiscard]] objects::Pod desired_prepare_pod(
    const api::GnnJob& job,
    int64_t attempt,
    PodUser user = PodUser::OfImages,
    const std::optional<PodAdmission>& admission = {}
);

/// The Workload by which the job waits for Kueue: for its gang and servers, or for the pod that
/// `prepares` its data.
[[nodiscard]] objects::Workload desired_workload(
    const api::GnnJob& job, std::string name, bool prepares
);

/// The pod of a sampling server, from the servers' template and within the same bounds. Nothing waits
/// for its result, so that it has no finalizer.
[[nodiscard]] objects::Pod desired_server_pod(
    const api::GnnJob& job, const ServerPlace& place, PodUser user = PodUser::OfImages
);

}  // namespace gnn::reconcile
