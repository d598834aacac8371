#pragma once

#include "common/api/gnn_job.h"
#include "common/clock.h"
#include "controller/objects/config_map.h"
#include "controller/objects/network_policy.h"
#include "controller/objects/pod.h"
#include "controller/objects/service.h"
#include "controller/reconcile/report.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gnn::reconcile {

/// What a job's NetworkPolicy lets through besides the traffic among the job's own pods.
struct JobFence {
  /// Who may read the agents' HTTP port; empty: everybody.
  std::vector<objects::NetworkPolicyPeer> metrics_from;
  /// Absent: pods reach whom they like. Otherwise only their own, DNS, and these.
  std::optional<std::vector<objects::NetworkPolicyRule>> egress;
  friend bool operator==(const JobFence&, const JobFence&) = default;
};

struct OperatorConfig {
  bool network_policy = true;  ///< give each job a NetworkPolicy
  JobFence fence;
  /// A released gang is tried again after this, doubled with each release, up to the cap, with
  /// jitter by the job's UID.
  Duration release_backoff = std::chrono::seconds(15);
  Duration release_backoff_cap = std::chrono::minutes(10);
  /// After the API server refused a child, the next try is not before this.
  Duration refusal_retry = std::chrono::seconds(10);
  /// Nodes that say only "peer lost" wait this long for the culprit to show.
  Duration culprit_wait = std::chrono::seconds(60);
  /// Attempts that are not charged follow each other no faster than this.
  Duration min_attempt_interval = std::chrono::seconds(10);
  /// A pod that is still there this long after its deletion was due is lost with its node.
  Duration lost_after = std::chrono::seconds(30);
  /// A status that differs in counts and texts alone is written no sooner than this after the last.
  Duration minor_status_interval = std::chrono::seconds(1);
};

/// A write that the API server refused: quota, admission, Pod Security, validation, or a name that
/// somebody else holds.
struct ApiRefusal {
  enum class Kind {
    Quota,      ///< 403 whose text says "exceeded quota"
    Forbidden,  ///< any other 403
    Invalid,    ///< 422 and 400
    NameTaken,  ///< 409 AlreadyExists, and what is there does not belong to this job
  };
  Kind kind = Kind::Forbidden;
  std::string object;   ///< e.g. "pod arxiv-1-0"
  std::string message;  ///< the API server's text
  TimePoint time{};     ///< when it was refused
  friend bool operator==(const ApiRefusal&, const ApiRefusal&) = default;
};

/// All that a reconcile pass may look at. Time is a field like any other.
struct Observed {
  api::GnnJob job;
  /// Every pod of the namespace whose label gnn.dev/job is the job's name, whoever owns it.
  std::vector<objects::Pod> pods;
  /// The objects of the children's name, whoever owns them.
  std::optional<objects::Service> service;
  std::optional<objects::ConfigMap> config_map;
  std::optional<objects::NetworkPolicy> network_policy;
  /// The last answer of node 0's agent.
  std::optional<Report> progress;
  /// What was refused in the last pass that wrote; empty once a pass went through.
  std::vector<ApiRefusal> refusals;
  /// When this controller last wrote the job's status; nothing: it has not yet.
  std::optional<TimePoint> status_written;
  /// Plan::awaits_culprit_since of the pass before: since when, by our own clock, failed nodes wait
  /// for the one that explains them. Nothing: they don't, or this controller has not seen it yet.
  std::optional<TimePoint> awaits_culprit_since;
  /// Name ("ns/name") of an older job whose gang is just being placed; needed only if
  /// wants_competitors(job). See older_gang_in_placement().
  std::optional<std::string> older_gang;
  OperatorConfig config;
  TimePoint now{};
};

/// Whether the plan depends on other jobs: the gang was released and waits for its next try.
[[nodiscard]] bool wants_competitors(const api::GnnJob& job);

/// Whether `other` is older than `job` and its gang is just being placed: it goes first.
[[nodiscard]] bool is_older_gang_in_placement(const api::GnnJob& other, const api::GnnJob& job);

}  // namespace gnn::reconcile
