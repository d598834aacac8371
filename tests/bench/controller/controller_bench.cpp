// How close the controller comes to the API server's own limit. Prints JSON:
//  1. limit: the rate at which parallel POSTs of the objects of 200 jobs × 4 pods (Service,
//     ConfigMap, NetworkPolicy, 4 pods, one status each) complete by the controller's own client.
//  2. rate: the same objects made by gnn-controller from 200 GNNJobs that are there when it starts,
//     on the same API server.
//  3. latency: 200 GNNJobs created at once while it runs; from each POST to the job's last pod.
//  4. status: pod event → GNNJob status, one pod at a time with 1,000 pods present.
//  5. memory at 4,000 pods, and CPU while nothing happens.
// usage: gnn-controller-bench [--quick] [--part=rate|rest]   (rate: 1 to 3; rest: 4 and 5)
#include "common/log.h"
#include "common/rfc3339.h"
#include "common/stopwatch.h"
#include "controller/app/caches.h"
#include "controller/app/parallel.h"
#include "controller/client/api_client.h"
#include "controller/client/cpprest_transport.h"
#include "controller/reconcile/plan.h"
#include "controller/runtime/reflector.h"
#include "tests/bench/controller/measure.h"
#include "tests/support/control_plane.h"
#include "tests/support/controller_process.h"
#include "tests/support/must.h"
#include "tests/support/source_dir.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace gnn::app {
namespace {

using namespace std::chrono_literals;
using objects::Json;
using testing::ControllerProcess;
using testing::ControlPlane;
using testing::must;

constexpr int kNodesPerJob = 4;
constexpr int kObjectsPerJob = 3 + kNodesPerJob + 1;
constexpr size_t kThreads = 8;

// What the bench sees of the cluster by watches of its own, on the controller's own client.
class Watch {
 public:
  Watch(client::ApiClient& api, Clock& clock, MetricsRegistry& metrics)
      : pods_reflector_(api, pods, options(), clock, random_, metrics),
        jobs_reflector_(api, jobs, {}, clock, random_, metrics) {
    pods.on_change([this](const auto& before, const auto& after) {
      if (before || !after) return;
      const std::lock_guard lock(mutex_);
      const std::string group = job_group(after->metadata);
      if (++pods_of_[group] == kNodesPerJob) complete_[group] = std::chrono::steady_clock::now();
    });
    jobs.on_change([this](const auto&, const auto& after) {
      if (!after) return;
      const std::lock_guard lock(mutex_);
      if (!after->status.conditions.empty()) {
        told_.try_emplace(
            after->metadata.namespace_ + "/" + after->metadata.name,
            std::chrono::steady_clock::now()
        );
      }
      ready_[after->metadata.name] = {after->status.nodes.ready, std::chrono::steady_clock::now()};
    });
    pods_reflector_.start();
    jobs_reflector_.start();
    wait_until([this] { return pods.synced() && jobs.synced(); }, 30s, "the bench's watches");
  }
  ~Watch() {
    pods_reflector_.stop();
    jobs_reflector_.stop();
  }

  // When each job of the namespace had its last pod, by its name.
  [[nodiscard]] std::map<std::string, SteadyPoint> complete(const std::string& name_space) {
    const std::lock_guard lock(mutex_);
    return of_namespace(complete_, name_space);
  }
  // When each job of the namespace had its first status, by its name.
  [[nodiscard]] std::map<std::string, SteadyPoint> told(const std::string& name_space) {
    const std::lock_guard lock(mutex_);
    return of_namespace(told_, name_space);
  }
  struct Ready {
    int64_t nodes = -1;
    SteadyPoint at;
  };
  [[nodiscard]] Ready ready(const std::string& job) {
    const std::lock_guard lock(mutex_);
    return ready_[job];
  }

  runtime::Store<objects::Pod> pods;
  runtime::Store<api::GnnJob> jobs;

 private:
  static runtime::ReflectorOptions options() {
    runtime::ReflectorOptions options;
    options.label_selector = std::string(contract::kLabelJob);
    return options;
  }

