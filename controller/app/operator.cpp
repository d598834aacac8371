#include "controller/app/operator.h"

#include "common/contract.h"
#include "common/guarded.h"
#include "common/host_port.h"
#include "common/log.h"
#include "controller/app/cache_reflectors.h"
#include "controller/app/caches.h"
#include "controller/app/connection.h"
#include "controller/app/executor.h"
#include "controller/app/group_apis.h"
#include "controller/app/health.h"
#include "controller/app/job_metrics.h"
#include "controller/app/lease.h"
#include "controller/app/optional_apis.h"
#include "controller/app/process_metrics.h"
#include "controller/app/reconciler.h"
#include "controller/app/stray_pods.h"
#include "controller/app/version.h"
#include "controller/client/server_clock.h"
#include "controller/reconcile/queue.h"
#include "controller/runtime/controller_loop.h"
#include "controller/runtime/event_recorder.h"
#include "controller/runtime/fair_line.h"
#include "controller/runtime/leader_elector.h"
#include "controller/runtime/watchdog.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <malloc.h>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <signal.h>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace gnn::app {
namespace {

using objects::ObjectKey;

constexpr size_t kParallelCalls = 8;
constexpr int64_t kProgressWorkers = 8;
constexpr int64_t kMostStrayWorkers = 4;
constexpr Duration kBusyAfter = std::chrono::seconds(5);
const std::vector<objects::GroupApi> kNoGroupApis;
constexpr Duration kDiscoveryInterval = std::chrono::minutes(10);
// After an API for groups went, which may still be named for a moment, or soon be back. Doubles.
constexpr Duration kFirstDiscoveryInterval = std::chrono::seconds(5);
// How long a leader waits for APIs that only some jobs use.
constexpr Duration kOptionalPatience = std::chrono::seconds(3);
// As long does the first pass wait for the list of pods that have lost our label.
constexpr Duration kStraysPatience = std::chrono::seconds(3);
constexpr Duration kStopPatience = std::chrono::seconds(8);

// Lists of several namespaces do not wait for a slow one.
int64_t workers_for_strays(const Options& options) {
  const auto lists = static_cast<int64_t>(options.namespaces.size());
  return std::clamp<int64_t>(lists, 1, kMostStrayWorkers);
}

// The whole controller: what owns what, and who calls whom.
class Operator {
 public:
  Operator(const Options& options, Connection connection);
  ~Operator() { stop(); }
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;

  // Serves metrics and health, fills the caches, and runs for the Lease.
  [[nodiscard]] Status start();

  // Starts reconciling once this process leads and the caches have been listed since. Returns whether
  // it does.
  bool start_work_if_ready();

  // Has the jobs that use an optional API looked at when what is known of it has changed.
  void follow_optional_apis();

  // In this order: take no new work, finish what runs, emit its events, release the Lease, stop the
  // caches. An API server that does not answer gets kStopPatience, since the Lease must be released
  // before the kubelet kills this process.
  void stop();

 private:
  [[nodiscard]] ReconcilerOptions reconciler_options();
  // Whether many jobs wait for a pass before one of this namespace: a worker's turn does not come at once.
  [[nodiscard]] bool jobs_wait(const std::string& name_space) const;
  // Whether they do, or did a moment ago: the API server then has their pods to start.
  [[nodiscard]] bool is_busy(const std::string& name_space);
  [[nodiscard]] client::ApiClientOptions client_options(std::function<bool()> may_write = {});
  [[nodiscard]] client::ApiClientOptions election_options();
  [[nodiscard]] runtime::EventRecorderOptions event_options();
  [[nodiscard]] std::unique_ptr<runtime::LeaderElector> make_elector();
  [[nodiscard]] runtime::Outcome poll_progress(const ObjectKey& key);
  // While no controller watched, a user may have taken the label off a pod.
  [[nodiscard]] runtime::Outcome look_for_strays(const std::string& name_space);
  // Which APIs for groups of pods are served, and has their groups watched.
  [[nodiscard]] runtime::Outcome discover();
  void discover_soon();
  [[nodiscard]] OptionalApis optional_apis() const;
  // Whether work need not wait for them: all is known, or that has been waited for long enough.
  [[nodiscard]] bool waited_for_optional_apis();
  // Whether the first passes know which pods have lost our label, or that has been waited for long enough.
  [[nodiscard]] bool waited_for_strays();
  [[nodiscard]] bool may_write() const;
  // What stands still, and what readiness still waits for; empty if nothing.
  [[nodiscard]] std::string not_alive() const;
  [[nodiscard]] std::string not_ready() const;
  [[nodiscard]] SeriesFamily namespaces_at_share() const;
  [[nodiscard]] std::string expose_metrics();

