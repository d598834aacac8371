// gnn-controller beside Kubeflow's training operator: jobs × 4 pods submitted over 8 connections to
// a controller that runs, on a real API server with scheduler and 50 kwok nodes. The two take
// turns, each time on a control plane of its own. Prints JSON: pods that run per second, create →
// Running (all pods run and the job's status says so), what the program used until it had nothing
// more to write, and the ratios of the medians.
// usage: gnn-controller-peer-bench --peer=DIR [--rounds=N] [--jobs=N] [--only=ours|peer]
//        DIR: what tests/bench/controller/peer/build prints
#include "common/contract.h"
#include "controller/app/gnn_job_resource.h"
#include "controller/app/parallel.h"
#include "controller/client/api_client.h"
#include "controller/client/cpprest_transport.h"
#include "controller/objects/meta.h"
#include "controller/objects/pod.h"
#include "controller/runtime/reflector.h"
#include "tests/bench/controller/measure.h"
#include "tests/support/control_plane.h"
#include "tests/support/controller_process.h"
#include "tests/support/http.h"
#include "tests/support/must.h"
#include "tests/support/process.h"
#include "tests/support/source_dir.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <netinet/in.h>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace gnn::app {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr int kPodsPerJob = 4;
constexpr size_t kConnections = 8;
// The training operator's own name and folder; neither can be changed by a flag.
constexpr const char* kPeerNamespace = "kubeflow";
constexpr const char* kPeerCertificates = "/tmp/k8s-webhook-server/serving-certs";
constexpr const char* kPeerWebhooks = "validator.training-operator.kubeflow.org";
constexpr const char* kPeerSecret = "training-operator-webhook-cert";

// What the bench keeps of a pod or job, of either program.
struct SeenPod {
  objects::ObjectMeta metadata;
  std::string job;
  bool runs = false;
};

struct SeenJob {
  objects::ObjectMeta metadata;
  bool runs = false;
};
struct SeenPeerJob : SeenJob {};

bool says_running(const objects::Json& json) {
  const auto conditions =
      json.value(objects::Json::json_pointer("/status/conditions"), objects::Json::array());
  return std::any_of(conditions.begin(), conditions.end(), [](const objects::Json& condition) {
    return condition.value("type", "") == "Running" && condition.value("status", "") == "True";
  });
}

template <class T>
Result<T> decode_seen_job(const objects::Json& json) {
  T job;
  GNN_ASSIGN_OR_RETURN(job.metadata, objects::decode_meta(json.at("metadata"), "metadata"));
  job.runs = says_running(json);
  return job;
}

}  // namespace
}  // namespace gnn::app

namespace gnn::objects {

template <>
struct ResourceTraits<app::SeenPod> : ResourceTraits<Pod> {
  static Result<app::SeenPod> decode(const Json& json) {
    app::SeenPod pod;
    const Json& meta = json.at("metadata");
    GNN_ASSIGN_OR_RETURN(pod.metadata, decode_meta(meta, "metadata"));
    const Json labels = meta.value("labels", Json::object());
    pod.job = labels.value(std::string(contract::kLabelJob), "");
    if (pod.job.empty()) pod.job = labels.value("training.kubeflow.org/job-name", "");
    pod.runs = json.value(Json::json_pointer("/status/phase"), std::string()) == "Running";
    return pod;
  }
};

template <>
struct ResourceTraits<app::SeenJob> : ResourceTraits<api::GnnJob> {
  static Result<app::SeenJob> decode(const Json& json) {
    return app::decode_seen_job<app::SeenJob>(json);
  }
};

template <>
struct ResourceTraits<app::SeenPeerJob> {
  static constexpr std::string_view kGroup = "kubeflow.org";
  static constexpr std::string_view kVersion = "v1";
  static constexpr std::string_view kKind = "PyTorchJob";
  static constexpr std::string_view kPlural = "pytorchjobs";
  static Result<app::SeenPeerJob> decode(const Json& json) {
    return app::decode_seen_job<app::SeenPeerJob>(json);
  }
};

}  // namespace gnn::objects

