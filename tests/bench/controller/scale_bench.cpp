// gnn-controller with thousands of jobs of 4 pods, on a real API server with scheduler and 50 kwok
// nodes. Two instances run, and the leader's metrics are scraped every 15 s. Prints JSON:
//  1. passes: CPU time per pass while 100 jobs start beside 100, and beside as many as there ever are.
//  2. running: writes per second while 1,000 jobs train, whose node 0 reports another step each time.
//  3. status: pod event → GNNJob status, one pod at a time with 5,000 pods present.
//  4. churn: the oldest 100 jobs are deleted for each 100 that are created; memory.
//  5. deletion: CPU time for each deleted job, with its pods and without, and that of a client which
//     only receives what the controller receives and releases the pods (release_floor.h).
//  6. failover: the leader is killed; how long after its Lease ran out the other one has passed.
// usage: gnn-controller-scale-bench [--jobs=N] [--running=N] [--present=N] [--only=deletion]
#include "common/api/report.h"
#include "common/contract.h"
#include "common/rfc3339.h"
#include "controller/app/caches.h"
#include "controller/app/parallel.h"
#include "controller/client/api_client.h"
#include "controller/client/cpprest_transport.h"
#include "controller/objects/lease.h"
#include "controller/runtime/reflector.h"
#include "tests/bench/controller/measure.h"
#include "tests/bench/controller/release_floor.h"
#include "tests/support/control_plane.h"
#include "tests/support/controller_process.h"
#include "tests/support/must.h"
#include "tests/support/process.h"
#include "tests/support/read_file.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_folder.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <netinet/in.h>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
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

constexpr int kPodsPerJob = 4;
constexpr int kWave = 100;      // jobs
constexpr int kLargeJobs = 10;  // of kLargeNodes pods, which bring the pods from 4,000 to 5,000
constexpr int kLargeNodes = 100;
constexpr int kStatusSamples = 200;
constexpr auto kNewsOfStarts = std::chrono::seconds(30);  // until the last of it is written
constexpr size_t kConnections = 8;
constexpr const char* kLeaseName = "gnn-controller";

double seconds_between(SteadyPoint from, SteadyPoint to) {
  return std::chrono::duration<double>(to - from).count();
}

// What the bench sees of the cluster by watches of its own.
class ScaleWatch {
 public:
  ScaleWatch(client::ApiClient& api, Clock& clock, MetricsRegistry& metrics)
      : pods_reflector_(
            api, pods, {.label_selector = std::string(contract::kLabelJob)}, clock, random_, metrics
        ),
        jobs_reflector_(api, jobs, {}, clock, random_, metrics) {
    pods.on_change([this](const auto& before, const auto& after) { see_pod(before, after); });
    jobs.on_change([this](const auto& before, const auto& after) { see_job(before, after); });
    pods_reflector_.start();
    jobs_reflector_.start();
    wait_until([this] { return pods.synced() && jobs.synced(); }, 30s, "the bench's watches");
  }
  ~ScaleWatch() {
    pods_reflector_.stop();
    jobs_reflector_.stop();
  }
  ScaleWatch(const ScaleWatch&) = delete;
  ScaleWatch& operator=(const ScaleWatch&) = delete;

  struct Ready {
    int64_t nodes = -1;
    SteadyPoint at;
  };
  [[nodiscard]] Ready ready(const std::string& job) const {
    const std::lock_guard lock(mutex_);
    const auto found = ready_.find(job);
    return found == ready_.end() ? Ready{} : found->second;
  }
  [[nodiscard]] size_t running() const {
    const std::lock_guard lock(mutex_);
    return running_.size();
  }
  [[nodiscard]] size_t suspended() const {
    const std::lock_guard lock(mutex_);
    return suspended_.size();
  }
  // The pod with that address, if there is one.
  [[nodiscard]] std::shared_ptr<const objects::Pod> pod_at(const std::string& address) const {
    const std::lock_guard lock(mutex_);
    const auto found = by_address_.find(address);
    return found == by_address_.end() ? nullptr : found->second;
  }

  runtime::Store<objects::Pod> pods;
  runtime::Store<api::GnnJob> jobs;

 private:
  void see_pod(
      const std::shared_ptr<const objects::Pod>& before,
      const std::shared_ptr<const objects::Pod>& after
  ) {
    const std::lock_guard lock(mutex_);
    if (after && !after->status.pod_ip.empty()) by_address_[after->status.pod_ip] = after;
    if (!after) by_address_.erase(before->status.pod_ip);
  }