  const Options options_;
  SystemClock machine_clock_;
  client::ServerClock clock_{machine_clock_};
  SystemRandom random_;
  const std::string identity_ = lease_identity(options_, std::to_string(random_.next()));
  MetricsRegistry metrics_;
  ProcessMetrics process_metrics_{metrics_};
  JobMetrics job_metrics_{metrics_, clock_};
  Connection connection_;
  std::unique_ptr<runtime::LeaderElector> elector_;
  std::atomic<bool> leading_ = false;
  std::atomic<Duration> discovery_interval_ = kDiscoveryInterval;
  std::atomic<bool> stopping_ = false;
  Guarded<std::map<std::string, MonotonicPoint>> busy_until_;  // by namespace
  client::ApiClient api_;
  client::ApiClient election_api_;
  Caches caches_{options_.cache_memory_mib << 20};
  Parallel parallel_{kParallelCalls, runtime::share_of(kParallelCalls)};
  Executor executor_{api_, caches_, parallel_, clock_};
  GroupApis group_apis_;
  runtime::EventRecorder events_;
  Reconciler reconciler_;
  runtime::ControllerLoop progress_;
  runtime::ControllerLoop loop_;
  runtime::ControllerLoop strays_;
  runtime::ControllerLoop discovery_;
  std::stop_source stop_looking_;
  CacheReflectors reflectors_;
  std::unique_ptr<http::Server> metrics_server_;
  std::unique_ptr<http::Server> health_server_;
  OptionalApis known_;  // when it was looked at last
  std::optional<MonotonicPoint> awaits_optional_until_;
  std::optional<MonotonicPoint> awaits_strays_until_;
  Guarded<std::set<std::string>> unlisted_strays_;  // namespaces
  bool working_ = false;
  bool stopped_ = false;
};

Operator::Operator(const Options& options, Connection connection)
    : options_(options),
      connection_(std::move(connection)),
      api_(connection_.client(clock_, metrics_, client_options([this] { return may_write(); }))),
      election_api_(connection_.client(clock_, metrics_, election_options())),
      group_apis_(api_, options.gang_providers, options.kueue),
      events_(api_, event_options(), clock_, metrics_),
      reconciler_(
          caches_,
          executor_,
          events_,
          job_metrics_,
          clock_,
          reconciler_options(),
          [this](const ObjectKey& key, Duration interval) {
            progress_.queue().add_after(key, interval);
          }
      ),
      progress_(
          {.name = "progress", .workers = kProgressWorkers},
          clock_,
          random_,
          metrics_,
          [this](const ObjectKey& key) { return poll_progress(key); }
      ),
      loop_(
          {.name = "gnnjob", .workers = options.workers},
          clock_,
          random_,
          metrics_,
          [this](const ObjectKey& key) { return reconciler_.reconcile(key); }
      ),
      strays_(
          {.name = "strays", .workers = workers_for_strays(options)},
          clock_,
          random_,
          metrics_,
          [this](const ObjectKey& key) { return look_for_strays(key.namespace_); }
      ),
      discovery_(
          {.name = "discovery", .workers = 1},
          clock_,
          random_,
          metrics_,
          [this](const ObjectKey&) { return discover(); }
      ),
      reflectors_(
          caches_,
          api_,
          options.namespaces,
          options.watch_idle_timeout,
          clock_,
          random_,
          metrics_,
          options.gang_providers,
          options.kueue,
          options.job_network_policy
      ) {
  metrics_
      .gauge(
          "gnn_operator_build_info", "Version of this controller.", {{"version", kProgramVersion}}
      )
      .set(1);
  metrics_.add_source([this](const auto& take) { take(namespaces_at_share()); });
  on_job_change(caches_, [this](const ObjectKey& key) { loop_.queue().add(key); });
  executor_.on_unserved_api([this] { discovery_.queue().add({}); });
  reflectors_.on_unserved_groups([this] { discover_soon(); });
}

Status Operator::start() {
  GNN_ASSIGN_OR_RETURN(const HostPort address, parse_host_port(options_.bind_address));
  GNN_ASSIGN_OR_RETURN(const HostPort health, parse_host_port(options_.health_bind_address));
  // Before the servers, which look at it.
  if (options_.leader_elect) elector_ = make_elector();
  GNN_ASSIGN_OR_RETURN(metrics_server_, start_metrics_server(address, [this] {
                         return expose_metrics();
                       }));
  GNN_ASSIGN_OR_RETURN(
      health_server_,
      start_health_server(
          health,
          {.not_alive = [this] { return not_alive(); }, .not_ready = [this] { return not_ready(); }}
      )
  );
  log_info(
      "serving metrics and health",
      {{"address", address.host},
       {"port", metrics_server_->port()},
       {"health_address", health.host},
       {"health_port", health_server_->port()},
       {"version", kProgramVersion}}
  );
  reflectors_.start();
  discovery_.start();
  discovery_.queue().add({});
  if (elector_) {
    elector_->start();
  } else {
    leading_ = true;
  }
  return {};
}

bool Operator::start_work_if_ready() {
  if (working_ || !leading_ || !reflectors_.fresh() || !waited_for_optional_apis() ||
      !waited_for_strays()) {
    return working_;
  }
  known_ = optional_apis();
  log_info(
      "caches are synced, reconciling",
      {{"jobs", caches_.jobs.size()}, {"pods", caches_.pods.size()}}
  );
  ::malloc_trim(0);  // the lists' pages
  loop_.start();
  progress_.start();
  working_ = true;
  return true;
}

// A job that uses them is not to be told that they are unknown for the moment that a list takes.
bool Operator::waited_for_optional_apis() {
  const MonotonicPoint now = clock_.monotonic();
  if (!awaits_optional_until_) awaits_optional_until_ = now + kOptionalPatience;
  return now >= *awaits_optional_until_ || optional_apis().is_settled();
}

bool Operator::waited_for_strays() {
  const MonotonicPoint now = clock_.monotonic();
  if (!awaits_strays_until_) {
    awaits_strays_until_ = now + kStraysPatience;
    const std::set<std::string> all = {""};
    const std::set<std::string> named(options_.namespaces.begin(), options_.namespaces.end());
    *unlisted_strays_.lock() = named.empty() ? all : named;
    strays_.start();
    for (const std::string& name_space : named.empty() ? all : named) {
      strays_.queue().add({.namespace_ = name_space, .name = {}});
    }
  }
  return now >= *awaits_strays_until_ || unlisted_strays_.lock()->empty();
}

void Operator::follow_optional_apis() {
  OptionalApis now = optional_apis();
  if (now.knows_the_same_as(known_)) return;
  known_ = std::move(now);
  log_info(
      "optional APIs",
      {{"unknown", static_cast<int64_t>(known_.unknown_groups.size())},
       {"kueue_unknown", known_.kueue_unknown}}
  );
  const reconcile::OperatorConfig config = reconciler_options().config;
  for (const auto& job : caches_.jobs.all()) {
    if (!job->spec.scheduling && !reconcile::wants_queue(*job, config)) continue;
    loop_.queue().add({job->metadata.namespace_, job->metadata.name});
  }
}

void Operator::stop() {
  if (stopped_) return;
  stopped_ = true;
  stopping_ = true;
  api_.shut_down();
  {
    const runtime::Watchdog watchdog(clock_, kStopPatience, [this] { api_.cancel(); });
    stop_looking_.request_stop();
    strays_.stop();
    progress_.stop();
    loop_.stop();
    discovery_.stop();
    events_.stop();
  }
  if (elector_) elector_->stop();
  reflectors_.stop();
  health_server_.reset();
  metrics_server_.reset();
}

bool Operator::jobs_wait(const std::string& name_space) const {
  const size_t turns = loop_.queue().turns_before({.namespace_ = name_space, .name = {}});
  return turns >= static_cast<size_t>(options_.workers);
}

bool Operator::is_busy(const std::string& name_space) {
  const MonotonicPoint now = clock_.monotonic();
  const bool wait = jobs_wait(name_space);
  auto busy_until = busy_until_.lock();
  if (wait) (*busy_until)[name_space] = now + kBusyAfter;
  const auto found = busy_until->find(name_space);
  if (found == busy_until->end()) return false;
  if (now < found->second) return true;
  busy_until->erase(found);
  return false;
}

ReconcilerOptions Operator::reconciler_options() {
  ReconcilerOptions options;
  options.config.network_policy = options_.job_network_policy;
  options.config.fence = options_.job_fence;
  options.config.group_apis = options_.gang_providers;
  options.config.coscheduling_schedulers = options_.coscheduling_schedulers;
  options.config.volcano_schedulers = options_.volcano_schedulers;
  options.config.volcano_queues = options_.volcano_queues;
  options.optional_apis = [this] { return optional_apis(); };
  options.config.kueue = options_.kueue;
  options.config.kueue_manages_all = options_.kueue_manage_jobs_without_queue_name;
  options.config.allowed_keys = options_.job_allowed_keys;
  options.config.pod_user = options_.job_pod_user;
  options.poll_progress = options_.progress == ProgressMode::PodIp;
  options.progress_interval = options_.progress_interval;
  options.busy = [this](const std::string& name_space) { return is_busy(name_space); };
  options.was_held_back = [this](const std::string& name_space) {
    return loop_.queue().was_held_back({.namespace_ = name_space, .name = {}});
  };
  options.time = [this] { return clock_.read(); };
  return options;
}

runtime::EventRecorderOptions Operator::event_options() {
  return {
      .correlator = {},
      .controller = std::string(contract::kManagedBy),
      .instance = identity_,
      .busy = [this](const std::string& name_space) { return jobs_wait(name_space); }
  };
}

client::ApiClientOptions Operator::client_options(std::function<bool()> may_write) {
  client::ApiClientOptions options;
  options.may_write = std::move(may_write);
  options.on_date = [this](TimePoint date, Duration took) { clock_.see(date, took); };
  return options;
}

// The elector asks again by itself, before the Lease is lost.
client::ApiClientOptions Operator::election_options() {
  client::ApiClientOptions options = client_options();
  options.max_retries = 0;
  return options;
}

std::unique_ptr<runtime::LeaderElector> Operator::make_elector() {
  return std::make_unique<runtime::LeaderElector>(
      election_api_,
      lease_options(options_, connection_, identity_),
      clock_,
      random_,
      metrics_,
      [this] {
        // While it waited, a watch may have been silent without being known as dead, and the former
        // leader has written until now.
        reflectors_.list_again();
        leading_ = true;
      },
      [] {
        // Another controller may lead already: no more writes, not even while shutting down.
        std::_Exit(kExitLostLease);
      }
  );
}

runtime::Outcome Operator::poll_progress(const ObjectKey& key) {
  return reconciler_.poll_progress(key, [this](const ObjectKey& changed) {
    loop_.queue().add(changed);
  });
}

runtime::Outcome Operator::look_for_strays(const std::string& name_space) {
  const auto listed = find_stray_pods(
      api_,
      name_space,
      stop_looking_.get_token(),
      [this](const objects::ObjectMeta& meta) {
        caches_.strays.add(meta);
        loop_.queue().add(job_of_stray(meta));
      }
  );
  if (!listed) {
    return runtime::Retry{.error = listed.error().message, .at_least = listed.error().retry_after};
  }
  unlisted_strays_.lock()->erase(name_space);
  return runtime::Done{};
}

runtime::Outcome Operator::discover() {
  if (const auto done = group_apis_.discover(); !done) {
    return runtime::Retry{.error = done.error().message, .at_least = done.error().retry_after};
  }
  const std::vector<objects::GroupApi> served = group_apis_.served().value_or(kNoGroupApis);
  for (const objects::GroupApi api : served) reflectors_.start_groups(api);
  if (const auto version = group_apis_.kueue()) reflectors_.start_workloads(*version);
  if (options_.gang_providers.empty() && !options_.kueue) return runtime::Done{};
  const Duration interval = discovery_interval_;
  discovery_interval_ = std::min(2 * interval, kDiscoveryInterval);
  return runtime::RequeueAfter{interval};
}

void Operator::discover_soon() {
  discovery_interval_ = kFirstDiscoveryInterval;
  discovery_.queue().add_after({}, kFirstDiscoveryInterval);
}

OptionalApis Operator::optional_apis() const {
  return look_at_optional_apis(group_apis_, reflectors_, options_.gang_providers, options_.kueue);
}

bool Operator::may_write() const {
  if (!options_.leader_elect) return true;
  return leading_ && elector_->is_leader();
}

std::string Operator::not_alive() const {
  if (stopping_) return {};
  if (elector_ && elector_->stands_still()) return "the leader election stands still";
  if (const std::string resource = reflectors_.standing_still(); !resource.empty()) {
    return "the watch of " + resource + " stands still";
  }
  for (const runtime::ControllerLoop* loop : {&loop_, &progress_, &strays_, &discovery_}) {
    if (loop->stands_still()) return "the work queue stands still";
  }
  return {};
}

std::string Operator::not_ready() const {
  if (stopping_) return "stopping";
  return reflectors_.waits_for();
}

SeriesFamily Operator::namespaces_at_share() const {
  SeriesFamily family{
      "gnn_operator_namespace_at_share",
      "1 for a namespace whose keys wait because it has its whole share of a queue's workers.",
      SeriesFamily::Type::Gauge,
      {}
  };
  const auto add = [&](const std::string& queue, const runtime::ControllerLoop& loop) {
    for (const std::string& name_space : loop.queue().held_back()) {
      family.series.push_back({{{"queue", queue}, {"namespace", name_space}}, 1.0});
    }
  };
  add("gnnjob", loop_);
  add("progress", progress_);
  return family;
}

std::string Operator::expose_metrics() {
  process_metrics_.update();
  metrics_.gauge("gnn_operator_cache_bytes", "Memory that cached objects take, estimated.")
      .set(static_cast<double>(caches_.memory.used()));
  metrics_.gauge("gnn_operator_cache_limit_bytes", "The most that cached objects may take.")
      .set(static_cast<double>(caches_.memory.limit()));
  loop_.queue().update_metrics();
  progress_.queue().update_metrics();
  strays_.queue().update_metrics();
  discovery_.queue().update_metrics();
  return metrics_.expose();
}

// Waits a moment for a signal of the set. Returns its number, or 0.
int wait_for_signal(const sigset_t& signals, bool working) {
  const timespec pause =
      working ? timespec{.tv_sec = 1, .tv_nsec = 0} : timespec{.tv_sec = 0, .tv_nsec = 20'000'000};
  const int number = ::sigtimedwait(&signals, nullptr, &pause);
  return number > 0 ? number : 0;
}

}  // namespace

int run_operator(const Options& options) {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  SystemClock clock;
  auto connection = connect(options, clock);
  if (!connection) return connection.error();
  Operator controller(options, std::move(*connection));
  if (const Status started = controller.start(); !started) {
    log_error("cannot start", {{"error", started.error().message}});
    return contract::exit_code_for(started.error().kind);
  }
  bool working = false;
  while (true) {
    const int number = wait_for_signal(signals, working);
    if (number > 0) {
      log_info("stopping", {{"signal", number}});
      controller.stop();
      return 0;
    }
    if (working) {
      controller.follow_optional_apis();
    } else {
      working = controller.start_work_if_ready();
    }
  }
}

}  // namespace gnn::app
