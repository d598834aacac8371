// How close the controller comes to the API server's own limit. Prints JSON:
//  1. limit: the rate at which parallel POSTs of the objects of 200 jobs × 4 pods (Service,
//     ConfigMap, NetworkPolicy, 4 pods, one status each) complete by the controller's own client.
//  2. controller: the same objects made by gnn-controller from 200 GNNJobs, on the same API server.
//  3. status: pod event → GNNJob status, one pod at a time with 1,000 pods present.
//  4. memory at 4,000 pods, and CPU while nothing happens.
// usage: gnn-controller-bench [--quick] [--part=rate|rest]   (rate: 1 and 2; rest: 3 and 4)
#include "common/log.h"
#include "common/rfc3339.h"
#include "controller/app/caches.h"
#include "controller/app/parallel.h"
#include "controller/client/api_client.h"
#include "controller/client/cpprest_transport.h"
#include "controller/reconcile/plan.h"
#include "controller/runtime/reflector.h"
#include "tests/support/control_plane.h"
#include "tests/support/http.h"
#include "tests/support/process.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <regex>
#include <signal.h>
#include <sstream>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace gnn::app {
namespace {

using namespace std::chrono_literals;
using objects::Json;
using SteadyPoint = std::chrono::steady_clock::time_point;
using testing::ControlPlane;

constexpr int kNodesPerJob = 4;
constexpr int kObjectsPerJob = 3 + kNodesPerJob + 1;
constexpr size_t kThreads = 8;

template <class T, class E>
T must(Result<T, E> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}
template <class E>
void must(const Result<void, E>& status) {
  if (!status) throw std::runtime_error(status.error().message);
}

double seconds_since(SteadyPoint start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void wait_until(const std::function<bool()>& done, std::chrono::seconds timeout, const char* what) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error(std::string("timed out: ") + what);
    }
    std::this_thread::sleep_for(5ms);
  }
}

/// What it is at, on stderr: a run takes minutes.
void say(const std::string& stage) {
  std::fprintf(stderr, "%s\n", stage.c_str());
}

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto at = static_cast<size_t>(p * static_cast<double>(values.size() - 1) + 0.5);
  return values[at];
}

std::string job_name(const std::string& prefix, int number) {
  return prefix + std::to_string(number);
}

Json job_json(const std::string& name_space, const std::string& name, int nodes) {
  return {
      {"apiVersion", contract::kApiGroupVersion},
      {"kind", contract::kKind},
      {"metadata", {{"name", name}, {"namespace", name_space}}},
      {"spec",
       {{"task", {{"type", "NodeClassification"}}},
        {"dataset", {{"format", "Synthetic"}, {"synthetic", {{"shape", "Arxiv"}}}}},
        {"model", {{"type", "GraphSAGE"}, {"graphSage", {{"layers", 2}}}}},
        {"sampling", {{"fanout", {10, 10}}}},
        {"workers", {{"nodes", nodes}, {"template", {{"image", "localhost/none:1"}}}}}}},
  };
}

/// What the bench sees of the cluster by watches of its own, on the controller's own client.
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

  [[nodiscard]] size_t complete(const std::string& name_space) {
    const std::lock_guard lock(mutex_);
    return static_cast<size_t>(std::count_if(
        complete_.begin(),
        complete_.end(),
        [&](const auto& each) { return each.first.starts_with(name_space + "/"); }
    ));
  }
  [[nodiscard]] SteadyPoint completed_at(const std::string& group) {
    const std::lock_guard lock(mutex_);
    return complete_.at(group);
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

  SystemRandom random_;
  std::mutex mutex_;
  std::map<std::string, int> pods_of_;
  std::map<std::string, SteadyPoint> complete_;
  std::map<std::string, Ready> ready_;
  runtime::Reflector<objects::Pod> pods_reflector_;
  runtime::Reflector<api::GnnJob> jobs_reflector_;
};

/// Creates the jobs in parallel; gives the time at which each was asked for.
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
  parallel.run(static_cast<size_t>(count), [&](size_t i) {
    const std::string name = job_name(prefix, static_cast<int>(i));
    {
      const std::lock_guard lock(mutex);
      started[name_space + "/" + name] = std::chrono::steady_clock::now();
    }
    static_cast<void>(
        must(api.create(client::resource_of<api::GnnJob>(), job_json(name_space, name, nodes)))
    );
  });
  return started;
}