  void see_job(
      const std::shared_ptr<const api::GnnJob>& before,
      const std::shared_ptr<const api::GnnJob>& after
  ) {
    const std::lock_guard lock(mutex_);
    const std::string& name = (after ? after : before)->metadata.name;
    running_.erase(name);
    suspended_.erase(name);
    ready_.erase(name);
    if (!after) return;
    ready_[name] = {after->status.nodes.ready, std::chrono::steady_clock::now()};
    if (after->status.state == "Running") running_.insert(name);
    if (after->status.state == "Suspended") suspended_.insert(name);
  }

  SystemRandom random_;
  mutable std::mutex mutex_;
  std::set<std::string> running_;
  std::set<std::string> suspended_;
  std::map<std::string, Ready> ready_;
  std::map<std::string, std::shared_ptr<const objects::Pod>> by_address_;
  runtime::Reflector<objects::Pod> pods_reflector_;
  runtime::Reflector<api::GnnJob> jobs_reflector_;
};

// Plays the agents of all pods: kwok gives these addresses of this machine. Each answer is one step
// further.
class Agents {
 public:
  explicit Agents(const ScaleWatch& watch) : watch_(watch) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int one = 1;
    ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(contract::kHttpPort);
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    const bool listens =
        ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
        ::listen(listener_, 64) == 0;
    if (!listens) throw std::runtime_error("cannot listen on the agents' port");
    thread_ = std::thread([this] { serve(); });
  }
  ~Agents() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  Agents(const Agents&) = delete;
  Agents& operator=(const Agents&) = delete;

  [[nodiscard]] int64_t answers() const { return answers_; }

 private:
  void serve() {
    while (true) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      const timeval patience{.tv_sec = 2, .tv_usec = 0};
      ::setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
      answer(connection);
      ::close(connection);
    }
  }

  void answer(int connection) {
    std::string request;
    std::array<char, 2048> buffer{};
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t size = ::recv(connection, buffer.data(), buffer.size(), 0);
      if (size <= 0) return;
      request.append(buffer.data(), static_cast<size_t>(size));
    }
    sockaddr_in own{};
    socklen_t size = sizeof(own);
    ::getsockname(connection, reinterpret_cast<sockaddr*>(&own), &size);
    std::array<char, INET_ADDRSTRLEN> text{};
    ::inet_ntop(AF_INET, &own.sin_addr, text.data(), text.size());
    const auto pod = watch_.pod_at(text.data());
    if (!pod) return;
    const std::string body = report_of(*pod);
    const std::string reply =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: "
        "close\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body;
    static_cast<void>(::send(connection, reply.data(), reply.size(), MSG_NOSIGNAL));
  }

  std::string report_of(const objects::Pod& pod) {
    const auto label = [&](std::string_view name) {
      return pod.metadata.labels.at(std::string(name));
    };
    api::ProgressReport report;
    report.job = label(contract::kLabelJob);
    report.job_uid = label(contract::kLabelJobUid);
    report.attempt = std::stoll(label(contract::kLabelAttempt));
    report.phase = "Train";
    report.progress.epoch = 1;
    report.progress.epochs = 10;
    report.progress.global_step = ++answers_;
    report.progress.loss = "0.5";
    return api::encode(report, contract::kMaxProgressBytes);
  }

  const ScaleWatch& watch_;
  int listener_ = -1;
  std::atomic<int64_t> answers_ = 0;
  std::thread thread_;
};

// Scrapes a controller every 15 s, as Prometheus does.
class Scraper {
 public:
  explicit Scraper(const ControllerProcess& controller) : controller_(controller) {
    thread_ = std::thread([this] {
      while (!stop_) {
        for (int i = 0; i < 150 && !stop_; ++i) std::this_thread::sleep_for(100ms);
        if (!stop_ && !paused_)
          largest_ = std::max(largest_.load(), controller_.http("/metrics").body.size());
      }
    });
  }
  ~Scraper() {
    stop_ = true;
    thread_.join();
  }
  Scraper(const Scraper&) = delete;
  Scraper& operator=(const Scraper&) = delete;

  void pause(bool paused) { paused_ = paused; }
  [[nodiscard]] size_t largest_page() const { return largest_; }

 private:
  const ControllerProcess& controller_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> paused_ = false;
  std::atomic<size_t> largest_ = 0;
  std::thread thread_;
};

