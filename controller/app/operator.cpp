#include "controller/app/operator.h"

#include "common/api/codec.h"
#include "common/contract.h"
#include "common/log.h"
#include "controller/app/caches.h"
#include "controller/app/connection.h"
#include "controller/app/executor.h"
#include "controller/app/health.h"
#include "controller/app/job_metrics.h"
#include "controller/app/process_metrics.h"
#include "controller/app/reconciler.h"
#include "controller/reconcile/conditions.h"
#include "controller/runtime/controller_loop.h"
#include "controller/runtime/event_recorder.h"
#include "controller/runtime/leader_elector.h"
#include "controller/runtime/reflector.h"
#include "controller/runtime/watchdog.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <malloc.h>
#include <memory>
#include <optional>
#include <signal.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace gnn::app {
namespace {

using objects::ObjectKey;

constexpr size_t kParallelCalls = 8;
constexpr int64_t kProgressWorkers = 4;

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

ObjectKey lease_of(const Options& options, const Connection& connection) {
  const std::string& given = options.lease_namespace;
  return {given.empty() ? connection.config.namespace_ : given, options.lease_name};
}

/// With --leader-elect: takes the lease, so that for `duration` no controller leads.
bool keep_others_from_leading(
    const Options& options,
    const Connection& connection,
    client::ApiClient& api,
    Clock& clock,
    Duration duration
) {
  if (!options.leader_elect) return true;
  runtime::LeaderOptions lease;
  lease.lease = lease_of(options, connection);
  lease.identity = (options.identity.empty() ? host_name() : options.identity) + "_release";
  lease.lease_duration = duration;
  if (const auto seized = runtime::seize_lease(api, lease, clock); !seized) {
    log_error("cannot take the lease", {{"error", seized.error().message}});
    return false;
  }
  return true;
}

/// The key of the job that an object with our label belongs to.
std::optional<ObjectKey> job_of(const objects::ObjectMeta& meta) {
  const auto label = meta.labels.find(std::string(contract::kLabelJob));
  if (label == meta.labels.end()) return std::nullopt;
  return ObjectKey{meta.namespace_, label->second};
}

/// The whole controller: what owns what, and who tells whom.
class Operator {
 public:
  Operator(const Options& options, Connection connection)
      : options_(options),
        connection_(std::move(connection)),
        api_(connection_.client(clock_, metrics_, [this] { return may_write(); })),
        election_api_(connection_.client(clock_, metrics_)),
        parallel_(kParallelCalls),
        executor_(api_, caches_, parallel_, clock_),
        events_(
            api_,
            {.correlator = {},
             .controller = std::string(contract::kManagedBy),
             .instance = identity(),
             .busy = [this] { return loop_.queue().size() > 0; }},
            clock_,
            metrics_
        ),
        reconciler_(
            caches_,
            executor_,
            events_,
            job_metrics_,
            clock_,
            reconciler_options(),
            [this](const ObjectKey& key) { progress_.queue().add_after(key, kProgressInterval); }
        ),
        progress_(
            {.name = "progress", .workers = kProgressWorkers},
            clock_,
            random_,
            metrics_,
            [this](const ObjectKey& key) {
              return reconciler_.poll_progress(key, [this](const ObjectKey& changed) {
                loop_.queue().add(changed);
              });
            }
        ),
        loop_(
            {.name = "gnnjob", .workers = options.workers},
            clock_,
            random_,
            metrics_,
            [this](const ObjectKey& key) { return reconciler_.reconcile(key); }
        ) {
    metrics_
        .gauge(
            "gnn_operator_build_info", "Version of this controller.", {{"version", kProgramVersion}}
        )
        .set(1);
    caches_.jobs.on_change([this](const auto& before, const auto& after) {
      const api::JobMetadata& meta = (after ? after : before)->metadata;
      loop_.queue().add({meta.namespace_, meta.name});
    });
    enqueue_owner(caches_.pods);
    enqueue_owner(caches_.services);
    enqueue_owner(caches_.config_maps);
    enqueue_owner(caches_.network_policies);
    make_reflectors();
  }

  ~Operator() { stop(); }
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;

  [[nodiscard]] Status start() {
    GNN_ASSIGN_OR_RETURN(const HostPort address, parse_host_port(options_.bind_address));
    GNN_ASSIGN_OR_RETURN(
        health_,
        start_health_server(
            address,
            {.metrics = [this] { return expose(); }, .not_ready = [this] { return not_ready(); }}
        )
    );
    log_info(
        "serving metrics and health",
        {{"address", address.host}, {"port", health_->port()}, {"version", kProgramVersion}}
    );
    for (const auto& start_reflector : starters_) start_reflector();
    if (options_.leader_elect) {
      elector_ = std::make_unique<runtime::LeaderElector>(
          election_api_,
          leader_options(),
          clock_,
          random_,
          metrics_,
          [this] { leading_ = true; },
          [] {
            // Another may lead already: nothing more may be written, not even on the way out.
            std::_Exit(kExitLostLease);
          }
      );
      elector_->start();
    } else {
      leading_ = true;
    }
    return {};
  }