/// All writes of one job's start as the controller's own plan wants them.
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

/// Writes per second of the raw objects of `count` jobs.
double measure_limit(
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
  parallel.run(writes.size(), [&](size_t i) { writes[i](); });
  return static_cast<double>(writes.size()) / seconds_since(start);
}

/// Removes the namespace's jobs and pods and waits until they are gone.
void clear(
    client::ApiClient& api, ControlPlane& plane, Watch& watch, const std::string& name_space
) {
  static_cast<void>(
      must(plane.kubectl({"delete", "gnnjobs", "--all", "-n", name_space, "--wait=false"}))
  );
  static_cast<void>(must(testing::run_command(
      {GNN_CONTROLLER_BINARY,
       "release",
       "--kubeconfig=" + plane.kubeconfig_file(),
       "--namespace=" + name_space,
       "--log-level=error"},
      {},
      5min
  )));
  static_cast<void>(api);
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

struct ProcessUse {
  double resident_mib = 0;
  double cpu_seconds = 0;
};

ProcessUse use_of(pid_t pid) {
  ProcessUse use;
  std::ifstream statm("/proc/" + std::to_string(pid) + "/statm");
  double pages = 0;
  double resident = 0;
  statm >> pages >> resident;
  use.resident_mib = resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  text = text.substr(text.rfind(')') + 2);
  std::istringstream fields(text);
  std::string field;
  double ticks = 0;
  for (int i = 0; i < 13 && fields >> field; ++i) {
    if (i >= 11) ticks += std::stod(field);
  }
  use.cpu_seconds = ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return use;
}

/// What the controller has asked of the API server so far, by method, from its own metrics.
std::map<std::string, double> calls_of(const std::string& url) {
  testing::HttpEndpoint endpoint;
  endpoint.url = url;
  const std::string text = must(testing::http_request(endpoint, "GET", "/metrics")).body;
  static const std::regex line(
      "rest_client_requests_total\\{[^}]*method=\"([A-Z]+)\"[^}]*\\} ([0-9.e+]+)"
  );
  std::map<std::string, double> calls;
  for (std::sregex_iterator at(text.begin(), text.end(), line), end; at != end; ++at) {
    calls[(*at)[1]] += std::stod((*at)[2]);
  }
  return calls;
}

/// Seconds from a pod's change to the status that says so, one pod at a time.
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
  bool quick = false;  ///< a tenth of everything
  bool rate = true;    ///< parts 1 and 2
  bool rest = true;    ///< parts 3 and 4
};