// A controller's counters and CPU time at a moment. They are on a page whose making takes as long as
// hundreds of passes where thousands of jobs are present: what is between two moments leaves it out.
struct Moment {
  double passes = 0;
  double puts = 0;         // of statuses, and of the Lease
  double cpu_seconds = 0;  // before the page
  double cpu_seconds_after = 0;
  SteadyPoint at;
};

Moment look_at(const ControllerProcess& controller) {
  static const std::regex pass(
      "controller_runtime_reconcile_total\\{[^}]*controller=\"gnnjob\"[^}]*\\} ([0-9.e+]+)"
  );
  Moment moment;
  moment.cpu_seconds = use_of(controller.pid()).cpu_seconds;
  const std::string page = controller.http("/metrics").body;
  for (std::sregex_iterator each(page.begin(), page.end(), pass), end; each != end; ++each) {
    moment.passes += std::stod((*each)[1]);
  }
  moment.puts = calls_in(page)["PUT"];
  moment.at = std::chrono::steady_clock::now();
  moment.cpu_seconds_after = use_of(controller.pid()).cpu_seconds;
  return moment;
}

double cpu_seconds_between(const Moment& from, const Moment& to) {
  return to.cpu_seconds - from.cpu_seconds_after;
}

// CPU time per pass without what the jobs that train cost meanwhile, by a stretch before it.
double cpu_ms_per_pass(const Moment& stretch, const Moment& from, const Moment& to) {
  const double share = seconds_between(from.at, to.at) / seconds_between(stretch.at, from.at);
  const double cpu_seconds =
      cpu_seconds_between(from, to) - share * cpu_seconds_between(stretch, from);
  const double passes = to.passes - from.passes - share * (from.passes - stretch.passes);
  return cpu_seconds / passes * 1e3;
}

struct ScaleOptions {
  int jobs = 5000;     // that run, in all
  int running = 1000;  // at once
  int present = 5000;  // at once, with those that are suspended
  bool only_deletion = false;
};

class ScaleBench {
 public:
  explicit ScaleBench(const ScaleOptions& options)
      : options_(options),
        plane_(start_plane()),
        config_(must(client::load_kubeconfig(plane_->kubeconfig_file()))),
        transport_(must(client::make_cpprest_transport(config_))),
        tokens_(config_, clock_),
        api_(*transport_, tokens_, clock_, metrics_),
        watch_(api_, clock_, metrics_),
        agents_(watch_),
        space_(must(plane_->create_namespace("jobs"))),
        leader_(start_controller()) {
    if (!leader_->wait_working()) throw std::runtime_error("no leader: " + leader_->log());
    standby_ = start_controller();
    scraper_ = std::make_unique<Scraper>(*leader_);
  }

  [[nodiscard]] Json run() {
    Json result = {{"jobs", options_.jobs}, {"running", options_.running}};
    start_jobs(kWave);
    const double beside_few = measure_wave();
    say(std::to_string(beside_few) + " ms of CPU a pass beside 100 jobs; starting the others");
    while (created_ < options_.running) start_jobs(std::min(kWave, options_.running - created_));
    result["memoryRunningMiB"] = use_of(leader_->pid()).resident_mib;
    measure_running(result);
    say(result.dump());
    if (options_.only_deletion) {
      measure_churn(result);
      measure_floor(result);
      return result;
    }
    measure_status(result);
    say(result.dump());
    measure_churn(result);
    say(result.dump());
    measure_passes_beside_all(beside_few, result);
    say(result.dump());
    measure_failover(result);
    say(result.dump());
    measure_floor(result);
    return result;
  }

 private:
  static std::unique_ptr<ControlPlane> start_plane() {
    testing::ControlPlaneOptions options;
    options.scheduler = true;
    options.fake_nodes = 50;
    options.node_patience = 60s;
    auto plane = must(ControlPlane::start(options));
    must(plane->apply(gnn::testing::source_dir() + "/manifests/crds/gnnjobs.gnn.dev.yaml"));
    return plane;
  }

  [[nodiscard]] std::unique_ptr<ControllerProcess> start_controller() const {
    return std::make_unique<ControllerProcess>(
        *plane_,
        testing::ControllerArguments{
            .kubeconfig = plane_->kubeconfig_file(),
            .name_space = {},
            .more = {"--leader-elect", "--lease-namespace=default", "--cache-memory=160"},
            .progress = "pod-ip"
        }
    );
  }

