#include "controller/runtime/leader_elector.h"

#include "common/log.h"

#include <algorithm>
#include <utility>

namespace gnn::runtime {
namespace {

const client::Resource kLeases = client::resource_of<objects::Lease>();

// Writes ourselves into the lease, as its new or renewing holder.
void claim(objects::Lease& lease, const LeaderOptions& options, TimePoint now) {
  if (lease.holder_identity != options.identity) {
    if (!lease.metadata.resource_version.empty()) ++lease.lease_transitions;
    lease.holder_identity = options.identity;
    lease.acquire_time = now;
  }
  lease.renew_time = now;
  lease.lease_duration_seconds =
      std::max<int64_t>(1, std::chrono::ceil<std::chrono::seconds>(options.lease_duration).count());
}

// The lease as it is, or a new one to be created if there is none.
client::ApiResult<objects::Lease> read_lease(
    client::ApiClient& api, const objects::ObjectKey& key
) {
  auto json = api.get(kLeases, key);
  if (!json) {
    if (json.error().kind != client::ApiErrorKind::NotFound) {
      return tl::unexpected<client::ApiError>(std::move(json).error());
    }
    objects::Lease lease;
    lease.metadata.name = key.name;
    lease.metadata.namespace_ = key.namespace_;
    return lease;
  }
  auto lease = objects::decode_lease(*json);
  if (lease) return std::move(*lease);
  client::ApiError error;
  error.kind = client::ApiErrorKind::Decode;
  error.message = "lease " + objects::to_string(key) + ": " + lease.error().message;
  return tl::unexpected<client::ApiError>(std::move(error));
}

// resourceVersion makes this a compare-and-swap: of two who see a free lease one gets 409.
client::ApiResult<objects::Json> write_lease(client::ApiClient& api, const objects::Lease& lease) {
  const objects::Json json = encode(lease);
  return lease.metadata.resource_version.empty() ? api.create(kLeases, json)
                                                 : api.replace(kLeases, json);
}

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
  view.free_at = view.changed_at + std::max(holders_duration, options.lease_duration);
  return now >= view.free_at ? LeaseVerdict::Free : LeaseVerdict::Taken;
}

client::ApiResult<void> seize_lease(
    client::ApiClient& api, const LeaderOptions& options, Clock& clock
) {
  constexpr int kTries =
      10;  // a leader renews every few seconds, so more than one lost race is unlikely
  for (int tries = 1;; ++tries) {
    auto lease = read_lease(api, options.lease);
    if (!lease) return tl::unexpected<client::ApiError>(std::move(lease).error());
    const std::string holder = lease->holder_identity;
    const auto patience = std::chrono::seconds(lease->lease_duration_seconds);
    claim(*lease, options, clock.now());
    auto written = write_lease(api, *lease);
    if (!written) {
      const client::ApiErrorKind kind = written.error().kind;
      const bool lost_race =
          kind == client::ApiErrorKind::Conflict || kind == client::ApiErrorKind::AlreadyExists;
      if (lost_race && tries < kTries) continue;
      return tl::unexpected<client::ApiError>(std::move(written).error());
    }
    if (!holder.empty() && holder != options.identity) {
      log_info("took the lease; waiting until its former holder has noticed", {{"holder", holder}});
      Guarded<bool> never{false};
      never.lock().wait_until(clock, clock.monotonic() + patience, [](bool now) { return now; });
    }
    return {};
  }
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
      )),
      heartbeat_(clock) {
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
    heartbeat_.beat();
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
    if (leading && went_back_) {
      log_error(
          "the API server's versions went back: etcd was restored from a backup; starting anew",
          {{"lease", objects::to_string(options_.lease)}}
      );
      release();
    }
    if (leading && !is_leader()) {
      master_status_.set(0);
      log_error("lost the lease", {{"lease", objects::to_string(options_.lease)}});
      heartbeat_.rest();
      on_lost_();
      return;
    }
    // Jitter keeps waiting processes from asking all at the same moment.
    const double spread = leading ? 1.0 : 1.0 + 0.2 * random_.uniform();
    const auto pause =
        std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::nano>(
            static_cast<double>(options_.retry_period.count()) * spread
        ));
    const MonotonicPoint now = clock_.monotonic();
    MonotonicPoint next = now + pause;
    if (!leading && view_.free_at > now) next = std::min(next, view_.free_at);
    heartbeat_.beat(next - now);
    auto stopping = stopping_.lock();
    if (stopping.wait_until(clock_, next, [](bool stop) { return stop; })) break;
  }
  if (leading) release();
  heartbeat_.rest();
}

bool LeaderElector::try_hold() {
  auto lease = read_lease(api_, options_.lease);
  if (!lease) {
    log_warning("cannot read the lease", {{"error", lease.error().message}});
    return false;
  }
  const bool exists = !lease->metadata.resource_version.empty();
  if (exists && judge_lease(*lease, view_, clock_.monotonic(), options_) == LeaseVerdict::Taken) {
    return false;
  }
  claim(*lease, options_, clock_.now());
  auto written = write_lease(api_, *lease);
  if (!written) {
    log_warning("cannot write the lease", {{"error", written.error().message}});
    return false;
  }
  auto decoded = objects::decode_lease(*written);
  if (decoded) {
    const auto version = [](const objects::Lease& of) { return of.metadata.resource_version; };
    went_back_ = lease_ && objects::is_newer_version(version(*lease_), version(*decoded));
    lease_ = std::move(*decoded);
  }
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
