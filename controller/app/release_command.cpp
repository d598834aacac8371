#include "controller/app/release_command.h"

#include "common/contract.h"
#include "common/log.h"
#include "controller/app/caches.h"
#include "controller/app/connection.h"
#include "controller/app/executor.h"
#include "controller/app/lease.h"
#include "controller/reconcile/gang.h"
#include "controller/runtime/leader_elector.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gnn::app {
namespace {

struct Released {
  int64_t pods = 0;
  int64_t failed = 0;
};

// With --leader-elect: takes the Lease, so that no controller leads for `duration`.
bool keep_others_from_leading(
    const Options& options,
    const Connection& connection,
    client::ApiClient& api,
    Clock& clock,
    Duration duration
) {
  if (!options.leader_elect) return true;
  runtime::LeaderOptions lease =
      lease_options(options, connection, lease_identity(options, "release"));
  lease.lease_duration = duration;
  if (const auto seized = runtime::seize_lease(api, lease, clock); !seized) {
    log_error("cannot take the Lease", {{"error", seized.error().message}});
    return false;
  }
  return true;
}

client::ApiResult<std::vector<objects::Pod>> worker_pods(
    client::ApiClient& api, const std::string& name_space
) {
  std::vector<objects::Pod> pods;
  const auto listed = api.list(
      client::resource_of<objects::Pod>(),
      {.namespace_ = name_space, .content = client::Content::Metadata},
      [&](const objects::Json& json) {
        // Whatever its labels are: without an operator nobody puts them back.
        auto pod = objects::decode_pod(json);
        if (pod && reconcile::has_our_finalizer(pod->metadata)) pods.push_back(std::move(*pod));
      }
  );
  if (!listed) return tl::unexpected<client::ApiError>(listed.error());
  return pods;
}

// Those of jobs, which only a controller lets go; none where Kueue is not served.
client::ApiResult<std::vector<objects::Workload>> workloads_of_jobs(
    client::ApiClient& api, Caches& caches, const std::string& name_space
) {
  for (const objects::KueueVersion version : objects::kKueueVersions) {
    std::vector<objects::Workload> workloads;
    const auto listed = with_workloads(caches, version, [&]<class T>(runtime::Store<T>&) {
      return api.list(
          client::resource_of<T>(),
          {.namespace_ = name_space, .label_selector = std::string(contract::kLabelJob)},
          [&](const objects::Json& json) {
            auto workload = objects::decode_workload(json, version);
            if (workload && objects::is_controlled_by_job(workload->metadata))
              workloads.push_back(*workload);
          }
      );
    });
    if (listed) return workloads;
    if (listed.error().kind != client::ApiErrorKind::NotFound) {
      return tl::unexpected<client::ApiError>(listed.error());
    }
  }
  return std::vector<objects::Workload>();
}

// Whether all were.
bool release_workloads(
    Executor& executor,
    const std::vector<objects::Workload>& workloads,
    const std::function<std::vector<reconcile::Action>(const objects::Workload&)>& how
) {
  bool released = true;
  for (const objects::Workload& each : workloads) {
    const std::vector<reconcile::Action> actions = how(each);
    const Execution done = executor.execute(actions, each.metadata.namespace_);
    if (!done.error && done.refusals.empty()) continue;
    released = false;
    log_error(
        "cannot release a workload",
        {{"workload", each.metadata.name},
         {"error", done.error ? done.error->message : done.refusals.front().message}}
    );
  }
  return released;
}

// Whether all could be released before the operator is uninstalled.
bool release_workloads_of(
    Executor& executor, client::ApiClient& api, Caches& caches, const std::string& name_space
) {
  const auto workloads = workloads_of_jobs(api, caches, name_space);
  if (!workloads) {
    log_error("cannot list workloads", {{"error", workloads.error().message}});
    return false;
  }
  return release_workloads(executor, *workloads, [](const objects::Workload& each) {
    return reconcile::release_orphaned_workloads({each}, {}, {}, {}).actions;
  });
}

void release_pods(Executor& executor, const std::vector<objects::Pod>& pods, Released& released) {
  for (const objects::Pod& pod : pods) {
    const std::vector<reconcile::Action> actions = reconcile::release_orphans({pod});
    if (actions.empty()) continue;
    const Execution done = executor.execute(actions, pod.metadata.namespace_);
    if (!done.error && done.refusals.empty()) {
      ++released.pods;
      continue;
    }
    ++released.failed;
    log_error(
        "cannot release a pod",
        {{"pod", pod.metadata.name},
         {"error", done.error ? done.error->message : done.refusals.front().message}}
    );
  }
}

// A controller that leads might create pods with new finalizers meanwhile.
constexpr Duration kLongestRelease = std::chrono::minutes(3);
constexpr Duration kUntilUninstalled = std::chrono::seconds(30);

// A controller that still uses Kueue would stop the pods of a job whose Workload goes. Without the Lease it
// exits, and without rights for Workloads it knows of none when it comes back.
int run_release_of_workloads(
    const Options& options, const Connection& connection, client::ApiClient& api, Clock& clock
) {
  Caches caches;
  std::vector<objects::Workload> workloads;
  const std::vector<std::string> all = {""};
  for (const std::string& name_space : options.namespaces.empty() ? all : options.namespaces) {
    const auto found = workloads_of_jobs(api, caches, name_space);
    if (!found) {
      log_error("cannot list workloads", {{"error", found.error().message}});
      return contract::kExitOther;
    }
    workloads.insert(workloads.end(), found->begin(), found->end());
  }
  if (workloads.empty()) return 0;
  if (!keep_others_from_leading(options, connection, api, clock, kLongestRelease)) {
    return contract::kExitOther;
  }
  Parallel parallel(1, 1);
  Executor executor(api, caches, parallel, clock);
  const bool released = release_workloads(executor, workloads, [](const objects::Workload& each) {
    return reconcile::give_up_workloads({each});
  });
  log_info("deleted workloads", {{"workloads", workloads.size()}});
  const bool left = keep_others_from_leading(options, connection, api, clock, kUntilUninstalled);
  return released && left ? 0 : contract::kExitOther;
}

}  // namespace

int run_release(const Options& options) {
  SystemClock clock;
  MetricsRegistry metrics;
  auto connection = connect(options, clock);
  if (!connection) return connection.error();
  client::ApiClient api = connection->client(clock, metrics);
  if (options.release_only_workloads)
    return run_release_of_workloads(options, *connection, api, clock);
  if (!keep_others_from_leading(options, *connection, api, clock, kLongestRelease)) {
    return contract::kExitOther;
  }
  const std::vector<std::string> all = {""};
  Released released;
  for (const std::string& name_space : options.namespaces.empty() ? all : options.namespaces) {
    const auto pods = worker_pods(api, name_space);
    if (!pods) {
      log_error("cannot list pods", {{"error", pods.error().message}});
      return contract::kExitOther;
    }
    Caches caches;
    Parallel parallel(1, 1);
    Executor executor(api, caches, parallel, clock);
    release_pods(executor, *pods, released);
    if (options.kueue && !release_workloads_of(executor, api, caches, name_space)) {
      ++released.failed;
    }
  }
  log_info("released pods", {{"pods", released.pods}, {"failed", released.failed}});
  if (!keep_others_from_leading(options, *connection, api, clock, kUntilUninstalled)) {
    return contract::kExitOther;
  }
  return released.failed == 0 ? 0 : contract::kExitOther;
}

}  // namespace gnn::app