  void create(const std::string& name, int nodes, bool suspend) {
    Json job = job_json(space_, name, nodes);
    if (suspend) job["spec"]["suspend"] = true;
    static_cast<void>(must(api_.create(client::resource_of<api::GnnJob>(), job)));
  }
  void remove(const std::string& name) {
    must(api_.remove(client::resource_of<api::GnnJob>(), {space_, name}, {}));
  }

  // Creates so many jobs and waits until they run.
  void start_jobs(int count) {
    const size_t running = watch_.running() + static_cast<size_t>(count);
    parallel_.run("", static_cast<size_t>(count), [&](size_t i) {
      create(job_name("j-", created_ + static_cast<int>(i)), kPodsPerJob, false);
    });
    created_ += count;
    wait_until([&] { return watch_.running() >= running; }, 300s, "jobs Running");
  }

  // Deletes the oldest jobs and waits until nothing of theirs is left.
  void delete_jobs(int count) {
    const size_t pods = watch_.pods.size() - static_cast<size_t>(count * kPodsPerJob);
    parallel_.run("", static_cast<size_t>(count), [&](size_t i) {
      remove(job_name("j-", deleted_ + static_cast<int>(i)));
    });
    deleted_ += count;
    wait_until([&] { return watch_.pods.size() <= pods; }, 300s, "deleted pods");
  }

  // CPU time per pass while one more wave of jobs starts, in milliseconds. A scrape of all jobs'
  // series takes as long as hundreds of passes, so there is none meanwhile.
  double measure_wave() {
    scraper_->pause(true);
    std::this_thread::sleep_for(kNewsOfStarts);
    const Moment stretch = look_at(*leader_);
    std::this_thread::sleep_for(20s);
    const Moment before = look_at(*leader_);
    start_jobs(kWave);
    scraper_->pause(false);
    return cpu_ms_per_pass(stretch, before, look_at(*leader_));
  }

  // Any list tells etcd's revision, which each write of any program raises by one.
  double etcd_revision() {
    return std::stod(must(
        api_.list(client::resource_of<objects::Lease>(), {.namespace_ = space_}, [](const Json&) {})
    ));
  }

  void measure_running(Json& result) {
    std::this_thread::sleep_for(kNewsOfStarts);
    say("watching the jobs train");
    const Moment before = look_at(*leader_);
    const double revision = etcd_revision();
    const int64_t answers = agents_.answers();
    std::this_thread::sleep_for(60s);
    const double revisions = etcd_revision() - revision;
    const Moment after = look_at(*leader_);
    const double seconds = seconds_between(before.at, after.at);
    result["training"] = {
        {"jobs", watch_.running()},
        {"progressReadsPerSecond", static_cast<double>(agents_.answers() - answers) / seconds},
        {"statusAndLeaseWritesPerSecond", (after.puts - before.puts) / seconds},
        {"etcdWritesPerSecondOfAllPrograms", revisions / seconds},
        {"cpuPercent", cpu_seconds_between(before, after) / seconds * 100},
        {"passesPerSecond", (after.passes - before.passes) / seconds},
    };
  }

  void measure_status(Json& result) {
    say("making more pods");
    const size_t running = watch_.running() + kLargeJobs;
    for (int i = 0; i < kLargeJobs; ++i) create(job_name("large-", i), kLargeNodes, false);
    wait_until([&] { return watch_.running() >= running; }, 300s, "large jobs");
    std::this_thread::sleep_for(5s);
    say("changing one pod at a time");
    std::vector<double> latencies;
    for (int i = 0; i < kStatusSamples; ++i) latencies.push_back(change_pod(i));
    result["podEventToStatusMilliseconds"] = {
        {"podsPresent", watch_.pods.size()},
        {"p50", percentile(latencies, 0.5) * 1e3},
        {"p99", percentile(latencies, 0.99) * 1e3},
    };
    for (int i = 0; i < kLargeJobs; ++i) remove(job_name("large-", i));
    wait_until(
        [&] {
          return watch_.pods.size() <= static_cast<size_t>((created_ - deleted_) * kPodsPerJob);
        },
        300s,
        "the large jobs' end"
    );
  }