  static std::map<std::string, SteadyPoint> of_namespace(
      const std::map<std::string, SteadyPoint>& all, const std::string& name_space
  ) {
    std::map<std::string, SteadyPoint> found;
    for (const auto& [group, at] : all) {
      if (group.starts_with(name_space + "/")) found[group.substr(name_space.size() + 1)] = at;
    }
    return found;
  }

  SystemRandom random_;
  std::mutex mutex_;
  std::map<std::string, int> pods_of_;
  std::map<std::string, SteadyPoint> complete_;
  std::map<std::string, SteadyPoint> told_;
  std::map<std::string, Ready> ready_;
  runtime::Reflector<objects::Pod> pods_reflector_;
  runtime::Reflector<api::GnnJob> jobs_reflector_;
};

// Creates the jobs in parallel; gives the time at which each was requested, by its name.
std::map<std::string, SteadyPoint> create_jobs(
    client::ApiClient& api,
    Parallel& parallel,
    const std::string& name_space,
    const std::string& prefix,
    int count,
    int nodes
) {
  std::map<std::string, SteadyPoint> started;
  std::mutex mutex;
  parallel.run("", static_cast<size_t>(count), [&](size_t i) {
    const std::string name = job_name(prefix, static_cast<int>(i));
    {
      const std::lock_guard lock(mutex);
      started[name] = std::chrono::steady_clock::now();
    }
    static_cast<void>(
        must(api.create(client::resource_of<api::GnnJob>(), job_json(name_space, name, nodes)))
    );
  });
  return started;
}

// All writes of one job's start as the controller's own plan wants them.
std::vector<std::function<void()>> writes_of(client::ApiClient& api, const api::GnnJob& job) {
  reconcile::Observed observed;
  observed.job = job;
  observed.now = SystemClock().now();
  const reconcile::Plan plan = reconcile::plan(observed);
  std::vector<std::function<void()>> writes;
  const auto add = [&](const client::Resource& resource, Json object) {
    writes.emplace_back([&api, resource, object = std::move(object)] {
      static_cast<void>(must(api.create(resource, object)));
    });
  };
  for (const reconcile::Action& action : plan.actions) {
    if (const auto* pod = std::get_if<reconcile::CreatePod>(&action)) {
      add(client::resource_of<objects::Pod>(), encode(pod->pod));
    } else if (const auto* service = std::get_if<reconcile::CreateService>(&action)) {
      add(client::resource_of<objects::Service>(), encode(service->service));
    } else if (const auto* config = std::get_if<reconcile::CreateConfigMap>(&action)) {
      add(client::resource_of<objects::ConfigMap>(), encode(config->config_map));
    } else if (const auto* policy = std::get_if<reconcile::CreateNetworkPolicy>(&action)) {
      add(client::resource_of<objects::NetworkPolicy>(), encode(policy->network_policy));
    }
  }
  writes.emplace_back([&api, job, status = plan.status] {
    const Json object = {
        {"apiVersion", contract::kApiGroupVersion},
        {"kind", contract::kKind},
        {"metadata",
         {{"name", job.metadata.name},
          {"namespace", job.metadata.namespace_},
          {"resourceVersion", job.metadata.resource_version}}},
        {"status", api::encode(status)},
    };
    static_cast<void>(must(api.replace_status(client::resource_of<api::GnnJob>(), object)));
  });
  return writes;
}

// What a bare client needs that writes the same objects and receives the events of pods and jobs: this
// process.
struct Limit {
  double writes_per_second = 0;
  double cpu_seconds = 0;
};

// Writes the raw objects of `count` jobs.
Limit measure_limit(
    client::ApiClient& api,
    Parallel& parallel,
    Watch& watch,
    const std::string& name_space,
    int count
) {
  create_jobs(api, parallel, name_space, "raw-", count, kNodesPerJob);
  wait_until([&] { return watch.jobs.size() >= static_cast<size_t>(count); }, 60s, "raw jobs");
  std::vector<std::function<void()>> writes;
  for (const auto& job : watch.jobs.all()) {
    auto own = writes_of(api, *job);
    if (own.size() != kObjectsPerJob) {
      throw std::runtime_error("a job's start has " + std::to_string(own.size()) + " writes");
    }
    std::move(own.begin(), own.end(), std::back_inserter(writes));
  }
  const auto start = std::chrono::steady_clock::now();
  const double cpu_before = use_of(::getpid()).cpu_seconds;
  parallel.run("", writes.size(), [&](size_t i) { writes[i](); });
  return {
      .writes_per_second = static_cast<double>(writes.size()) / seconds_since(start),
      .cpu_seconds = use_of(::getpid()).cpu_seconds - cpu_before,
  };
}

// Removes the namespace's jobs and pods and waits until they are gone.
void clear(ControlPlane& plane, Watch& watch, const std::string& name_space) {
  static_cast<void>(
      must(plane.kubectl({"delete", "gnnjobs", "--all", "-n", name_space, "--wait=false"}))
  );
  static_cast<void>(testing::run_release(plane.kubeconfig_file(), name_space, 5min));
  static_cast<void>(must(plane.kubectl(
      {"delete",
       "pods,services,configmaps,networkpolicies",
       "-l",
       std::string(contract::kLabelJob),
       "-n",
       name_space,
       "--wait=false",
       "--grace-period=0",
       "--force"}
  )));
  wait_until(
      [&] { return watch.pods.size() == 0 && watch.jobs.size() == 0; }, 300s, "the clean-up"
  );
}

// Starts gnn-controller; returns once it leads and reconciles.
std::unique_ptr<ControllerProcess> start_controller(const ControlPlane& plane) {
  auto controller = std::make_unique<ControllerProcess>(
      plane,
      testing::ControllerArguments{
          .kubeconfig = plane.kubeconfig_file(), .name_space = {}, .more = {"--log-level=info"}
      }
  );
  if (!controller->wait_working()) {
    throw std::runtime_error("the controller does not reconcile: " + controller->log());
  }
  return controller;
}

// Ends it in order: the one after it then need not wait for its lease.
void stop(ControllerProcess& controller) {
  if (const int code = controller.terminate(); code != 0) {
    throw std::runtime_error("the controller ended with " + std::to_string(code));
  }
}

// What the controller has asked of the API server so far, by method, from its own metrics.
std::map<std::string, double> calls_of(const ControllerProcess& controller) {
  return calls_in(controller.http("/metrics").body);
}

// Seconds from a pod's change to the status that says so, one pod at a time.
std::vector<double> measure_status(
    client::ApiClient& api, Watch& watch, const std::string& name_space, int samples, int jobs
) {
  std::vector<double> latencies;
  for (int i = 0; i < samples; ++i) {
    const std::string job = job_name("j-", i % jobs);
    const bool to_ready = (i / jobs) % 2 == 1;
    const int64_t wanted = to_ready ? kNodesPerJob : kNodesPerJob - 1;
    const Json patch = {
        {"status",
         {{"conditions",
           {{{"type", "Ready"},
             {"status", to_ready ? "True" : "False"},
             {"lastTransitionTime", format_rfc3339(SystemClock().now())}}}}}}
    };
    const auto start = std::chrono::steady_clock::now();
    static_cast<void>(must(api.patch(
        client::resource_of<objects::Pod>(),
        {name_space, contract::pod_name(job, 1, 1)},
        client::PatchKind::StrategicMergePatch,
        patch,
        "status"
    )));
    wait_until([&] { return watch.ready(job).nodes == wanted; }, 20s, "a status");
    latencies.push_back(std::chrono::duration<double>(watch.ready(job).at - start).count());
    const double rest = 0.2 - seconds_since(start);
    if (rest > 0) std::this_thread::sleep_for(std::chrono::duration<double>(rest));
  }
  return latencies;
}

struct BenchOptions {
  bool quick = false;  // a tenth of everything
  bool rate = true;    // parts 1 to 3
  bool rest = true;    // parts 4 and 5
};

// Parts 1 and 2, once.
struct Rate {
  Limit limit;
  double controller = 0;  // writes a second
  double cpu_seconds = 0;
  std::map<std::string, double> calls;