namespace gnn::app {
namespace {

using objects::Json;
using testing::ControllerProcess;
using testing::ControlPlane;
using testing::ControlPlanePart;
using testing::must;

// The same job for the training operator: one master, the rest workers.
Json peer_job_json(const std::string& name_space, const std::string& name) {
  const Json pod_template = {
      {"spec", {{"containers", {{{"name", "pytorch"}, {"image", "localhost/none:1"}}}}}}
  };
  const auto replicas = [&](int count) {
    return Json{{"replicas", count}, {"restartPolicy", "Never"}, {"template", pod_template}};
  };
  return {
      {"apiVersion", "kubeflow.org/v1"},
      {"kind", "PyTorchJob"},
      {"metadata", {{"name", name}, {"namespace", name_space}}},
      {"spec",
       {{"pytorchReplicaSpecs", {{"Master", replicas(1)}, {"Worker", replicas(kPodsPerJob - 1)}}}}},
  };
}

std::string free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool bound = ::bind(fd, generic, size) == 0 && ::getsockname(fd, generic, &size) == 0;
  ::close(fd);
  if (!bound) throw std::runtime_error("no loopback port");
  return std::to_string(ntohs(address.sin_port));
}

// The program under test, as a process.
class Program {
 public:
  virtual ~Program() = default;
  [[nodiscard]] virtual pid_t pid() const = 0;
  [[nodiscard]] virtual std::string metrics() const = 0;
};

class OurController final : public Program {
 public:
  explicit OurController(const ControlPlane& plane)
      : process_(plane, {.kubeconfig = plane.kubeconfig_file(), .name_space = {}}) {
    if (!process_.wait_working()) {
      throw std::runtime_error("the controller does not reconcile: " + process_.log());
    }
  }
  [[nodiscard]] pid_t pid() const override { return process_.pid(); }
  [[nodiscard]] std::string metrics() const override { return process_.http("/metrics").body; }

 private:
  ControllerProcess process_;
};

class PeerController final : public Program {
 public:
  PeerController(ControlPlane& plane, const std::string& folder) : metrics_port_(free_port()) {
    must(plane.apply(folder + "/crds"));
    prepare_certificates(plane);
    pid_ = must(spawner_.spawn(
        {folder + "/training-operator",
         "--kubeconfig=" + plane.kubeconfig_file(),
         "--enable-scheme=pytorchjob",
         "--kube-api-qps=2000",
         "--kube-api-burst=2000",
         "--controller-threads=16",
         "--zap-log-level=info",
         "--metrics-bind-address=127.0.0.1:" + metrics_port_,
         "--health-probe-bind-address=127.0.0.1:0",
         "--webhook-server-port=" + free_port()},
        log_file(plane)
    ));
    deliver_certificates(plane);
    wait_until(
        [this] {
          return metrics().find("max_concurrent_reconciles{controller=\"pytorchjob-controller\"}"
                 ) != std::string::npos;
        },
        90s,
        "the training operator's start"
    );
    std::this_thread::sleep_for(2s);  // its caches
  }
  ~PeerController() override {
    ::kill(pid_, SIGKILL);
    static_cast<void>(testing::wait_for_exit(pid_, 10s));
  }
  PeerController(const PeerController&) = delete;
  PeerController& operator=(const PeerController&) = delete;

  [[nodiscard]] pid_t pid() const override { return pid_; }
  [[nodiscard]] std::string metrics() const override {
    const auto reply =
        testing::http_request({.url = "http://127.0.0.1:" + metrics_port_}, "GET", "/metrics");
    return reply ? reply->body : "";
  }

 private:
  static std::string log_file(const ControlPlane& plane) {
    return (plane.directory() / "training-operator.log").string();
  }

