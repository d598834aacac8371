// gnn-controller on a real API server, in one of whose namespaces lie objects of the largest size, beside 100 jobs of its
// own in another. Prints JSON: the controller's resident memory after it has listed all of them and at its peak, and the
// seconds until a new job of a third namespace has its first status, for each of --jobs jobs.
// usage: gnn-controller-filled-bench [--kind=configmaps|pods] [--megabytes=1500] [--jobs=5]
#include "common/contract.h"
#include "tests/bench/controller/measure.h"
#include "tests/support/control_plane.h"
#include "tests/support/controller_process.h"
#include "tests/support/http.h"
#include "tests/support/must.h"
#include "tests/support/source_dir.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
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
using testing::must;

constexpr int kOwnJobs = 100;
constexpr size_t kLargest = 1'040'000;  // bytes of text; a ConfigMap may have 1 MiB
constexpr int kWriters = 4;
constexpr double kLimitMib = 128;

struct Options {
  std::string kind = "configmaps";
  int megabytes = 1500;
  int jobs = 5;
};

std::string jobs_in(const std::string& name_space) {
  return "/apis/" + std::string(contract::kApiGroupVersion) + "/namespaces/" + name_space +
         "/gnnjobs";
}

// One object of the kind that the controller watches, by its label.
Json large_object(const std::string& kind, int number) {
  const std::string text(kLargest, 'x');
  Json object = {
      {"metadata",
       {{"name", "large-" + std::to_string(number)},
        {"labels", {{std::string(contract::kLabelJob), "large"}}}}}
  };
  if (kind == "configmaps") {
    object["data"] = {{"text", text}};
  } else {
    const Json variable = {{"name", "TEXT"}, {"value", text}};
    object["spec"]["containers"] = {
        {{"name", "c"}, {"image", "localhost/none:1"}, {"env", {variable}}}
    };
  }
  return object;
}

class FilledBench {
 public:
  explicit FilledBench(Options options)
      : options_(std::move(options)), plane_(must(ControlPlane::start())) {
    must(plane_->apply(testing::source_dir() + "/manifests/crds/gnnjobs.gnn.dev.yaml"));
    for (std::string* each : {&own_, &filled_, &other_}) {
      *each = must(plane_->create_namespace("bench"));
    }
  }

  Json run() {
    say("making jobs of the operator's own");
    for (int i = 0; i < kOwnJobs; ++i) create_job(own_, job_name("own", i));
    say("filling a namespace");
    fill();
    say("starting the controller");
    ControllerProcess controller(
        *plane_, {.kubeconfig = plane_->kubeconfig_file(), .name_space = {}}
    );
    const auto start = std::chrono::steady_clock::now();
    if (!controller.wait_working(5min)) throw std::runtime_error("the controller does not start");
    const double working = seconds_since(start);
    std::vector<double> first_status;
    for (int i = 0; i < options_.jobs; ++i) first_status.push_back(time_first_status(i));
    const ProcessUse use = use_of(controller.pid());
    return {
        {"kind", options_.kind},
        {"megabytes", options_.megabytes},
        {"objects", count()},
        {"seconds_until_working", working},
        {"resident_mib", use.resident_mib},
        {"peak_resident_mib", use.peak_resident_mib},
        {"limit_mib", kLimitMib},
        {"peak_to_limit", use.peak_resident_mib / kLimitMib},
        {"first_status_seconds", first_status},
        {"first_status_seconds_max", *std::ranges::max_element(first_status)},
    };
  }

 private:
  static double seconds_since(SteadyPoint from) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  }
  [[nodiscard]] int count() const {
    return static_cast<int>(int64_t{options_.megabytes} * 1'000'000 / int64_t{kLargest});
  }

  void create(const std::string& collection, const Json& object) const {
    const auto reply = must(testing::http_request(
        plane_->admin_endpoint(),
        "POST",
        collection,
        object.dump(),
        {{"Content-Type", "application/json"}},
        60s
    ));
    if (reply.status != 201)
      throw std::runtime_error(collection + ": " + reply.body.substr(0, 500));
  }
  void create_job(const std::string& name_space, const std::string& name) const {
    create(jobs_in(name_space), job_json(name_space, name, 1));
  }

  void fill() const {
    const std::string collection = "/api/v1/namespaces/" + filled_ + "/" + options_.kind;
    std::atomic<int> next = 0;
    std::vector<std::exception_ptr> errors(kWriters);
    std::vector<std::jthread> writers;
    for (int w = 0; w < kWriters; ++w) {
      writers.emplace_back([&, w] {
        try {
          for (int i = next++; i < count(); i = next++) {
            create(collection, large_object(options_.kind, i));
          }
        } catch (...) {
          errors[static_cast<size_t>(w)] = std::current_exception();
        }
      });
    }
    writers.clear();
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
  }

  [[nodiscard]] double time_first_status(int number) const {
    const std::string name = job_name("new", number);
    const auto start = std::chrono::steady_clock::now();
    create_job(other_, name);
    wait_until(
        [&] {
          const auto reply =
              testing::http_request(plane_->admin_endpoint(), "GET", jobs_in(other_) + "/" + name);
          return reply && Json::parse(reply->body).contains("status");
        },
        60s,
        "the first status of a job"
    );
    return seconds_since(start);
  }

  Options options_;
  std::unique_ptr<ControlPlane> plane_;
  std::string own_;
  std::string filled_;
  std::string other_;
};

int run(const std::vector<std::string>& arguments) {
  Options options;
  for (const std::string& each : arguments) {
    const size_t equals = each.find('=');
    const std::string name = each.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : each.substr(equals + 1);
    if (name == "--kind" && (value == "configmaps" || value == "pods")) {
      options.kind = value;
    } else if (name == "--megabytes") {
      options.megabytes = std::stoi(value);
    } else if (name == "--jobs") {
      options.jobs = std::max(1, std::stoi(value));
    } else {
      std::fprintf(stderr, "unknown argument %s; see the head of the source\n", each.c_str());
      return 64;
    }
  }
  std::printf("%s\n", FilledBench(options).run().dump(2).c_str());
  return 0;
}

}  // namespace
}  // namespace gnn::app

int main(int argc, char** argv) {
  try {
    return gnn::app::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