  [[nodiscard]] double ratio() const { return controller / limit.writes_per_second; }
};

class Bench {
 public:
  explicit Bench(const BenchOptions& options)
      : options_(options),
        jobs_(options.quick ? 20 : 200),
        plane_(start_plane()),
        config_(must(client::load_kubeconfig(plane_->kubeconfig_file()))),
        transport_(must(client::make_cpprest_transport(config_))),
        tokens_(config_, clock_),
        api_(*transport_, tokens_, clock_, metrics_),
        watch_(api_, clock_, metrics_) {}

  [[nodiscard]] Json run() {
    Json result = {{"jobs", jobs_}, {"podsPerJob", kNodesPerJob}};
    if (options_.rate) {
      const Rate median = measure_rates(result);
      measure_latency(median.limit.writes_per_second, result);
    }
    if (options_.rest) measure_rest(result);
    return result;
  }

 private:
  static std::unique_ptr<ControlPlane> start_plane() {
    testing::ControlPlaneOptions options;
    options.scheduler = true;
    options.fake_nodes = 50;
    auto plane = must(ControlPlane::start(options));
    must(plane->apply(gnn::testing::source_dir() + "/manifests/crds/gnnjobs.gnn.dev.yaml"));
    return plane;
  }

  // Both rates differ by a fifth from one time to the next: the limit and the controller take
  // turns, and the round with the median ratio is reported.
  [[nodiscard]] Rate measure_rates(Json& result) {
    const int rounds = options_.quick ? 1 : 3;
    std::vector<Rate> rates;
    for (int i = 0; i < rounds; ++i) rates.push_back(measure_rate());
    std::sort(rates.begin(), rates.end(), [](const Rate& a, const Rate& b) {
      return a.ratio() < b.ratio();
    });
    Json ratios = Json::array();
    for (const Rate& rate : rates) ratios.push_back(rate.ratio());
    const Rate& median = rates[rates.size() / 2];
    Json calls_per_job = Json::object();
    for (const auto& [method, count] : median.calls) calls_per_job[method] = count / jobs_;
    result.update({
        {"limitWritesPerSecond", median.limit.writes_per_second},
        {"limitCpuSeconds", median.limit.cpu_seconds},
        {"controllerWritesPerSecond", median.controller},
        {"rateRatio", median.ratio()},
        {"rateRatios", ratios},
        {"controllerCallsPerJob", calls_per_job},
        {"controllerCpuSecondsWhileCreating", median.cpu_seconds},
    });
    return median;
  }