  // Each pod becomes unready in the first half of the samples and ready in the second.
  double change_pod(int sample) {
    const bool to_ready = sample >= kStatusSamples / 2;
    const std::string job = job_name("j-", sample % (kStatusSamples / 2));
    const int64_t wanted = to_ready ? kPodsPerJob : kPodsPerJob - 1;
    const Json patch = {
        {"status",
         {{"conditions",
           {{{"type", "Ready"},
             {"status", to_ready ? "True" : "False"},
             {"lastTransitionTime", format_rfc3339(SystemClock().now())}}}}}}
    };
    const auto start = std::chrono::steady_clock::now();
    static_cast<void>(must(api_.patch(
        client::resource_of<objects::Pod>(),
        {space_, contract::pod_name(job, 1, 1)},
        client::PatchKind::StrategicMergePatch,
        patch,
        "status"
    )));
    wait_until(
        [&] { return watch_.ready(job).nodes == wanted; }, 60s, ("a status of " + job).c_str()
    );
    const double latency = seconds_between(start, watch_.ready(job).at);
    std::this_thread::sleep_for(200ms);
    return latency;
  }

  void measure_churn(Json& result) {
    Moment spent;  // in all deletions
    double seconds = 0;
    const int deleted_before = deleted_;
    while (created_ < options_.jobs) {
      const Moment before = look_at(*leader_);
      delete_jobs(kWave);
      const Moment after = look_at(*leader_);
      spent.cpu_seconds += cpu_seconds_between(before, after);
      spent.passes += after.passes - before.passes;
      seconds += seconds_between(before.at, after.at);
      start_jobs(kWave);
      if (created_ % 500 != 0) continue;
      const ProcessUse use = use_of(leader_->pid());
      say(std::to_string(created_) + " jobs created, " + std::to_string(use.resident_mib) + " MiB");
    }
    const ProcessUse use = use_of(leader_->pid());
    const int deleted = deleted_ - deleted_before;
    // What the jobs that train cost meanwhile is no part of it.
    const Json& training = result["training"];
    const double trained_cpu = seconds * training["cpuPercent"].get<double>() / 100;
    const double trained_passes = seconds * training["passesPerSecond"].get<double>();
    result["churn"] = {
        {"jobsCreated", created_},
        {"jobsDeleted", deleted_},
        {"residentMiB", use.resident_mib},
        {"peakResidentMiB", use.peak_resident_mib},
        {"largestPageOfMetricsKiB", scraper_->largest_page() / 1024},
        {"deletionCpuMilliseconds", spent.cpu_seconds * 1e3 / deleted},
        {"deletionCpuMillisecondsWithoutTraining", (spent.cpu_seconds - trained_cpu) * 1e3 / deleted
        },
        {"deletionPasses", (spent.passes - trained_passes) / deleted},
    };
  }

  // The last running jobs are deleted while nobody but the floor is there to release their pods.
  void measure_floor(Json& result) {
    say("deleting jobs without a controller");
    scraper_.reset();
    leader_.reset();
    standby_.reset();
    const testing::TemporaryFolder folder;
    const std::string log = folder.path("floor.log");
    testing::ProcessSpawner spawner;
    const pid_t floor =
        must(spawner.spawn({"/proc/self/exe", "--release-floor=" + plane_->kubeconfig_file()}, log)
        );
    wait_until([&] { return testing::read_file(log) == "synced\n"; }, 60s, "the floor");
    const double before = use_of(floor).cpu_seconds;
    delete_jobs(kWave);
    std::this_thread::sleep_for(2s);
    result["deletionFloorCpuMilliseconds"] = (use_of(floor).cpu_seconds - before) * 1e3 / kWave;
    ::kill(floor, SIGKILL);
    static_cast<void>(testing::wait_for_exit(floor, 10s));
  }

  // Fills up with suspended jobs, which have no pods, starts one more wave, and deletes them.
  void measure_passes_beside_all(double beside_few, Json& result) {
    const int others = options_.present - options_.running;
    say("creating suspended jobs");
    parallel_.run("", static_cast<size_t>(others), [&](size_t i) {
      create(job_name("s-", static_cast<int>(i)), kPodsPerJob, true);
    });
    wait_until(
        [&] { return watch_.suspended() == static_cast<size_t>(others); }, 300s, "suspended jobs"
    );
    std::this_thread::sleep_for(5s);
    const size_t present = watch_.jobs.size();
    const double beside_all = measure_wave();
    const ProcessUse use = use_of(leader_->pid());
    say("deleting the suspended jobs");
    const Moment before = look_at(*leader_);
    parallel_.run("", static_cast<size_t>(others), [&](size_t i) {
      remove(job_name("s-", static_cast<int>(i)));
    });
    wait_until(
        [&] { return watch_.jobs.size() <= static_cast<size_t>(created_ - deleted_); },
        300s,
        "the suspended jobs' end"
    );
    std::this_thread::sleep_for(2s);
    const Moment after = look_at(*leader_);
    result["passes"] = {
        {"cpuMillisecondsBeside100", beside_few},
        {"cpuMillisecondsBesideAll", beside_all},
        {"jobsPresent", present},
        {"ratio", beside_all / beside_few},
        {"residentMiB", use.resident_mib},
    };
    result["deletionWithoutPodsCpuMilliseconds"] =
        cpu_seconds_between(before, after) * 1e3 / others;
  }