  // It fills both before its controllers start. Its validating webhook is left out, which spares
  // it an admission call for each job: the API server could not resolve its Service here.
  static void prepare_certificates(ControlPlane& plane) {
    const Json objects = {
        {"apiVersion", "v1"},
        {"kind", "List"},
        {"items",
         {{{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", kPeerNamespace}}}},
          {{"apiVersion", "v1"},
           {"kind", "Secret"},
           {"metadata", {{"name", kPeerSecret}, {"namespace", kPeerNamespace}}}},
          {{"apiVersion", "admissionregistration.k8s.io/v1"},
           {"kind", "ValidatingWebhookConfiguration"},
           {"metadata", {{"name", kPeerWebhooks}}}}}},
    };
    must(plane.apply("-", objects.dump()));
  }

  // As the kubelet does for a pod that mounts the Secret.
  static void deliver_certificates(ControlPlane& plane) {
    fs::create_directories(kPeerCertificates);
    for (const char* name : {"ca.crt", "tls.crt", "tls.key"}) {
      std::string text;
      const auto filled = [&] {
        const auto read = plane.kubectl(
            {"get",
             "secret",
             kPeerSecret,
             "-n",
             kPeerNamespace,
             std::string("-o=go-template={{with .data}}{{with index . \"") + name +
                 "\"}}{{. | base64decode}}{{end}}{{end}}"}
        );
        if (read && read->exit_code == 0) text = read->output;
        return text.find("-----END") != std::string::npos;
      };
      wait_until(filled, 60s, "the training operator's certificates");
      std::ofstream(fs::path(kPeerCertificates) / name) << text;
    }
  }

  testing::ProcessSpawner spawner_;
  const std::string metrics_port_;
  pid_t pid_ = 0;
};

// When each job's pods all ran, and when its status said so, from watches of the bench.
template <class Job>
class RunningWatch {
 public:
  RunningWatch(client::ApiClient& api, Clock& clock, MetricsRegistry& metrics, std::string where)
      : where_(std::move(where)),
        pods_reflector_(api, pods_, {.namespace_ = where_}, clock, random_, metrics),
        jobs_reflector_(api, jobs_, {.namespace_ = where_}, clock, random_, metrics) {
    pods_.on_change([this](const auto&, const auto& after) {
      if (!after) return;
      const std::lock_guard lock(mutex_);
      last_pod_created_ = created_.insert(after->metadata.name).second
                              ? std::chrono::steady_clock::now()
                              : last_pod_created_;
      if (!after->runs || !running_.insert(after->metadata.name).second) return;
      if (++running_of_[after->job] == kPodsPerJob) {
        pods_run_[after->job] = std::chrono::steady_clock::now();
      }
    });
    jobs_.on_change([this](const auto&, const auto& after) {
      if (!after || !after->runs) return;
      const std::lock_guard lock(mutex_);
      says_so_.try_emplace(after->metadata.name, std::chrono::steady_clock::now());
    });
    pods_reflector_.start();
    jobs_reflector_.start();
    wait_until(
        [this] { return pods_.synced(where_) && jobs_.synced(where_); }, 30s, "the bench's watches"
    );
  }
  ~RunningWatch() {
    pods_reflector_.stop();
    jobs_reflector_.stop();
  }
  RunningWatch(const RunningWatch&) = delete;
  RunningWatch& operator=(const RunningWatch&) = delete;

  // Since when each job runs, by its name.
  [[nodiscard]] std::map<std::string, SteadyPoint> running() const {
    const std::lock_guard lock(mutex_);
    std::map<std::string, SteadyPoint> found;
    for (const auto& [job, at] : says_so_) {
      const auto pods = pods_run_.find(job);
      if (pods != pods_run_.end()) found[job] = std::max(at, pods->second);
    }
    return found;
  }
  [[nodiscard]] SteadyPoint last_pod_created() const {
    const std::lock_guard lock(mutex_);
    return last_pod_created_;
  }

 private:
  const std::string where_;
  SystemRandom random_;
  mutable std::mutex mutex_;
  std::set<std::string> created_;
  std::set<std::string> running_;
  std::map<std::string, int> running_of_;
  std::map<std::string, SteadyPoint> pods_run_;
  std::map<std::string, SteadyPoint> says_so_;
  SteadyPoint last_pod_created_;
  runtime::Store<SeenPod> pods_;
  runtime::Store<Job> jobs_;
  runtime::Reflector<SeenPod> pods_reflector_;
  runtime::Reflector<Job> jobs_reflector_;
};

struct BenchOptions {
  std::string peer;
  int rounds = 3;
  int jobs = 200;
  bool ours = true;
  bool theirs = true;
};

struct Figures {
  double pods_running_per_second = 0;
  double pods_created_per_second = 0;
  double running_p50 = 0;
  double running_p99 = 0;
  double cpu_seconds = 0;          // from the first job until nothing more is written
  double cpu_seconds_running = 0;  // from the first job until the last one runs
  double peak_mib = 0;
  double settle_seconds = 0;  // from the last job's Running until nothing more is written
  double events = 0;
  std::map<std::string, double> calls;
  std::map<std::string, double> control_plane_cpu;
  std::map<std::string, double> requests;  // of all programs, by verb and resource

  [[nodiscard]] Json json(int jobs) const {
    Json calls_per_job = Json::object();
    for (const auto& [method, count] : calls) calls_per_job[method] = count / jobs;
    Json requests_per_job = Json::object();
    for (const auto& [what, count] : requests) {
      if (count >= jobs / 2.0) requests_per_job[what] = count / jobs;
    }
    return {
        {"podsRunningPerSecond", pods_running_per_second},
        {"podsCreatedPerSecond", pods_created_per_second},
        {"createToRunningSeconds", {{"p50", running_p50}, {"p99", running_p99}}},
        {"cpuSeconds", cpu_seconds},
        {"cpuSecondsUntilRunning", cpu_seconds_running},
        {"peakResidentMiB", peak_mib},
        {"settleSeconds", settle_seconds},
        {"eventsPerJob", events / jobs},
        {"callsPerJob", calls_per_job},
        {"controlPlaneCpuSeconds", control_plane_cpu},
        {"requestsPerJob", requests_per_job},
    };
  }
};

constexpr std::array kParts = {
    std::pair("etcd", ControlPlanePart::Etcd),
    std::pair("kube-apiserver", ControlPlanePart::ApiServer),
    std::pair("kube-scheduler", ControlPlanePart::Scheduler),
    std::pair("kube-controller-manager", ControlPlanePart::ControllerManager),
    std::pair("kwok", ControlPlanePart::Kwok),
};

std::map<std::string, double> cpu_of(const ControlPlane& plane) {
  std::map<std::string, double> cpu;
  for (const auto& [name, part] : kParts) {
    cpu[name] = use_of(static_cast<pid_t>(plane.pid(part))).cpu_seconds;
  }
  return cpu;
}

// What all programs have asked of the API server, by verb and resource.
std::map<std::string, double> requests_of(const ControlPlane& plane) {
  static const std::regex line(
      "apiserver_request_total\\{[^}]*resource=\"([a-z]*)\",[^}]*subresource=\"([a-z/"
      "]*)\",verb=\"([A-Z]+)"
      "\"[^}]*\\} ([0-9.e+]+)"
  );
  const std::string page = must(plane.kubectl({"get", "--raw", "/metrics"})).output;
  std::map<std::string, double> requests;
  std::istringstream lines(page);
  std::smatch found;
  for (std::string text; std::getline(lines, text);) {
    if (!text.starts_with("apiserver_request_total{")) continue;
    if (!std::regex_search(text, found, line)) continue;
    const std::string subresource = found[2].str();
    const std::string what =
        found[3].str() + " " + found[1].str() + (subresource.empty() ? "" : "/") + subresource;
    requests[what] += std::stod(found[4]);
  }
  return requests;
}

double writes_in(const std::string& metrics) {
  double writes = 0;
  for (const auto& [method, count] : calls_in(metrics)) {
    if (method != "GET") writes += count;
  }
  return writes;
}

// Until the program has written nothing for six seconds. It is looked at seldom: a page of
// metrics costs CPU time, which counts.
SteadyPoint settle(const Program& program) {
  const auto deadline = std::chrono::steady_clock::now() + 180s;
  double writes = writes_in(program.metrics());
  SteadyPoint last = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - last < 6s) {
    if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("it writes on");
    std::this_thread::sleep_for(2s);
    const double now = writes_in(program.metrics());
    if (now != writes) last = std::chrono::steady_clock::now();
    writes = now;
  }
  return last;
}

// Events of others than the scheduler.
double events_in(const ControlPlane& plane, const std::string& name_space) {
  const auto listed = must(plane.kubectl(
      {"get",
       "events",
       "-n",
       name_space,
       "-o=jsonpath={range .items[*]}{.reportingComponent}{.source.component}{\"\\n\"}{end}"}
  ));
  double events = 0;
  std::istringstream lines(listed.output);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("scheduler") == std::string::npos) ++events;
  }
  return events;
}

