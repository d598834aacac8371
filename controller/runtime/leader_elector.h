#pragma once

#include "common/clock.h"
#include "common/guarded.h"
#include "common/metrics.h"
#include "common/random.h"
#include "controller/client/api_client.h"
#include "controller/objects/lease.h"
#include "controller/runtime/heartbeat.h"

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>

namespace gnn::runtime {

/// client-go's defaults. A leader that has not renewed for `renew_deadline` stops leading, well
/// before another may take over after `lease_duration`.
struct LeaderOptions {
  objects::ObjectKey lease;
  std::string identity;  ///< unique in the cluster
  Duration lease_duration = std::chrono::seconds(15);
  Duration renew_deadline = std::chrono::seconds(10);
  Duration retry_period = std::chrono::seconds(2);
};

/// What was last seen of the lease, and when by this process's own clock, the only one that counts.
struct LeaseView {
  std::string record;  ///< UID and resourceVersion, to notice a change
  MonotonicPoint changed_at{};
  MonotonicPoint free_at{};  ///< when it may be taken unless it changes before
};

enum class LeaseVerdict {
  Mine,   ///< ours: renew it
  Free,   ///< nobody's, or its holder has been silent for too long: take it
  Taken,  ///< another's: wait
};

/// Updates the view and says whose the lease is. Pure except for `view`.
[[nodiscard]] LeaseVerdict judge_lease(
    const objects::Lease& lease, LeaseView& view, MonotonicPoint now, const LeaderOptions& options
);

/// Takes the lease from whoever holds it, and returns when that holder must have stopped leading,
/// which is after the duration of its lease. Nobody else leads until `options.lease_duration` after
/// the last call.
/// Errors: the API server's; Conflict if others keep writing the lease.
[[nodiscard]] client::ApiResult<void> seize_lease(
    client::ApiClient& api, const LeaderOptions& options, Clock& clock
);

/// Holds a Lease for as long as it can. A Lease does not fence: is_leader() turns false by itself
/// once the renew deadline has passed, so that a process that was suspended and wakes up does not
/// write.
class LeaderElector {
 public:
  /// `on_started` runs once, on the elector's thread, when this process gets the lease; `on_lost`
  /// once when it loses the lease, after which the process is expected to end. A leader gives its
  /// lease up when the API server's versions go back: etcd was restored from a backup, and all that
  /// this process knows is of a time that did not happen.
  LeaderElector(
      client::ApiClient& api,
      LeaderOptions options,
      Clock& clock,
      RandomSource& random,
      MetricsRegistry& metrics,
      std::function<void()> on_started,
      std::function<void()> on_lost
  );
  ~LeaderElector();
  LeaderElector(const LeaderElector&) = delete;
  LeaderElector& operator=(const LeaderElector&) = delete;

  void start();
  /// Stops renewing, joins, and releases the lease if this process holds it, so that another may
  /// take it at once.
  void stop();

  /// Threads: safe from any thread.
  [[nodiscard]] bool is_leader() const;
  /// Whether it started long ago to do something that it should be through with.
  /// Threads: safe from any thread.
  [[nodiscard]] bool stands_still() const { return heartbeat_.stands_still(); }

 private:
  void run();
  /// Tries once to take or renew the lease. Returns whether this process holds it.
  [[nodiscard]] bool try_hold();
  void release();

  client::ApiClient api_;
  const LeaderOptions options_;
  Clock& clock_;
  RandomSource& random_;
  const std::function<void()> on_started_;
  const std::function<void()> on_lost_;
  Gauge master_status_;
  Heartbeat heartbeat_;
  std::optional<objects::Lease> lease_;  ///< as this process last wrote it
  bool went_back_ = false;               ///< the API server's versions
  LeaseView view_;
  /// Until when this process leads, in nanoseconds of the monotonic clock; 0: it does not. Relaxed
  /// order is enough: only the value itself matters.
  std::atomic<int64_t> leads_until_{0};
  Guarded<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace gnn::runtime