  void measure_failover(Json& result) {
    say("killing the leader");
    std::map<std::string, std::string> uids;
    for (const auto& pod : watch_.pods.all()) uids[pod->metadata.name] = pod->metadata.uid;
    scraper_.reset();
    leader_.reset();
    create("after", kPodsPerJob, false);
    const objects::Lease lease = must(objects::decode_lease(
        must(api_.get(client::resource_of<objects::Lease>(), {"default", std::string(kLeaseName)}))
    ));
    const TimePoint free = *lease.renew_time + std::chrono::seconds(lease.lease_duration_seconds);
    const auto says = [&](const char* text) {
      return standby_->log().find(text) != std::string::npos;
    };
    wait_until([&] { return says("\"leading\""); }, 60s, "another leader");
    const TimePoint leading = SystemClock().now();
    wait_until([&] { return says("caches are synced, reconciling"); }, 60s, "the first pass");
    const TimePoint passing = SystemClock().now();
    wait_until([&] { return has_status("after"); }, 60s, "the new job's first status");
    const TimePoint passed = SystemClock().now();
    wait_until([&] { return watch_.ready("after").nodes == kPodsPerJob; }, 60s, "the first gang");
    std::this_thread::sleep_for(5s);
    size_t replaced = 0;
    for (const auto& [name, uid] : uids) {
      const auto pod = watch_.pods.find({space_, name});
      if (!pod || pod->metadata.uid != uid) ++replaced;
    }
    size_t restarted = 0;
    for (const auto& job : watch_.jobs.all()) {
      if (job->status.attempt > 1) ++restarted;
    }
    result["failover"] = {
        {"leaseRanOutToLeadingSeconds", std::chrono::duration<double>(leading - free).count()},
        {"leadingToFirstPassSeconds", std::chrono::duration<double>(passing - leading).count()},
        {"leadingToFirstStatusSeconds", std::chrono::duration<double>(passed - leading).count()},
        {"pods", uids.size()},
        {"podsReplaced", replaced},
        {"jobsRestarted", restarted},
    };
  }

  [[nodiscard]] bool has_status(const std::string& name) const {
    const auto job = watch_.jobs.find({space_, name});
    return job && !job->status.conditions.empty();
  }

  const ScaleOptions options_;
  const std::unique_ptr<ControlPlane> plane_;
  SystemClock clock_;
  MetricsRegistry metrics_;
  const client::KubeConfig config_;
  const std::unique_ptr<client::HttpTransport> transport_;
  client::TokenSource tokens_;
  client::ApiClient api_;
  Parallel parallel_{kConnections, kConnections};
  ScaleWatch watch_;
  Agents agents_;
  const std::string space_;
  int created_ = 0;
  int deleted_ = 0;
  std::unique_ptr<ControllerProcess> leader_;
  std::unique_ptr<ControllerProcess> standby_;
  std::unique_ptr<Scraper> scraper_;
};

}  // namespace
}  // namespace gnn::app

int main(int argc, char** argv) {
  gnn::app::ScaleOptions options;
  bool understood = true;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::string value = argument.substr(argument.find('=') + 1);
    if (argument.starts_with("--jobs=")) {
      options.jobs = std::atoi(value.c_str());
    } else if (argument.starts_with("--running=")) {
      options.running = std::atoi(value.c_str());
    } else if (argument.starts_with("--present=")) {
      options.present = std::atoi(value.c_str());
    } else if (argument == "--only=deletion") {
      options.only_deletion = true;
    } else if (argument.starts_with("--release-floor=")) {
      gnn::app::run_release_floor(value);
    } else {
      understood = false;
    }
  }
  // The pods that change are those of the first 100 jobs.
  if (!understood || options.running < 200 || options.jobs <= options.running ||
      options.present <= options.running) {
    std::fprintf(
        stderr,
        "usage: %s [--jobs=N] [--running=N] [--present=N] [--only=deletion], 200 <= running < "
        "jobs, "
        "present\n",
        argv[0]
    );
    return 64;
  }
  try {
    std::printf("%s\n", gnn::app::ScaleBench(options).run().dump(2).c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
