#pragma once

#include "tests/integration/controller/fixture.h"
#include "tests/support/kueue.h"
#include "tests/support/must.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace gnn::testing {

inline constexpr const char* kQueues = "/apis/kueue.x-k8s.io/v1beta2";
inline constexpr const char* kPool = "example.com/pool";
inline constexpr const char* kQueueLabel = "kueue.x-k8s.io/queue-name";
inline constexpr const char* kPriorityLabel = "kueue.x-k8s.io/priority-class";
inline constexpr const char* kPrebuiltLabel = "kueue.x-k8s.io/prebuilt-workload-name";

/// The real Kueue beside a control plane with a real scheduler. kwok plays three nodes with eight GPUs: one of the pool
/// "spot", tainted, and two of the pool "reserved".
struct Environment {
  std::unique_ptr<ControlPlane> plane;
  std::unique_ptr<Kueue> kueue;
};

inline Json flavor(const std::string& pool) {
  Json made = {
      {"apiVersion", "kueue.x-k8s.io/v1beta2"},
      {"kind", "ResourceFlavor"},
      {"metadata", {{"name", pool}}},
      {"spec", {{"nodeLabels", {{kPool, pool}}}}}
  };
  if (pool == "spot") {
    made["spec"]["tolerations"] = {
        {{"key", kPool}, {"operator", "Equal"}, {"value", pool}, {"effect", "NoSchedule"}}
    };
  }
  return made;
}

inline Environment make_environment() {
  Environment made;
  made.plane = must(ControlPlane::start(
      {.scheduler = true, .fake_nodes = 3, .start_timeout = std::chrono::minutes(3)}
  ));
  install_crd(*made.plane);
  made.kueue = must(Kueue::start(
      *made.plane,
      R"({"waitForPodsReady": {"timeout": "5m", "recoveryTimeout": "5s",
                               "requeuingStrategy": {"backoffBaseSeconds": 1}}})"
  ));
  const Api api(*made.plane);
  for (int node = 0; node < 3; ++node) {
    const std::string pool = node == 0 ? "spot" : "reserved";
    Json changes = {{"metadata", {{"labels", {{kPool, pool}}}}}};
    if (node == 0) {
      changes["spec"]["taints"] = {{{"key", kPool}, {"value", pool}, {"effect", "NoSchedule"}}};
    }
    api.patch("/api/v1/nodes/fake-" + std::to_string(node), changes);
  }
  for (const char* pool : {"spot", "reserved"}) {
    api.create(std::string(kQueues) + "/resourceflavors", flavor(pool));
  }
  api.create(
      std::string(kQueues) + "/workloadpriorityclasses",
      {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
       {"kind", "WorkloadPriorityClass"},
       {"metadata", {{"name", "urgent"}}},
       {"value", 1000}}
  );
  return made;
}

/// The one of all tests of this program.
inline Environment& environment() {
  static Environment made = make_environment();
  return made;
}

struct Quota {
  std::string pool;
  int gpus = 0;
};

/// A namespace with queues of its own. Its jobs have two nodes with one GPU each.
class Queues : public ::testing::Test {
 protected:
  explicit Queues(Environment& environment = testing::environment())
      : environment_(environment),
        plane_(*environment.plane),
        cluster_(plane_),
        api_(cluster_.api()),
        name_space_(cluster_.name_space()) {}
  ~Queues() override {
    if (!controller_) start_controller();
    // The nodes are for the next test.
    for (const Json& job : items(cluster_.jobs())) remove_job(job["metadata"]["name"]);
    EXPECT_TRUE(eventually([&] {
      return items(cluster_.pods()).empty() && items(workloads()).empty();
    })) << log();
    EXPECT_THAT(environment_.kueue->log(), ::testing::Not(::testing::HasSubstr("is forbidden")))
        << "Kueue needs no more rights than it has";
  }

  void start_controller() {
    controller_ = std::make_unique<ControllerProcess>(plane_, cluster_.arguments({"--kueue"}));
  }

  /// A queue of that name for the jobs of this namespace, with a quota in each pool, tried in order.
  void create_queue(
      const std::string& name,
      const std::vector<Quota>& quotas,
      const Json& changes = Json::object()
  ) {
    Json flavors = Json::array();
    for (const Quota& quota : quotas) {
      const Json gpus = {{{"name", "nvidia.com/gpu"}, {"nominalQuota", std::to_string(quota.gpus)}}
      };
      flavors.push_back({{"name", quota.pool}, {"resources", gpus}});
    }
    Json queue = {
        {"apiVersion", "kueue.x-k8s.io/v1beta2"},
        {"kind", "ClusterQueue"},
        {"metadata", {{"name", cluster_queue(name)}}},
        {"spec",
         {{"namespaceSelector", Json::object()},
          {"cohortName", name_space_},
          {"preemption", {{"withinClusterQueue", "LowerPriority"}, {"reclaimWithinCohort", "Any"}}},
          {"resourceGroups", {{{"coveredResources", {"nvidia.com/gpu"}}, {"flavors", flavors}}}}}}
    };
    queue["spec"].merge_patch(changes);
    api_.create(std::string(kQueues) + "/clusterqueues", queue);
    api_.create(
        std::string(kQueues) + "/namespaces/" + name_space_ + "/localqueues",
        {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
         {"kind", "LocalQueue"},
         {"metadata", {{"name", name}}},
         {"spec", {{"clusterQueue", cluster_queue(name)}}}}
    );
  }
  [[nodiscard]] std::string cluster_queue(const std::string& name) const {
    return name_space_ + "-" + name;
  }

