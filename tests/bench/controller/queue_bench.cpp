// gnn-controller with jobs in queues of the real Kueue, or as gangs of a scheduler, on a real API server with one kwok
// node, which has room for one job at a time. Prints JSON:
//  1. admission: Kueue's admission → first pod, for jobs that come one after the other.
//  2. queued: CPU time of the controller and its calls but for the leader's lease in 60 s, with 200 jobs in the queue.
//  3. hand_over: the makespan of two jobs, as a multiple of the time that each takes alone, added up.
// usage: gnn-controller-queue-bench [--provider=Kueue|Native|Coscheduling]
//        [--part=admission|queued|hand-over] [--admissions=N] [--queued=N] [--run-seconds=N]
//        [--max-backoff=SECONDS]  podMaxBackoffSeconds of the scheduler, 10 by default
#include "tests/bench/controller/measure.h"
#include "tests/support/control_plane.h"
#include "tests/support/controller_process.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/http.h"
#include "tests/support/kueue.h"
#include "tests/support/must.h"
#include "tests/support/source_dir.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace gnn::app {
namespace {

using namespace std::chrono_literals;
using objects::Json;
using testing::ControllerProcess;
using testing::ControlPlane;
using testing::FaultProxy;
using testing::HttpStream;
using testing::must;

constexpr const char* kQueues = "/apis/kueue.x-k8s.io/v1beta2";
constexpr auto kWindow = 60s;

struct Options {
  std::string provider = "Kueue";
  std::string part = "all";
  int admissions = 20;
  int queued = 200;
  int run_seconds = 60;
  std::optional<int> max_backoff;
};

double seconds_since(SteadyPoint from) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

// Whether the condition of that type is True.
bool holds(const Json& object, const char* type) {
  if (!object.contains("status")) return false;
  for (const Json& each : object["status"].value("conditions", Json::array())) {
    if (each["type"] == type) return each["status"] == "True";
  }
  return false;
}

class QueueBench {
 public:
  explicit QueueBench(Options options)
      : options_(std::move(options)),
        plane_(must(ControlPlane::start(plane_options()))),
        name_space_(must(plane_->create_namespace("bench"))) {
    must(plane_->apply(gnn::testing::source_dir() + "/manifests/crds/gnnjobs.gnn.dev.yaml"));
    if (is("Coscheduling")) must(plane_->apply(plane_->program("podgroups.yaml")));
    must(plane_->start(testing::ControlPlanePart::Scheduler));
    if (is("Kueue")) make_queue();
    proxy_ = must(FaultProxy::in_front_of(*plane_));
    controller_ = std::make_unique<ControllerProcess>(
        *plane_,
        testing::ControllerArguments{
            .kubeconfig = must(plane_->write_kubeconfig(proxy_->url())),
            .name_space = name_space_,
            .more = controller_flags()
        }
    );
    if (!controller_->wait_working()) throw std::runtime_error(controller_->log());
  }

  Json run() {
    Json result = {{"provider", options_.provider}};
    if (is("Kueue") && begins("admission")) result["admission"] = admission();
    if (is("Kueue") && begins("queued")) result["queued"] = queued();
    if (begins("hand-over")) result["hand_over"] = hand_over();
    return result;
  }

 private:
  [[nodiscard]] bool begins(const char* part) const {
    const bool wanted = options_.part == "all" || options_.part == part;
    if (wanted) say(part);
    return wanted;
  }
  [[nodiscard]] bool is(const char* provider) const { return options_.provider == provider; }
  [[nodiscard]] testing::ControlPlaneOptions plane_options() const {
    testing::ControlPlaneOptions options{.fake_nodes = 1};
    options.scheduler_max_backoff = options_.max_backoff;
    if (is("Coscheduling")) options.programs = testing::ControlPlanePrograms::Coscheduling;
    if (!is("Native")) return options;
    options.api_server_flags = {"--runtime-config=scheduling.k8s.io/v1beta1=true"};
    options.programs = testing::ControlPlanePrograms::NativeGroups;
    options.feature_gates = "GenericWorkload=true";
    return options;
  }
  [[nodiscard]] std::vector<std::string> controller_flags() const {
    if (is("Kueue")) return {"--kueue"};
    std::vector<std::string> flags = {"--gang-provider=" + options_.provider};
    if (is("Coscheduling")) flags.emplace_back("--coscheduling-scheduler=coscheduling");
    return flags;
  }
  Json call(const char* method, const std::string& path, const Json& body = nullptr) const {
    const testing::HttpHeaders headers{
        {"Content-Type",
         std::strcmp(method, "PATCH") == 0 ? "application/merge-patch+json" : "application/json"}
    };
    const testing::HttpReply reply = must(testing::http_request(
        plane_->admin_endpoint(), method, path, body.is_null() ? "" : body.dump(), headers
    ));
    if (reply.status / 100 != 2) throw std::runtime_error(path + ": " + reply.body);
    return Json::parse(reply.body);
  }

