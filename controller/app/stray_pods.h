#pragma once

#include "common/guarded.h"
#include "controller/client/api_client.h"
#include "controller/objects/pod.h"

#include <functional>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

namespace gnn::app {

/// Whether a pod may be none of the past: our finalizer holds it, or its container may run, now or later.
[[nodiscard]] bool is_held_or_runs(const objects::Pod& pod);

/// The key of the job that a pod without our label belongs to, by its controller. One that a job has left behind has
/// none: then the pod's own, under which nobody finds a job, so that the pod is released.
[[nodiscard]] objects::ObjectKey job_of_stray(const objects::ObjectMeta& meta);

/// Pods that our finalizer may hold, or that may run, although no watch shows them. A watch selects by a label, and
/// says of a pod that has lost it what it says of one that is gone. Only the API server can tell, so
/// passes ask it for the pods that are named here.
/// Threads: every method may be called from any thread.
class StrayPods {
 public:
  static constexpr size_t kMostOfNamespace = 2048;

  /// The watch shows this pod.
  void shown(const objects::Pod& pod);
  /// The watch has ceased to show this pod; a stray if our finalizer was still on it, or it may run.
  void vanished(const objects::Pod& pod);
  /// Our finalizer is about to be removed from the pod with that UID, which may end it.
  void releasing(const std::string& uid);
  /// It was not removed, or no watch shows that pod.
  void not_released(const std::string& uid);
  /// A pod that was found without a watch. Of a namespace with kMostOfNamespace none more is kept: it
  /// is found again by the next controller that begins to lead.
  void add(const objects::ObjectMeta& meta);
  /// The API server has no such pod, or it is of the past.
  void forget(const objects::ObjectKey& key);

  /// Those of a job, as job_of_stray() names it.
  [[nodiscard]] std::vector<objects::ObjectKey> of(const std::string& group) const;

 private:
  struct State {
    std::map<std::string, std::set<objects::ObjectKey>> strays;  // by group
    std::map<objects::ObjectKey, std::string> groups;
    std::map<std::string, size_t> counts;  // by namespace
    std::set<std::string> released;        // UIDs of pods that may vanish
  };

  static void erase(State& state, const objects::ObjectKey& key);

  mutable Guarded<State> state_;
};

/// Lists the pods without our label, and calls `found` for each that belongs to a GNNJob, or that our finalizer holds
/// without an owner: one that has lost the label while no controller led.
/// Errors: the API server's; Cancelled after `stop`.
[[nodiscard]] client::ApiResult<void> find_stray_pods(
    client::ApiClient& api,
    const std::string& name_space,
    const std::stop_token& stop,
    const std::function<void(const objects::ObjectMeta&)>& found
);

}  // namespace gnn::app