  struct Labels {
    std::string queue;
    std::string priority_class{};
    std::string prebuilt{};
  };
  void create_job(
      const std::string& name, const Labels& labels, const Json& changes = Json::object()
  ) const {
    Json spec = changes;
    for (const char* count : {"processesPerNode", "gpusPerProcess"}) {
      spec["workers"].emplace(count, 1);  // unless it has another
    }
    Json set = Json::object();
    if (!labels.queue.empty()) set[kQueueLabel] = labels.queue;
    if (!labels.priority_class.empty()) set[kPriorityLabel] = labels.priority_class;
    if (!labels.prebuilt.empty()) set[kPrebuiltLabel] = labels.prebuilt;
    cluster_.create_job(name, 2, spec, set);
  }
  /// Has room for one job: "a" runs, and "b" waits in the queue "team".
  void run_one_of_two() {
    start_controller();
    create_queue("team", {{"reserved", 2}});
    create_job("a", {"team"});
    ASSERT_TRUE(eventually([&] { return runs("a"); })) << log();
    create_job("b", {"team"});
    ASSERT_TRUE(eventually([&] { return queued("b"); })) << log();
  }
  void remove_job(const std::string& job) const { api_.remove(cluster_.jobs() + "/" + job); }

  [[nodiscard]] std::string workloads() const {
    return std::string(kQueues) + "/namespaces/" + name_space_ + "/workloads";
  }
  [[nodiscard]] std::vector<Json> items(const std::string& collection) const {
    const Json list = api_.find(collection);
    if (!list.is_object()) return {};
    return {list["items"].begin(), list["items"].end()};
  }

  [[nodiscard]] Json status(const std::string& job) const {
    const Json found = cluster_.job(job);
    return found.is_object() ? found.value("status", Json::object()) : Json::object();
  }
  [[nodiscard]] bool holds(const std::string& job, const std::string& type) const {
    return cluster_.holds(job, type);
  }
  [[nodiscard]] bool runs(const std::string& job) const { return holds(job, "Running"); }
  [[nodiscard]] std::string why_not_scheduled(const std::string& job) const {
    const Json scheduled = cluster_.condition(job, "Scheduled");
    return scheduled["status"] == "False" ? scheduled["reason"].get<std::string>() : "";
  }
  /// Whether the message of Scheduled has that text.
  [[nodiscard]] bool says(const std::string& job, const std::string& text) const {
    const std::string said = cluster_.condition(job, "Scheduled")["message"];
    return said.find(text) != std::string::npos;
  }
  /// It waits for Kueue for the first time, or was sent back into its queue; and it has no pod.
  [[nodiscard]] bool queued(const std::string& job) const {
    return why_not_scheduled(job) == "Queued" && pods_of(job).empty();
  }
  [[nodiscard]] bool evicted(const std::string& job) const {
    return why_not_scheduled(job) == "Evicted" && pods_of(job).empty() &&
           workload_says(job, "QuotaReserved") == "False";
  }
  [[nodiscard]] std::vector<Json> pods_of(const std::string& job) const {
    return cluster_.pods_of(job);
  }
  /// The job's Workload, or null.
  [[nodiscard]] Json workload_of(const std::string& job) const {
    for (const Json& each : items(workloads())) {
      for (const Json& owner : each["metadata"].value("ownerReferences", Json::array())) {
        if (owner["kind"] == "GNNJob" && owner["name"] == job) return each;
      }
    }
    return nullptr;
  }
  /// That condition of the job's Workload; all its fields are empty texts if there is none.
  [[nodiscard]] Json workload_condition(const std::string& job, const std::string& type) const {
    const Json found = workload_of(job);
    const Json status = found.is_object() ? found.value("status", Json::object()) : Json::object();
    return condition_in(status.value("conditions", Json::array()), type);
  }
  [[nodiscard]] std::string workload_says(const std::string& job, const std::string& type) const {
    return workload_condition(job, type)["status"];
  }
  [[nodiscard]] int reserving(const std::string& queue) const {
    const Json found = api_.find(std::string(kQueues) + "/clusterqueues/" + cluster_queue(queue));
    return found.value(Json::json_pointer("/status/reservingWorkloads"), 0);
  }

  void change_job(const std::string& job, const Json& spec) const {
    ASSERT_TRUE(api_.patch(cluster_.jobs() + "/" + job, {{"spec", spec}}));
  }
  void change_workload_of(const std::string& job, const Json& spec) const {
    const Json found = workload_of(job);
    ASSERT_TRUE(found.is_object()) << log();
    ASSERT_TRUE(api_.patch(
        workloads() + "/" + found["metadata"]["name"].get<std::string>(), {{"spec", spec}}
    ));
  }
  /// As the kubelets would report it.
  void end_pods(const std::string& job, int exit_code = 0) const {
    for (const Json& pod : pods_of(job)) cluster_.end_pod(pod["metadata"]["name"], exit_code);
  }

  [[nodiscard]] std::string log() const {
    std::string all;
    for (const Json& job : items(cluster_.jobs())) {
      all += job["metadata"]["name"].get<std::string>() + " ";
      all += job.value("status", Json::object()).dump(1) + "\n";
    }
    for (const Json& workload : items(workloads())) {
      all += workload["metadata"]["name"].get<std::string>() + " ";
      all += workload.value("status", Json::object()).dump(1) + "\n";
    }
    for (const Json& pod : items(cluster_.pods())) {
      all += pod["metadata"]["name"].get<std::string>() + " ";
      all += pod["status"].value("phase", std::string()) + "\n";
    }
    return all + (controller_ ? controller_->log() : "");
  }

  Environment& environment_;
  ControlPlane& plane_;
  Cluster cluster_;
  const Api& api_;
  const std::string& name_space_;
  std::unique_ptr<ControllerProcess> controller_;
};

}  // namespace gnn::testing