  [[nodiscard]] Rate measure_rate() {
    Rate rate;
    say("measuring the limit");
    const std::string raw_space = must(plane_->create_namespace("raw"));
    rate.limit = measure_limit(api_, parallel_, watch_, raw_space, jobs_);
    say(std::to_string(rate.limit.writes_per_second) + " writes a second; clearing");
    clear(*plane_, watch_, raw_space);

    const std::string space = must(plane_->create_namespace("rate"));
    create_jobs(api_, parallel_, space, "j-", jobs_, kNodesPerJob);
    say("starting the controller");
    {
      const auto controller = start_controller(*plane_);
      const auto start = std::chrono::steady_clock::now();
      wait_for_start_of_all(space);
      SteadyPoint last = start;
      for (const auto& [job, at] : watch_.complete(space)) last = std::max(last, at);
      for (const auto& [job, at] : watch_.told(space)) last = std::max(last, at);
      rate.controller =
          jobs_ * kObjectsPerJob / std::chrono::duration<double>(last - start).count();
      rate.cpu_seconds = use_of(controller->pid()).cpu_seconds;
      rate.calls = calls_of(*controller);
      stop(*controller);
    }
    say(std::to_string(rate.controller) + " writes a second by the controller; clearing");
    clear(*plane_, watch_, space);
    return rate;
  }

