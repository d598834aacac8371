#pragma once

#include "common/clock.h"
#include "common/guarded.h"
#include "common/metrics.h"
#include "common/random.h"
#include "controller/client/api_client.h"
#include "controller/objects/lease.h"

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>

namespace gnn::runtime {

/// client-go's numbers. A leader that could not renew for `renew_deadline` stops leading, well
/// before another may take over after `lease_duration`.
struct LeaderOptions {
  objects::ObjectKey lease;
  std::string identity;  ///< unique in the cluster
  Duration lease_duration = std::chrono::seconds(15);
  Duration renew_deadline = std::chrono::seconds(10);
  Duration retry_period = std::chrono::seconds(2);
};

/// What was last seen of the lease, by this process's own clock: nobody else's clock counts.
struct LeaseView {
  std::string record;  ///< UID and resourceVersion, to see a change
  MonotonicPoint changed_at{};
};

enum class LeaseVerdict {
  Mine,   ///< renew it
  Free,   ///< nobody's, or its holder has been silent too long: take it
  Taken,  ///< wait
};

/// Updates the view and says whose the lease is. Pure but for `view`.
[[nodiscard]] LeaseVerdict judge_lease(
    const objects::Lease& lease, LeaseView& view, MonotonicPoint now, const LeaderOptions& options
);

/// Takes the lease whoever holds it, and returns when that one must have stopped leading: after the
/// duration of its lease. Nobody else leads from then on until `options.lease_duration` after the
/// last call. Errors: the API server's; Conflict if others keep writing the lease.
[[nodiscard]] client::ApiResult<void> seize_lease(
    client::ApiClient& api, const LeaderOptions& options, Clock& clock
);

/// Holds a Lease while it can. There is no fencing in a Lease: is_leader() turns false by itself
/// when the renew deadline has passed, so that a process that was stopped and wakes up must not
/// write.
class LeaderElector {
 public:
  /// `on_started` runs once, on the elector's thread, when the lease is ours; `on_lost` once when
  /// it was and is no longer: the process is expected to end.
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
  /// Stops renewing and joins; a lease that is ours is released so that another may take it at
  /// once.
  void stop();

  /// Threading: safe from any thread.
  [[nodiscard]] bool is_leader() const;

 private:
  void run();
  /// Tries once to take or renew the lease. Returns whether it is ours.
  [[nodiscard]] bool try_hold();
  void release();

  client::ApiClient api_;
  const LeaderOptions options_;
  Clock& clock_;
  RandomSource& random_;
  const std::function<void()> on_started_;
  const std::function<void()> on_lost_;
  Gauge master_status_;
  std::optional<objects::Lease> lease_;
  LeaseView view_;
  /// Nanoseconds of the monotonic clock until which we lead; 0: we don't. Relaxed order is enough:
  /// the value alone matters.
  std::atomic<int64_t> leads_until_{0};
  Guarded<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace gnn::runtime
