#pragma once

#include "common/api/pod_metadata.h"
#include "common/clock.h"
#include "controller/objects/network_policy.h"
#include "controller/objects/pod_group.h"

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gnn::reconcile {

/// What a job's NetworkPolicy admits besides the traffic among the job's own pods.
struct JobFence {
  /// Who may read the agents' HTTP port; empty: everybody.
  std::vector<objects::NetworkPolicyPeer> metrics_from;
  /// Absent: egress is not restricted. Otherwise the job's pods reach each other, DNS, and these.
  std::optional<std::vector<objects::NetworkPolicyRule>> egress;
  friend bool operator==(const JobFence&, const JobFence&) = default;
};

/// Whom pods run as whose job says nothing of it.
enum class PodUser {
  OfImages,   ///< the user and group of the images
  OfCluster,  ///< pods say nothing either: something in the cluster, such as OpenShift, assigns them
};

/// Which of Volcano's queues jobs may name, by namespace; "*" stands for any namespace, or any queue.
using VolcanoQueues = std::map<std::string, std::vector<std::string>>;

/// The operator's own settings, as far as decisions depend on them.
struct OperatorConfig {
  bool network_policy = true;  ///< give each job a NetworkPolicy
  JobFence fence;
  /// The APIs for groups of pods that the operator may use, whether they are served or not.
  std::vector<objects::GroupApi> group_apis;
  /// The schedulers whose pods are grouped so with provider Auto.
  std::vector<std::string> coscheduling_schedulers;
  std::vector<std::string> volcano_schedulers = {"volcano"};
  std::optional<VolcanoQueues> volcano_queues;  ///< absent: any
  bool kueue = false;              ///< the operator may use Kueue, whether it is served or not
  bool kueue_manages_all = false;  ///< also jobs that name no queue
  api::AllowedKeys allowed_keys;   ///< of labels and annotations that jobs put on their pods
  PodUser pod_user = PodUser::OfImages;
  /// How long a released gang waits before it is created again. Doubles with each release up to the
  /// cap; jittered by the job's UID.
  Duration release_backoff = std::chrono::seconds(15);
  Duration release_backoff_cap = std::chrono::minutes(10);
  /// The floor below what jobs say of their back-off: of restarts that follow each other within the
  /// window, from which on each waits for the floor. A server's pod that lived for longer than the
  /// window is none that failed at once.
  Duration restart_floor = std::chrono::seconds(10);
  int64_t restarts_at_once = 3;
  Duration restart_window = std::chrono::minutes(1);
  /// How long to wait after the API server refused a child. Doubles with each refusal in a row up to
  /// the cap, unless what is missing is a quota or a name, which others may free at any time.
  Duration refusal_retry = std::chrono::seconds(10);
  Duration refusal_retry_cap = std::chrono::minutes(6);
  /// How long nodes that only report a lost peer wait for the node that caused it to fail, too.
  /// Covers a machine's death: its peers leave after about 10 s; after 50 s its pods are no longer
  /// ready, and up to 35 s later they are evicted.
  Duration culprit_wait = std::chrono::seconds(90);
  /// How long a server that ended with 0, and those of a completed job, may stay before they are
  /// replaced or deleted: they know that the workers are done before their pods tell.
  Duration server_end_patience = std::chrono::seconds(30);
  /// A pod that exists this long after its deletion was due is presumed lost with its machine.
  Duration lost_after = std::chrono::seconds(30);
  /// How long a pod with a machine may wait for its containers, without saying why, until its events are
  /// read; and again if they told nothing, for what a kubelet gives up only then.
  Duration explain_after = std::chrono::seconds(30);
  Duration explain_again_after = std::chrono::seconds(180);
  /// How long to wait for a newer state of a job whose pods belong to a later attempt.
  Duration stale_retry = std::chrono::seconds(5);
  /// Minimum time between two status writes that differ only in counts and messages. Counts do not
  /// wait for what was written without them.
  Duration minor_status_interval = std::chrono::seconds(1);
  /// The same for writes that differ only in how far the current epoch is. With the wait for a turn, no
  /// more than half a minute for some 150 jobs.
  Duration progress_status_interval = std::chrono::seconds(25);
  /// How long the news of a job's first gang may wait while it starts in good order and other jobs
  /// wait for a pass, counted from the creation of its newest pod.
  Duration start_news_patience = std::chrono::seconds(10);
};

}  // namespace gnn::reconcile