template <class Job>
Figures measure(ControlPlane& plane, const Program& program, int count) {
  SystemClock clock;
  MetricsRegistry metrics;
  const client::KubeConfig config = must(client::load_kubeconfig(plane.kubeconfig_file()));
  const auto transport = must(client::make_cpprest_transport(config));
  client::TokenSource tokens(config, clock);
  client::ApiClient api(*transport, tokens, clock, metrics);
  Parallel parallel(kConnections, kConnections);
  const std::string space = must(plane.create_namespace("jobs"));
  RunningWatch<Job> watch(api, clock, metrics, space);

  const double cpu_before = use_of(program.pid()).cpu_seconds;
  const auto plane_before = cpu_of(plane);
  const auto calls_before = calls_in(program.metrics());
  const auto requests_before = requests_of(plane);
  const SteadyPoint start = std::chrono::steady_clock::now();
  std::vector<SteadyPoint> asked(static_cast<size_t>(count));
  parallel.run("", asked.size(), [&](size_t i) {
    const std::string name = job_name("j-", static_cast<int>(i));
    asked[i] = std::chrono::steady_clock::now();
    const Json job = std::is_same_v<Job, SeenJob> ? job_json(space, name, kPodsPerJob)
                                                  : peer_job_json(space, name);
    static_cast<void>(must(api.create(client::resource_of<Job>(), job)));
  });
  wait_until([&] { return watch.running().size() == asked.size(); }, 600s, "all jobs Running");

  Figures figures;
  figures.cpu_seconds_running = use_of(program.pid()).cpu_seconds - cpu_before;
  for (const auto& [name, seconds] : cpu_of(plane)) {
    figures.control_plane_cpu[name] = seconds - plane_before.at(name);
  }
  const auto running = watch.running();
  SteadyPoint last = start;
  std::vector<double> latencies;
  for (size_t i = 0; i < asked.size(); ++i) {
    const SteadyPoint at = running.at(job_name("j-", static_cast<int>(i)));
    latencies.push_back(std::chrono::duration<double>(at - asked[i]).count());
    last = std::max(last, at);
  }
  const double pods = count * kPodsPerJob;
  const auto seconds_until = [&](SteadyPoint end) {
    return std::chrono::duration<double>(end - start).count();
  };
  figures.pods_running_per_second = pods / seconds_until(last);
  figures.pods_created_per_second = pods / seconds_until(watch.last_pod_created());
  figures.running_p50 = percentile(latencies, 0.5);
  figures.running_p99 = percentile(latencies, 0.99);
  const SteadyPoint settled = settle(program);
  figures.settle_seconds = std::max(0.0, std::chrono::duration<double>(settled - last).count());
  const ProcessUse use = use_of(program.pid());
  figures.cpu_seconds = use.cpu_seconds - cpu_before;
  figures.peak_mib = use.peak_resident_mib;
  for (const auto& [method, calls] : calls_in(program.metrics())) {
    const auto before = calls_before.find(method);
    figures.calls[method] = calls - (before == calls_before.end() ? 0 : before->second);
  }
  for (const auto& [what, requests] : requests_of(plane)) {
    const auto before = requests_before.find(what);
    figures.requests[what] = requests - (before == requests_before.end() ? 0 : before->second);
  }
  figures.events = events_in(plane, space);
  return figures;
}