  /// Starts the reconciles once this process leads and every cache is whole. Returns whether they
  /// run.
  bool start_work_if_ready() {
    if (working_ || !leading_ || !synced()) return working_;
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

  /// In this order: no new work, work that runs comes to its end, its events go out, the lease is
  /// released, the caches stop. An API server that does not answer gets kStopPatience: the lease
  /// must be given back before the kubelet kills this process.
  void stop() {
    if (stopped_) return;
    stopped_ = true;
    stopping_ = true;
    api_.shut_down();
    {
      const runtime::Watchdog watchdog(clock_, kStopPatience, [this] { api_.cancel(); });
      progress_.stop();
      loop_.stop();
      events_.stop();
    }
    if (elector_) elector_->stop();
    for (const auto& stop_reflector : stoppers_) stop_reflector();
    health_.reset();
  }

 private:
  static constexpr Duration kProgressInterval = std::chrono::seconds(5);
  static constexpr Duration kStopPatience = std::chrono::seconds(8);

  [[nodiscard]] ReconcilerOptions reconciler_options() const {
    ReconcilerOptions options;
    options.config.network_policy = options_.job_network_policy;
    options.config.fence = options_.job_fence;
    options.poll_progress = options_.progress == ProgressMode::PodIp;
    options.progress_interval = kProgressInterval;
    return options;
  }

  [[nodiscard]] runtime::LeaderOptions leader_options() const {
    runtime::LeaderOptions options;
    options.lease = lease_of(options_, connection_);
    options.identity = identity();
    options.lease_duration = options_.lease_duration;
    options.renew_deadline = options_.renew_deadline;
    options.retry_period = options_.retry_period;
    return options;
  }

  [[nodiscard]] std::string identity() const {
    return (options_.identity.empty() ? host_name() : options_.identity) + "_" + suffix_;
  }

  [[nodiscard]] bool may_write() const {
    if (!options_.leader_elect) return true;
    return leading_ && elector_->is_leader();
  }

  template <class T>
  void enqueue_owner(runtime::Store<T>& store) {
    store.on_change([this](const auto& before, const auto& after) {
      for (const auto& object : {before, after}) {
        if (!object) continue;
        if (const auto key = job_of(object->metadata)) loop_.queue().add(*key);
      }
    });
  }

  void make_reflectors() {
    const std::string children(contract::kLabelJob);
    for (const std::string& where : namespaces_) {
      add_reflector(caches_.jobs, where, "");
      add_reflector(caches_.pods, where, children);
      add_reflector(caches_.services, where, children);
      add_reflector(caches_.config_maps, where, children);
      add_reflector(caches_.network_policies, where, children);
    }
  }

  template <class T>
  void add_reflector(
      runtime::Store<T>& store, const std::string& where, const std::string& labels
  ) {
    runtime::ReflectorOptions options;
    options.namespace_ = where;
    options.label_selector = labels;
    options.idle_timeout = options_.watch_idle_timeout;
    auto reflector = std::make_shared<runtime::Reflector<T>>(
        api_, store, std::move(options), clock_, random_, metrics_
    );
    starters_.push_back([reflector] { reflector->start(); });
    stoppers_.push_back([reflector] { reflector->stop(); });
  }

  [[nodiscard]] bool synced() const {
    return std::all_of(namespaces_.begin(), namespaces_.end(), [this](const std::string& where) {
      return caches_.jobs.synced(where) && caches_.pods.synced(where) &&
             caches_.services.synced(where) && caches_.config_maps.synced(where) &&
             caches_.network_policies.synced(where);
    });
  }

  [[nodiscard]] std::string not_ready() const {
    if (stopping_) return "stopping";
    if (!synced()) return "the caches are not synced yet";
    return {};
  }

  [[nodiscard]] std::string expose() {
    process_metrics_.update();
    loop_.queue().update_metrics();
    progress_.queue().update_metrics();
    return metrics_.expose();
  }

  const Options options_;
  /// One entry for each set of watches; empty text: all namespaces.
  const std::vector<std::string> namespaces_ =
      options_.namespaces.empty() ? std::vector<std::string>{""} : options_.namespaces;
  SystemClock clock_;
  SystemRandom random_;
  const std::string suffix_ = std::to_string(random_.next());
  MetricsRegistry metrics_;
  ProcessMetrics process_metrics_{metrics_};
  JobMetrics job_metrics_{metrics_};
  Connection connection_;
  std::unique_ptr<runtime::LeaderElector> elector_;
  std::atomic<bool> leading_ = false;
  std::atomic<bool> stopping_ = false;
  client::ApiClient api_;
  client::ApiClient election_api_;
  Caches caches_;
  Parallel parallel_;
  Executor executor_;
  runtime::EventRecorder events_;
  Reconciler reconciler_;
  runtime::ControllerLoop progress_;
  runtime::ControllerLoop loop_;
  std::vector<std::function<void()>> starters_;
  std::vector<std::function<void()>> stoppers_;
  std::unique_ptr<HttpServer> health_;
  bool working_ = false;
  bool stopped_ = false;
};

/// Waits for a signal of the set for a moment. Returns its number, or 0.
int wait_for_signal(const sigset_t& signals) {
  const timespec pause{.tv_sec = 0, .tv_nsec = 20'000'000};
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
  if (!connection) {
    log_error("cannot connect", {{"error", connection.error().message}});
    return contract::exit_code_for(connection.error().kind);
  }
  Operator controller(options, std::move(*connection));
  if (const Status started = controller.start(); !started) {
    log_error("cannot start", {{"error", started.error().message}});
    return contract::exit_code_for(started.error().kind);
  }
  bool working = false;
  while (true) {
    const int number = working ? ::sigwaitinfo(&signals, nullptr) : wait_for_signal(signals);
    if (number > 0) {
      log_info("stopping", {{"signal", number}});
      controller.stop();
      return 0;
    }
    if (!working) working = controller.start_work_if_ready();
  }
}

int run_release(const Options& options) {
  SystemClock clock;
  MetricsRegistry metrics;
  auto connection = connect(options, clock);
  if (!connection) {
    log_error("cannot connect", {{"error", connection.error().message}});
    return contract::exit_code_for(connection.error().kind);
  }
  client::ApiClient api = connection->client(clock, metrics);
  // While a controller leads it may start pods with new finalizers behind our back.
  constexpr Duration kLongestRelease = std::chrono::minutes(3);
  constexpr Duration kUntilUninstalled = std::chrono::seconds(30);
  if (!keep_others_from_leading(options, *connection, api, clock, kLongestRelease)) {
    return contract::kExitOther;
  }
  std::vector<std::string> namespaces = options.namespaces;
  if (namespaces.empty()) namespaces.emplace_back();
  int64_t released = 0;
  int64_t failed = 0;
  for (const std::string& name_space : namespaces) {
    std::vector<objects::Pod> pods;
    const auto listed = api.list(
        client::resource_of<objects::Pod>(),
        {.namespace_ = name_space, .label_selector = std::string(contract::kLabelJob)},
        [&](const objects::Json& json) {
          if (auto pod = objects::decode_pod(json)) pods.push_back(std::move(*pod));
        }
    );
    if (!listed) {
      log_error("cannot list pods", {{"error", listed.error().message}});
      return contract::kExitOther;
    }
    Caches caches;
    Parallel parallel(1);
    Executor executor(api, caches, parallel, clock);
    for (const reconcile::Action& action : reconcile::release_orphans(pods)) {
      const auto* pod = std::get_if<reconcile::ReleasePod>(&action);
      const auto at = std::find_if(pods.begin(), pods.end(), [&](const objects::Pod& each) {
        return pod != nullptr && each.metadata.uid == pod->uid;
      });
      if (at == pods.end()) continue;
      const Execution done = executor.execute({action}, at->metadata.namespace_);
      ++released;
      if (!done.error && done.refusals.empty()) continue;
      ++failed;
      log_error(
          "cannot release a pod",
          {{"pod", pod->name},
           {"error", done.error ? done.error->message : done.refusals.front().message}}
      );
    }
  }
  log_info("released pods", {{"pods", released - failed}, {"failed", failed}});
  if (!keep_others_from_leading(options, *connection, api, clock, kUntilUninstalled)) {
    return contract::kExitOther;
  }
  return failed == 0 ? 0 : contract::kExitOther;
}

int run_wait(const Options& options) {
  constexpr auto kPause = std::chrono::milliseconds(500);
  constexpr int kExitTimeout = 124;  // as of coreutils' timeout
  SystemClock clock;
  MetricsRegistry metrics;
  auto connection = connect(options, clock);
  if (!connection) {
    log_error("cannot connect", {{"error", connection.error().message}});
    return contract::exit_code_for(connection.error().kind);
  }
  client::ApiClient api = connection->client(clock, metrics);
  const objects::ObjectKey key{.namespace_ = options.namespaces.front(), .name = options.wait_job};
  const MonotonicPoint deadline = clock.monotonic() + options.wait_timeout;
  std::string last = "it was not seen yet";
  while (clock.monotonic() < deadline) {
    const auto found = api.get(client::resource_of<api::GnnJob>(), key);
    if (!found) {
      last = found.error().message;
    } else if (const auto job = api::decode_job(*found, api::UnknownFields::Ignore); !job) {
      last = job.error().message;
    } else {
      last = "its state is " + (job->status.state.empty() ? "not set" : job->status.state);
      for (const api::Condition& condition : job->status.conditions) {
        const bool complete = condition.type == reconcile::condition::kComplete;
        if (condition.status != "True" ||
            !(complete || condition.type == reconcile::condition::kFailed))
          continue;
        std::printf(
            "%s %s: %s\n", key.name.c_str(), condition.type.c_str(), condition.message.c_str()
        );
        return complete ? 0 : 1;
      }
    }
    std::this_thread::sleep_for(kPause);
  }
  log_error(
      "the job has not finished in time", {{"job", key.namespace_ + "/" + key.name}, {"last", last}}
  );
  return kExitTimeout;
}

}  // namespace gnn::app