  // With the node's eight GPUs as its quota, which are one job's.
  void make_queue() {
    kueue_ = must(testing::Kueue::start(*plane_));
    const auto make =
        [&](const std::string& collection, const char* kind, const char* name, const Json& spec) {
          call(
              "POST",
              kQueues + collection,
              {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
               {"kind", kind},
               {"metadata", {{"name", name}}},
               {"spec", spec}}
          );
        };
    make("/resourceflavors", "ResourceFlavor", "any", Json::object());
    const Json gpus = {{{"name", "nvidia.com/gpu"}, {"nominalQuota", "8"}}};
    make(
        "/clusterqueues",
        "ClusterQueue",
        "all",
        {{"namespaceSelector", Json::object()},
         {"resourceGroups",
          {{{"coveredResources", {"nvidia.com/gpu"}},
            {"flavors", {{{"name", "any"}, {"resources", gpus}}}}}}}}
    );
    make(
        "/namespaces/" + name_space_ + "/localqueues",
        "LocalQueue",
        "jobs",
        {{"clusterQueue", "all"}}
    );
  }

  [[nodiscard]] std::string jobs() const {
    return "/apis/gnn.dev/v1alpha1/namespaces/" + name_space_ + "/gnnjobs";
  }
  [[nodiscard]] std::string pods() const { return "/api/v1/namespaces/" + name_space_ + "/pods"; }
  [[nodiscard]] std::string workloads() const {
    return std::string(kQueues) + "/namespaces/" + name_space_ + "/workloads";
  }

  // Of four pods with two GPUs each.
  void create(const std::string& name) const {
    Json job = job_json(name_space_, name, 4);
    job["spec"]["workers"]["processesPerNode"] = 2;
    job["spec"]["workers"]["gpusPerProcess"] = 1;
    if (is("Kueue")) {
      job["metadata"]["labels"] = {{"kueue.x-k8s.io/queue-name", "jobs"}};
    } else {
      job["spec"]["scheduling"] = Json::object();
    }
    if (is("Coscheduling")) job["spec"]["workers"]["template"]["schedulerName"] = "coscheduling";
    call("POST", jobs(), job);
  }
  [[nodiscard]] bool job_holds(const std::string& name, const char* condition) const {
    return holds(call("GET", jobs() + "/" + name), condition);
  }
  void end_pods(const std::string& job) const {
    const Json list = call("GET", pods() + "?labelSelector=gnn.dev%2Fjob%3D" + job);
    for (const Json& pod : list["items"]) {
      call(
          "PATCH",
          pods() + "/" + pod["metadata"]["name"].get<std::string>() + "/status",
          {{"status",
            {{"phase", "Succeeded"},
             {"containerStatuses",
              {{{"name", "worker"},
                {"image", "x"},
                {"imageID", "x"},
                {"restartCount", 0},
                {"ready", false},
                {"state", {{"terminated", {{"exitCode", 0}}}}}}}}}}}
      );
    }
  }
  void remove_jobs() const {
    const Json list = call("GET", jobs());
    for (const Json& job : list["items"]) {
      call("DELETE", jobs() + "/" + job["metadata"]["name"].get<std::string>());
    }
    wait_until(
        [&] {
          const bool none = call("GET", pods())["items"].empty();
          return none && (!is("Kueue") || call("GET", workloads())["items"].empty());
        },
        180s,  // a garbage collector learns of a new kind late
        "the jobs' objects to be gone"
    );
  }

  // When the watch first shows an object that `is_it` takes.
  template <class IsIt>
  static SteadyPoint first(HttpStream& watch, IsIt is_it) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (std::chrono::steady_clock::now() < deadline) {
      const auto line = must(watch.read_line(60s));
      if (!line) break;
      const Json event = Json::parse(*line);
      if (is_it(event["object"])) return std::chrono::steady_clock::now();
    }
    throw std::runtime_error("timed out: an event");
  }
  [[nodiscard]] std::unique_ptr<HttpStream> watch(const std::string& collection) const {
    const std::string version = call("GET", collection)["metadata"]["resourceVersion"];
    return must(HttpStream::open(
        plane_->admin_endpoint(), collection + "?watch=true&resourceVersion=" + version
    ));
  }

  [[nodiscard]] Json admission() const {
    std::vector<double> waits;
    for (int number = 0; number < options_.admissions; ++number) {
      const auto workloads_watch = watch(workloads());
      const auto pods_watch = watch(pods());
      SteadyPoint admitted;
      SteadyPoint pod;
      // Each on a thread of its own, so that neither waits for the other.
      std::thread reader([&] { pod = first(*pods_watch, [](const Json&) { return true; }); });
      create("admitted");
      admitted = first(*workloads_watch, [](const Json& each) { return holds(each, "Admitted"); });
      reader.join();
      waits.push_back(std::chrono::duration<double>(pod - admitted).count());
      remove_jobs();
    }
    return {
        {"jobs", options_.admissions},
        {"median_seconds", percentile(waits, 0.5)},
        {"p90_seconds", percentile(waits, 0.9)},
        {"max_seconds", percentile(waits, 1)}
    };
  }