std::unique_ptr<ControlPlane> start_plane() {
  testing::ControlPlaneOptions options;
  options.scheduler = true;
  options.fake_nodes = 50;
  return must(ControlPlane::start(options));
}

Figures measure_ours(int jobs) {
  const auto plane = start_plane();
  must(plane->apply(gnn::testing::source_dir() + "/manifests/crds/gnnjobs.gnn.dev.yaml"));
  const OurController controller(*plane);
  return measure<SeenJob>(*plane, controller, jobs);
}

Figures measure_peer(const std::string& folder, int jobs) {
  const auto plane = start_plane();
  const PeerController controller(*plane, folder);
  return measure<SeenPeerJob>(*plane, controller, jobs);
}

double median(const std::vector<Figures>& all, double Figures::*member) {
  std::vector<double> values;
  for (const Figures& each : all) values.push_back(each.*member);
  return percentile(values, 0.5);
}

Json run(const BenchOptions& options) {
  std::vector<Figures> ours;
  std::vector<Figures> theirs;
  for (int round = 0; round < options.rounds; ++round) {
    if (options.ours) {
      say("gnn-controller, round " + std::to_string(round + 1));
      ours.push_back(measure_ours(options.jobs));
      say(ours.back().json(options.jobs).dump());
    }
    if (options.theirs) {
      say("training operator, round " + std::to_string(round + 1));
      theirs.push_back(measure_peer(options.peer, options.jobs));
      say(theirs.back().json(options.jobs).dump());
    }
  }
  Json result = {{"jobs", options.jobs}, {"podsPerJob", kPodsPerJob}};
  for (const Figures& each : ours) result["ours"].push_back(each.json(options.jobs));
  for (const Figures& each : theirs) result["peer"].push_back(each.json(options.jobs));
  if (ours.empty() || theirs.empty()) return result;
  const auto ratio = [&](double Figures::*member) {
    return median(ours, member) / median(theirs, member);
  };
  result["ratiosOfMedians"] = {
      {"podsRunningPerSecond", ratio(&Figures::pods_running_per_second)},
      {"podsCreatedPerSecond", ratio(&Figures::pods_created_per_second)},
      {"createToRunningP50", ratio(&Figures::running_p50)},
      {"createToRunningP99", ratio(&Figures::running_p99)},
      {"cpuSeconds", ratio(&Figures::cpu_seconds)},
      {"peakResidentMiB", ratio(&Figures::peak_mib)},
  };
  return result;
}

}  // namespace
}  // namespace gnn::app

int main(int argc, char** argv) {
  gnn::app::BenchOptions options;
  bool understood = true;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::string value = argument.substr(argument.find('=') + 1);
    if (argument.starts_with("--peer=")) {
      options.peer = value;
    } else if (argument.starts_with("--rounds=")) {
      options.rounds = std::atoi(value.c_str());
    } else if (argument.starts_with("--jobs=")) {
      options.jobs = std::atoi(value.c_str());
    } else if (argument == "--only=ours") {
      options.theirs = false;
    } else if (argument == "--only=peer") {
      options.ours = false;
    } else {
      understood = false;
    }
  }
  if (options.theirs && options.peer.empty()) understood = false;
  if (!understood || options.rounds < 1 || options.jobs < 1) {
    std::fprintf(
        stderr, "usage: %s --peer=DIR [--rounds=N] [--jobs=N] [--only=ours|peer]\n", argv[0]
    );
    return 64;
  }
  try {
    std::printf("%s\n", gnn::app::run(options).dump(2).c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