  void measure_latency(double limit, Json& result) {
    say("creating jobs while the controller runs");
    const std::string space = must(plane_->create_namespace("live"));
    std::vector<double> to_pods;
    {
      const auto controller = start_controller(*plane_);
      const auto asked = create_jobs(api_, parallel_, space, "j-", jobs_, kNodesPerJob);
      wait_for_start_of_all(space);
      for (const auto& [job, end] : watch_.complete(space)) {
        to_pods.push_back(std::chrono::duration<double>(end - asked.at(job)).count());
      }
      stop(*controller);
    }
    clear(*plane_, watch_, space);
    const double implied = jobs_ * kObjectsPerJob / limit;
    result.update({
        {"createToAllPodsSeconds",
         {{"p50", percentile(to_pods, 0.5)}, {"p99", percentile(to_pods, 0.99)}}},
        {"impliedByLimitSeconds", implied},
        {"p99Ratio", percentile(to_pods, 0.99) / implied},
    });
  }

  void measure_rest(Json& result) {
    const int status_jobs = options_.quick ? 25 : 250;
    const int samples = options_.quick ? 20 : 200;
    const int large_jobs = options_.quick ? 2 : 30;
    const int large_nodes = options_.quick ? 10 : 100;
    const std::string space = must(plane_->create_namespace("rest"));
    const auto controller = start_controller(*plane_);
    say("making 1,000 pods");
    create_jobs(api_, parallel_, space, "j-", status_jobs, kNodesPerJob);
    const auto small_pods = static_cast<size_t>(status_jobs * kNodesPerJob);
    wait_until([&] { return all_ready(small_pods); }, 600s, "all nodes ready");
    std::this_thread::sleep_for(5s);
    say("changing one pod at a time");
    // Half as many jobs as samples: each pod goes and comes back.
    const std::vector<double> latencies = measure_status(api_, watch_, space, samples, samples / 2);

    say("making 4,000 pods");
    create_jobs(api_, parallel_, space, "large-", large_jobs, large_nodes);
    const size_t many_pods = small_pods + static_cast<size_t>(large_jobs * large_nodes);
    wait_until([&] { return all_ready(many_pods); }, 900s, "many pods");
    std::this_thread::sleep_for(5s);
    const ProcessUse before = use_of(controller->pid());
    std::this_thread::sleep_for(20s);
    const ProcessUse after = use_of(controller->pid());
    result["podEventToStatusMilliseconds"] = {
        {"samples", latencies.size()},
        {"podsPresent", small_pods},
        {"p50", percentile(latencies, 0.5) * 1e3},
        {"p99", percentile(latencies, 0.99) * 1e3},
    };
    result["memory"] = {{"pods", many_pods}, {"residentMiB", after.resident_mib}};
    stop(*controller);
    result["idleCpuPercent"] = (after.cpu_seconds - before.cpu_seconds) / 20 * 100;
  }

  // Until every job of the namespace has all its pods and a status.
  void wait_for_start_of_all(const std::string& name_space) {
    const auto all = static_cast<size_t>(jobs_);
    wait_until(
        [&] {
          return watch_.complete(name_space).size() == all && watch_.told(name_space).size() == all;
        },
        600s,
        "all pods and statuses"
    );
  }

  [[nodiscard]] bool all_ready(size_t pods) const {
    const auto all = watch_.jobs.all();
    return watch_.pods.size() == pods && std::all_of(all.begin(), all.end(), [](const auto& job) {
             return job->status.nodes.ready == job->spec.workers.nodes;
           });
  }

  const BenchOptions options_;
  const int jobs_;
  const std::unique_ptr<ControlPlane> plane_;
  SystemClock clock_;
  MetricsRegistry metrics_;
  const client::KubeConfig config_;
  const std::unique_ptr<client::HttpTransport> transport_;
  client::TokenSource tokens_;
  client::ApiClient api_;
  Parallel parallel_{kThreads, kThreads};
  Watch watch_;
};

}  // namespace
}  // namespace gnn::app

int main(int argc, char** argv) {
  gnn::app::BenchOptions options;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      options.quick = true;
    } else if (std::strcmp(argv[i], "--part=rate") == 0) {
      options.rest = false;
    } else if (std::strcmp(argv[i], "--part=rest") == 0) {
      options.rate = false;
    } else {
      std::fprintf(stderr, "usage: %s [--quick] [--part=rate|rest]\n", argv[0]);
      return 64;
    }
  }
  try {
    const gnn::objects::Json result = gnn::app::Bench(options).run();
    std::printf("%s\n", result.dump(2).c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