  [[nodiscard]] Json queued() const {
    create("holder");
    wait_until([&] { return job_holds("holder", "Running"); }, 60s, "the first job to run");
    for (int number = 0; number < options_.queued; ++number) create(job_name("queued-", number));
    wait_until(
        [&] {
          int waiting = 0;
          const Json list = call("GET", jobs());
          for (const Json& job : list["items"]) {
            const Json status = job.value("status", Json::object());
            for (const Json& each : status.value("conditions", Json::array())) {
              // In Kueue's words, which come one after the other.
              const bool told =
                  each["message"].get<std::string>().find("quota") != std::string::npos;
              if (each["type"] == "Scheduled" && each["reason"] == "Queued" && told) ++waiting;
            }
          }
          return waiting == options_.queued;
        },
        120s,
        "all jobs to be queued"
    );
    std::this_thread::sleep_for(10s);  // the last news are written by then
    proxy_->forget_requests();
    const double before = use_of(controller_->pid()).cpu_seconds;
    std::this_thread::sleep_for(kWindow);
    const ProcessUse after = use_of(controller_->pid());
    int renewals = 0;  // of the leader's lease, which go on whatever jobs there are
    std::map<std::string, int> calls;
    for (const testing::RecordedRequest& request : proxy_->requests()) {
      if (request.path.find("/leases/") != std::string::npos) {
        ++renewals;
      } else {
        ++calls[request.is_watch() ? std::string("WATCH") : request.method];
      }
    }
    const Json result = {
        {"jobs", options_.queued},
        {"seconds", std::chrono::duration<double>(kWindow).count()},
        {"cpu_seconds", after.cpu_seconds - before},
        {"share_of_core",
         (after.cpu_seconds - before) / std::chrono::duration<double>(kWindow).count()},
        {"resident_mib", after.resident_mib},
        {"lease_renewals", renewals},
        {"calls_by_method", calls}
    };
    remove_jobs();
    return result;
  }

  // From its creation to Complete, when it runs for run_seconds.
  void finish_after_run(const std::string& name) const {
    wait_until([&] { return job_holds(name, "Running"); }, 120s, "the job to run");
    std::this_thread::sleep_for(std::chrono::seconds(options_.run_seconds));
    end_pods(name);
    wait_until([&] { return job_holds(name, "Complete"); }, 60s, "the job to be complete");
  }

  [[nodiscard]] Json hand_over() const {
    double serial = 0;
    for (const char* name : {"alone-0", "alone-1"}) {
      const auto begin = std::chrono::steady_clock::now();
      create(name);
      finish_after_run(name);
      serial += seconds_since(begin);
      remove_jobs();
    }
    const auto begin = std::chrono::steady_clock::now();
    create("together-0");
    create("together-1");
    wait_until(
        [&] { return job_holds("together-0", "Running") || job_holds("together-1", "Running"); },
        60s,
        "one of two jobs to run"
    );
    const bool first_runs = job_holds("together-0", "Running");
    finish_after_run(first_runs ? "together-0" : "together-1");
    finish_after_run(first_runs ? "together-1" : "together-0");
    const double makespan = seconds_since(begin);
    remove_jobs();
    return {
        {"run_seconds", options_.run_seconds},
        {"serial_seconds", serial},
        {"makespan_seconds", makespan},
        {"makespan_over_serial", makespan / serial}
    };
  }

  const Options options_;
  std::unique_ptr<ControlPlane> plane_;
  std::string name_space_;
  std::unique_ptr<testing::Kueue> kueue_;
  std::unique_ptr<FaultProxy> proxy_;
  std::unique_ptr<ControllerProcess> controller_;
};

Options parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    const auto number = [&] { return std::stoi(argument.substr(argument.find('=') + 1)); };
    if (argument.starts_with("--provider="))
      options.provider = argument.substr(argument.find('=') + 1);
    else if (argument.starts_with("--part="))
      options.part = argument.substr(argument.find('=') + 1);
    else if (argument.starts_with("--admissions="))
      options.admissions = number();
    else if (argument.starts_with("--queued="))
      options.queued = number();
    else if (argument.starts_with("--run-seconds="))
      options.run_seconds = number();
    else if (argument.starts_with("--max-backoff="))
      options.max_backoff = number();
    else
      throw std::runtime_error("unknown option " + argument);
  }
  return options;
}

}  // namespace
}  // namespace gnn::app

int main(int count, char** arguments) {
  try {
    const auto result = gnn::app::QueueBench(gnn::app::parse(count, arguments)).run();
    std::printf("%s\n", result.dump(2).c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gnn-controller-queue-bench: %s\n", error.what());
    return 1;
  }
}
