#include "controller/runtime/leader_elector.h"

#include "common/log.h"

#include <algorithm>
#include <utility>

namespace gnn::runtime {
namespace {

const client::Resource kLeases = client::resource_of<objects::Lease>();

}  // namespace

LeaseVerdict judge_lease(
    const objects::Lease& lease, LeaseView& view, MonotonicPoint now, const LeaderOptions& options
) {
  const std::string record = lease.metadata.uid + "/" + lease.metadata.resource_version;
  if (record != view.record) {
    view.record = record;
    view.changed_at = now;
  }
  if (lease.holder_identity == options.identity) return LeaseVerdict::Mine;
  if (lease.holder_identity.empty()) return LeaseVerdict::Free;
  const Duration holders_duration = std::chrono::seconds(lease.lease_duration_seconds);
  const bool silent = now - view.changed_at >= std::max(holders_duration, options.lease_duration);
  return silent ? LeaseVerdict::Free : LeaseVerdict::Taken;
}

LeaderElector::LeaderElector(
    client::ApiClient& api,
    LeaderOptions options,
    Clock& clock,
    RandomSource& random,
    MetricsRegistry& metrics,
    std::function<void()> on_started,
    std::function<void()> on_lost
)
    : api_(api.with_timeout(options.renew_deadline / 2)),
      options_(std::move(options)),
      clock_(clock),
      random_(random),
      on_started_(std::move(on_started)),
      on_lost_(std::move(on_lost)),
      master_status_(metrics.gauge(
          "leader_election_master_status",
          "Whether this process leads (1) or not (0), by lease.",
          {{"name", options_.lease.name}}
      )) {
  master_status_.set(0);
}

LeaderElector::~LeaderElector() {
  stop();
}

void LeaderElector::start() {
  thread_ = std::thread([this] { run(); });
}

void LeaderElector::stop() {
  *stopping_.lock() = true;
  stopping_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool LeaderElector::is_leader() const {
  return clock_.monotonic().time_since_epoch().count() <
         leads_until_.load(std::memory_order_relaxed);
}

void LeaderElector::run() {
  bool leading = false;
  while (true) {
    const MonotonicPoint tried_at = clock_.monotonic();
    if (try_hold()) {
      leads_until_.store(
          (tried_at + options_.renew_deadline).time_since_epoch().count(), std::memory_order_relaxed
      );
      if (!leading) {
        leading = true;
        master_status_.set(1);
        log_info("leading", {{"lease", objects::to_string(options_.lease)}});
        on_started_();
      }
    }
    if (leading && !is_leader()) {
      master_status_.set(0);
      log_error("lost the lease", {{"lease", objects::to_string(options_.lease)}});
      on_lost_();
      return;
    }
    // Those who wait spread out, so that they do not all ask at the same moment.
    const double spread = leading ? 1.0 : 1.0 + 0.2 * random_.uniform();
    const auto pause =
        std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::nano>(
            static_cast<double>(options_.retry_period.count()) * spread
        ));
    auto stopping = stopping_.lock();
    if (stopping.wait_until(clock_, clock_.monotonic() + pause, [](bool stop) { return stop; })) {
      break;
    }
  }
  if (leading) release();
}

bool LeaderElector::try_hold() {
  auto json = api_.get(kLeases, options_.lease);
  if (!json) {
    if (json.error().kind != client::ApiErrorKind::NotFound) {
      log_warning("cannot read the lease", {{"error", json.error().message}});
      return false;
    }
    objects::Lease lease;
    lease.metadata.name = options_.lease.name;
    lease.metadata.namespace_ = options_.lease.namespace_;
    return write(std::move(lease), true);
  }
  auto lease = objects::decode_lease(*json);
  if (!lease) {
    log_error("cannot decode the lease", {{"error", lease.error().message}});
    return false;
  }
  switch (judge_lease(*lease, view_, clock_.monotonic(), options_)) {
    case LeaseVerdict::Taken:
      return false;
    case LeaseVerdict::Mine:
    case LeaseVerdict::Free:
      return write(std::move(*lease), false);
  }
  return false;
}

bool LeaderElector::write(objects::Lease lease, bool create) {
  const TimePoint now = clock_.now();
  if (lease.holder_identity != options_.identity) {
    if (!create) ++lease.lease_transitions;
    lease.holder_identity = options_.identity;
    lease.acquire_time = now;
  }
  lease.renew_time = now;
  lease.lease_duration_seconds = std::max<int64_t>(
      1, std::chrono::ceil<std::chrono::seconds>(options_.lease_duration).count()
  );
  // resourceVersion makes this a compare-and-swap: of two who see a free lease one gets 409.
  const objects::Json json = encode(lease);
  auto written = create ? api_.create(kLeases, json) : api_.replace(kLeases, json);
  if (!written) {
    log_warning("cannot write the lease", {{"error", written.error().message}});
    return false;
  }
  auto decoded = objects::decode_lease(*written);
  if (decoded) lease_ = std::move(*decoded);
  return true;
}

void LeaderElector::release() {
  leads_until_.store(0, std::memory_order_relaxed);
  master_status_.set(0);
  if (!lease_) return;
  lease_->holder_identity.clear();
  lease_->lease_duration_seconds = 1;
  lease_->renew_time = clock_.now();
  if (auto written = api_.replace(kLeases, encode(*lease_)); !written) {
    log_warning("cannot release the lease", {{"error", written.error().message}});
  }
}

}  // namespace gnn::runtime