int run(const BenchOptions& options) {
  const bool quick = options.quick;
  const int jobs = quick ? 20 : 200;
  const int more_jobs = quick ? 5 : 50;
  const int samples = quick ? 20 : 200;
  const int large_jobs = quick ? 2 : 30;
  const int large_nodes = quick ? 10 : 100;

  testing::ControlPlaneOptions plane_options;
  plane_options.scheduler = true;
  plane_options.fake_nodes = 50;
  auto plane = must(ControlPlane::start(plane_options));
  must(plane->apply(std::string(GNN_SOURCE_DIR) + "/manifests/crds/gnnjobs.gnn.dev.yaml"));
  const std::string raw_space = must(plane->create_namespace("raw"));
  const std::string space = must(plane->create_namespace("bench"));

  SystemClock clock;
  MetricsRegistry metrics;
  const client::KubeConfig config = must(client::load_kubeconfig(plane->kubeconfig_file()));
  const auto transport = must(client::make_cpprest_transport(config));
  client::TokenSource tokens(config, clock);
  client::ApiClient api(*transport, tokens, clock, metrics);
  Parallel parallel(kThreads);
  Watch watch(api, clock, metrics);

  double limit = 0;
  if (options.rate) {
    say("measuring the limit");
    limit = measure_limit(api, parallel, watch, raw_space, jobs);
    say(std::to_string(limit) + " writes a second; clearing");
    clear(api, *plane, watch, raw_space);
  }

  say("starting the controller");
  testing::ProcessSpawner spawner;
  const std::string log = (plane->directory() / "controller.log").string();
  const pid_t controller = must(spawner.spawn(
      {GNN_CONTROLLER_BINARY,
       "run",
       "--kubeconfig=" + plane->kubeconfig_file(),
       "--bind-address=127.0.0.1:0",
       "--progress=off",
       "--log-level=info"},
      log
  ));
  std::string log_text;
  wait_until(
      [&] {
        std::ifstream in(log);
        log_text.assign(std::istreambuf_iterator<char>(in), {});
        return log_text.find("reconciling") != std::string::npos;
      },
      30s,
      "the controller"
  );
  std::smatch port;
  std::regex_search(log_text, port, std::regex("\"port\":([0-9]+)"));
  const std::string url = "http://127.0.0.1:" + port[1].str();

  say("creating jobs");
  const auto start = std::chrono::steady_clock::now();
  const auto asked = create_jobs(api, parallel, space, "j-", jobs, kNodesPerJob);
  wait_until([&] { return watch.complete(space) == static_cast<size_t>(jobs); }, 600s, "all pods");
  SteadyPoint last = start;
  std::vector<double> to_pods;
  for (const auto& [group, at] : asked) {
    const SteadyPoint end = watch.completed_at(group);
    last = std::max(last, end);
    to_pods.push_back(std::chrono::duration<double>(end - at).count());
  }
  const double total = std::chrono::duration<double>(last - start).count();
  const ProcessUse creating = use_of(controller);
  Json calls_per_job = Json::object();
  for (const auto& [method, count] : calls_of(url)) calls_per_job[method] = count / jobs;
  const double rate = jobs * kObjectsPerJob / total;
  const double implied = jobs * kObjectsPerJob / limit;

  Json result = {{"jobs", jobs}, {"podsPerJob", kNodesPerJob}};
  if (options.rate) {
    result.update({
        {"limitWritesPerSecond", limit},
        {"controllerWritesPerSecond", rate},
        {"rateRatio", rate / limit},
        {"controllerCallsPerJob", calls_per_job},
        {"controllerCpuSecondsWhileCreating", creating.cpu_seconds},
        {"createToAllPodsSeconds",
         {{"p50", percentile(to_pods, 0.5)}, {"p99", percentile(to_pods, 0.99)}}},
        {"impliedByLimitSeconds", implied},
        {"p99Ratio", percentile(to_pods, 0.99) / implied},
    });
  }
  if (!options.rest) {
    std::printf("%s\n", result.dump(2).c_str());
    ::kill(controller, SIGTERM);
    static_cast<void>(testing::wait_for_exit(controller, 30s));
    return 0;
  }
  say(std::to_string(rate) + " writes a second by the controller; waiting for its pods");
  create_jobs(api, parallel, space, "more-", more_jobs, kNodesPerJob);
  const auto all_ready = [&](size_t pods) {
    const auto all = watch.jobs.all();
    return watch.pods.size() == pods && std::all_of(all.begin(), all.end(), [](const auto& job) {
             return job->status.nodes.ready == job->spec.workers.nodes;
           });
  };
  const auto small_pods = static_cast<size_t>((jobs + more_jobs) * kNodesPerJob);
  wait_until([&] { return all_ready(small_pods); }, 600s, "all nodes ready");
  std::this_thread::sleep_for(5s);
  say("changing one pod at a time");
  const std::vector<double> latencies = measure_status(api, watch, space, samples, jobs);

  say("making many pods");
  create_jobs(api, parallel, space, "large-", large_jobs, large_nodes);
  const size_t many_pods = small_pods + static_cast<size_t>(large_jobs * large_nodes);
  wait_until([&] { return all_ready(many_pods); }, 900s, "many pods");
  std::this_thread::sleep_for(5s);
  const ProcessUse before = use_of(controller);
  std::this_thread::sleep_for(20s);
  const ProcessUse after = use_of(controller);
  ::kill(controller, SIGTERM);
  static_cast<void>(testing::wait_for_exit(controller, 30s));

  result["podEventToStatusMilliseconds"] = {
      {"samples", latencies.size()},
      {"podsPresent", small_pods},
      {"p50", percentile(latencies, 0.5) * 1e3},
      {"p99", percentile(latencies, 0.99) * 1e3},
  };
  result["memory"] = {{"pods", many_pods}, {"residentMiB", after.resident_mib}};
  result["idleCpuPercent"] = (after.cpu_seconds - before.cpu_seconds) / 20 * 100;
  std::printf("%s\n", result.dump(2).c_str());
  return 0;
}

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
    return gnn::app::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
