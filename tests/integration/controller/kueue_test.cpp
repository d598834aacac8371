#include "tests/support/kueue.h"

#include "common/contract.h"
#include "tests/integration/controller/fixture.h"
#include "tests/support/must.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <signal.h>
#include <string>
#include <utility>
#include <vector>

// The real Kueue and a real scheduler; kwok plays three nodes with eight GPUs: one of the pool "spot", tainted, and
// two of the pool "reserved".
namespace gnn::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kQueues = "/apis/kueue.x-k8s.io/v1beta2";
constexpr const char* kPool = "example.com/pool";
constexpr const char* kQueueLabel = "kueue.x-k8s.io/queue-name";
constexpr const char* kPriorityLabel = "kueue.x-k8s.io/priority-class";

struct Environment {
  std::unique_ptr<ControlPlane> plane;
  std::unique_ptr<Kueue> kueue;
};

Json flavor(const std::string& pool) {
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

Environment make_environment() {
  Environment made;
  made.plane = must(ControlPlane::start(
      {.scheduler = true, .fake_nodes = 3, .start_timeout = std::chrono::minutes(3)}
  ));
  must(made.plane->apply(std::string(GNN_SOURCE_DIR) + "/manifests/crds/gnnjobs.gnn.dev.yaml"));
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

Environment& environment() {
  static Environment made = make_environment();
  return made;
}

struct Quota {
  std::string pool;
  int gpus = 0;
};

// A namespace with queues of its own. Its jobs have two nodes with one GPU each.
class Queues : public ::testing::Test {
 protected:
  Queues()
      : plane_(*environment().plane),
        api_(plane_),
        name_space_(must(plane_.create_namespace("queues"))) {}
  ~Queues() override {
    if (!controller_) start_controller();
    // The nodes are for the next test.
    for (const Json& job : items(jobs())) {
      api_.remove(jobs() + "/" + job["metadata"]["name"].get<std::string>());
    }
    EXPECT_TRUE(eventually([&] { return items(pods()).empty() && items(workloads()).empty(); }))
        << log();
    EXPECT_THAT(environment().kueue->log(), Not(HasSubstr("is forbidden")))
        << "Kueue needs no more rights than it has";
  }

  void start_controller() {
    controller_ = std::make_unique<ControllerProcess>(
        plane_, ControllerArguments{plane_.kubeconfig_file(), name_space_, {"--kueue"}}
    );
  }

  // A queue of that name for the jobs of this namespace, with a quota in each pool, tried in order.
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
  };
  void create_job(
      const std::string& name, const Labels& labels, const Json& changes = Json::object()
  ) const {
    Json job = {
        {"apiVersion", "gnn.dev/v1alpha1"},
        {"kind", "GNNJob"},
        {"metadata", {{"name", name}, {"namespace", name_space_}}},
        {"spec",
         {{"task", {{"type", "NodeClassification"}}},
          {"dataset",
           {{"format", "Synthetic"}, {"synthetic", {{"shape", "Arxiv"}, {"scale", "0.01"}}}}},
          {"model", {{"type", "GraphSAGE"}, {"graphSage", {{"layers", 2}}}}},
          {"sampling", {{"fanout", {5, 5}}}},
          {"workers",
           {{"nodes", 2},
            {"processesPerNode", 1},
            {"gpusPerProcess", 1},
            {"template", {{"image", "localhost/none:1"}}}}}}}
    };
    if (!labels.queue.empty()) job["metadata"]["labels"][kQueueLabel] = labels.queue;
    if (!labels.priority_class.empty()) {
      job["metadata"]["labels"][kPriorityLabel] = labels.priority_class;
    }
    job["spec"].merge_patch(changes);
    api_.create(jobs(), job);
  }

  [[nodiscard]] std::string jobs() const {
    return "/apis/gnn.dev/v1alpha1/namespaces/" + name_space_ + "/gnnjobs";
  }
  [[nodiscard]] std::string pods() const { return "/api/v1/namespaces/" + name_space_ + "/pods"; }
  [[nodiscard]] std::string workloads() const {
    return std::string(kQueues) + "/namespaces/" + name_space_ + "/workloads";
  }
  [[nodiscard]] std::vector<Json> items(const std::string& collection) const {
    const Json list = api_.find(collection);
    if (!list.is_object()) return {};
    return {list["items"].begin(), list["items"].end()};
  }

  [[nodiscard]] Json status(const std::string& job) const {
    const Json found = api_.find(jobs() + "/" + job);
    return found.is_object() ? found.value("status", Json::object()) : Json::object();
  }
  // One with empty texts if there is none.
  [[nodiscard]] static Json condition(const Json& status, const std::string& type) {
    for (const Json& each : status.value("conditions", Json::array())) {
      if (each["type"] == type) return each;
    }
    return {{"status", ""}, {"reason", ""}, {"message", ""}};
  }
  [[nodiscard]] bool holds(const std::string& job, const std::string& type) const {
    return condition(status(job), type)["status"] == "True";
  }
  [[nodiscard]] bool runs(const std::string& job) const { return holds(job, "Running"); }
  [[nodiscard]] std::string why_not_scheduled(const std::string& job) const {
    const Json scheduled = condition(status(job), "Scheduled");
    return scheduled["status"] == "False" ? scheduled["reason"].get<std::string>() : "";
  }
  // It waits for Kueue for the first time, or was sent back into its queue; and it has no pod.
  [[nodiscard]] bool queued(const std::string& job) const {
    return why_not_scheduled(job) == "Queued" && pods_of(job).empty();
  }
  [[nodiscard]] bool evicted(const std::string& job) const {
    return why_not_scheduled(job) == "Evicted" && pods_of(job).empty() &&
           workload_says(job, "QuotaReserved") == "False";
  }
  [[nodiscard]] std::vector<Json> pods_of(const std::string& job) const {
    return items(pods() + "?labelSelector=gnn.dev%2Fjob%3D" + job);
  }
  // The job's Workload, or null.
  [[nodiscard]] Json workload_of(const std::string& job) const {
    for (const Json& each : items(workloads())) {
      for (const Json& owner : each["metadata"].value("ownerReferences", Json::array())) {
        if (owner["kind"] == "GNNJob" && owner["name"] == job) return each;
      }
    }
    return nullptr;
  }
  // The status of that condition of the job's Workload; empty if there is none.
  [[nodiscard]] std::string workload_says(const std::string& job, const std::string& type) const {
    const Json found = workload_of(job);
    if (!found.is_object()) return "";
    return condition(found.value("status", Json::object()), type)["status"];
  }
  [[nodiscard]] int reserving(const std::string& queue) const {
    const Json found = api_.find(std::string(kQueues) + "/clusterqueues/" + cluster_queue(queue));
    return found.value(Json::json_pointer("/status/reservingWorkloads"), 0);
  }

  void change_job(const std::string& job, const Json& spec) const {
    ASSERT_TRUE(api_.patch(jobs() + "/" + job, {{"spec", spec}}));
  }
  void change_workload_of(const std::string& job, const Json& spec) const {
    const Json found = workload_of(job);
    ASSERT_TRUE(found.is_object()) << log();
    ASSERT_TRUE(api_.patch(
        workloads() + "/" + found["metadata"]["name"].get<std::string>(), {{"spec", spec}}
    ));
  }
  // As the kubelets would report it.
  void end_pods(const std::string& job, int exit_code = 0) const {
    for (const Json& pod : pods_of(job)) {
      const Json terminated = {{"terminated", {{"exitCode", exit_code}}}};
      api_.patch(
          pods() + "/" + pod["metadata"]["name"].get<std::string>() + "/status",
          {{"status",
            {{"phase", exit_code == 0 ? "Succeeded" : "Failed"},
             {"containerStatuses",
              {{{"name", "worker"},
                {"image", "x"},
                {"imageID", "x"},
                {"restartCount", 0},
                {"ready", false},
                {"state", terminated}}}}}}}
      );
    }
  }

  [[nodiscard]] std::string log() const {
    std::string all;
    for (const Json& job : items(jobs())) {
      all += job["metadata"]["name"].get<std::string>() + " ";
      all += job.value("status", Json::object()).dump(1) + "\n";
    }
    for (const Json& workload : items(workloads())) {
      all += workload["metadata"]["name"].get<std::string>() + " ";
      all += workload.value("status", Json::object()).dump(1) + "\n";
    }
    for (const Json& pod : items(pods())) {
      all += pod["metadata"]["name"].get<std::string>() + " ";
      all += pod["status"].value("phase", std::string()) + "\n";
    }
    return all + (controller_ ? controller_->log() : "");
  }

  ControlPlane& plane_;
  Api api_;
  std::string name_space_;
  std::unique_ptr<ControllerProcess> controller_;
};

TEST_F(Queues, AJobWaitsWithKueuesWordsUntilTheOneBeforeItHasEnded) {
  start_controller();
  create_queue("team", {{"reserved", 2}});
  create_job("a", {"team"});
  ASSERT_TRUE(eventually([&] { return runs("a"); })) << log();
  create_job("b", {"team"});
  ASSERT_TRUE(eventually([&] { return queued("b"); })) << log();
  const Json workload = workload_of("b");
  const std::string words = condition(workload["status"], "QuotaReserved")["message"];
  EXPECT_THAT(words, HasSubstr("insufficient unused quota for nvidia.com/gpu in flavor reserved"));
  ASSERT_TRUE(eventually([&] {
    const std::string said = condition(status("b"), "Scheduled")["message"];
    return said.find(words) != std::string::npos;
  })) << log();
  EXPECT_EQ(status("b")["scheduling"]["workload"], workload["metadata"]["name"]);
  EXPECT_EQ(status("a")["scheduling"]["clusterQueue"], cluster_queue("team"));
  for (const Json& pod : pods_of("a")) {
    EXPECT_EQ(pod["spec"]["nodeSelector"][kPool], "reserved");
  }
  EXPECT_EQ(workload_says("a", "PodsReady"), "True");

  end_pods("a");
  ASSERT_TRUE(eventually([&] { return holds("a", "Complete") && runs("b"); })) << log();
  ASSERT_TRUE(eventually([&] { return workload_says("a", "Finished") == "True"; })) << log();
  EXPECT_EQ(condition(workload_of("a")["status"], "Finished")["reason"], "Succeeded");
  EXPECT_FALSE(workload_of("a")["metadata"].contains("finalizers"));
  EXPECT_EQ(status("b")["attempt"], 1);

  end_pods("b", 64);
  ASSERT_TRUE(eventually([&] { return holds("b", "Failed") && reserving("team") == 0; })) << log();
  EXPECT_EQ(condition(workload_of("b")["status"], "Finished")["reason"], "Failed");
}

TEST_F(Queues, HasItsFirstPodSoonAfterItIsAdmitted) {
  start_controller();
  create_queue("team", {{"reserved", 2}});
  create_job("a", {"team"});
  ASSERT_TRUE(eventually([&] { return workload_says("a", "Admitted") == "True"; })) << log();
  const auto admitted = std::chrono::steady_clock::now();
  ASSERT_TRUE(eventually([&] { return !pods_of("a").empty(); })) << log();
  const auto passed = (std::chrono::steady_clock::now() - admitted) / 1ms;
  std::cout << "the first pod " << passed << " ms after the admission was seen\n";
  RecordProperty("first_pod_ms", static_cast<int>(passed));
}

TEST_F(Queues, PodsGoWhereTheirFlavorSays) {
  start_controller();
  create_queue("team", {{"reserved", 2}, {"spot", 2}});
  create_job("a", {"team"});
  ASSERT_TRUE(eventually([&] { return runs("a"); })) << log();
  create_job("b", {"team"});
  ASSERT_TRUE(eventually([&] { return runs("b"); })) << log();
  for (const Json& pod : pods_of("a")) EXPECT_NE(pod["spec"]["nodeName"], "fake-0");
  for (const Json& pod : pods_of("b")) EXPECT_EQ(pod["spec"]["nodeName"], "fake-0");
}

TEST_F(Queues, AJobThatBorrowsGivesBackAndResumes) {
  start_controller();
  create_queue("east", {{"reserved", 2}});
  create_queue("west", {{"reserved", 2}});
  create_job("borrower", {"east"}, {{"workers", {{"processesPerNode", 2}}}});
  ASSERT_TRUE(eventually([&] { return runs("borrower"); })) << log();
  create_job("owner", {"west"});
  ASSERT_TRUE(eventually([&] { return runs("owner") && evicted("borrower"); })) << log();
  end_pods("owner");
  ASSERT_TRUE(eventually([&] { return holds("owner", "Complete") && runs("borrower"); })) << log();
  EXPECT_EQ(status("borrower")["attempt"], 2);
  EXPECT_EQ(status("borrower")["restarts"], 0);
}

TEST_F(Queues, AMoreUrgentJobPreemptsOneWhichResumesUncharged) {
  start_controller();
  create_queue("team", {{"reserved", 2}});
  create_job("a", {"team"}, {{"runPolicy", {{"maxRestarts", 0}}}});
  ASSERT_TRUE(eventually([&] { return runs("a"); })) << log();
  const Json uid = workload_of("a")["metadata"]["uid"];
  create_job("urgent", {"team", "urgent"});
  ASSERT_TRUE(eventually([&] { return runs("urgent") && evicted("a"); })) << log();
  EXPECT_EQ(workload_of("urgent")["spec"]["priority"], 1000);
  EXPECT_THAT(
      condition(status("a"), "Scheduled")["message"].get<std::string>(),
      HasSubstr("Preempted to accommodate a workload")
  );
  EXPECT_EQ(workload_says("a", "Requeued"), "True");
  end_pods("urgent");
  ASSERT_TRUE(eventually([&] { return holds("urgent", "Complete") && runs("a"); })) << log();
  EXPECT_EQ(workload_of("a")["metadata"]["uid"], uid);
  EXPECT_EQ(status("a")["attempt"], 2);
  EXPECT_EQ(status("a")["restarts"], 0);
  end_pods("a");
  ASSERT_TRUE(eventually([&] { return holds("a", "Complete"); })) << log();
}

TEST_F(Queues, AJobThatDoesNotRecoverFromALostNodeGoesBackToItsQueue) {
  start_controller();
  create_queue("team", {{"reserved", 16}});
  create_job("a", {"team"}, {{"workers", {{"processesPerNode", 8}}}});
  ASSERT_TRUE(eventually([&] { return runs("a"); })) << log();
  const std::string node = "/api/v1/nodes/fake-2";
  api_.patch(node, {{"spec", {{"unschedulable", true}}}});
  for (const Json& pod : pods_of("a")) {
    if (pod["spec"]["nodeName"] != "fake-2") continue;
    api_.remove(pods() + "/" + pod["metadata"]["name"].get<std::string>());
  }
  ASSERT_TRUE(eventually([&] { return status("a").value("attempt", 0) == 2; })) << log();
  ASSERT_TRUE(eventually([&] {
    return condition(workload_of("a")["status"], "Evicted")["reason"] == "PodsReadyTimeout";
  })) << log();
  api_.patch(node, {{"spec", {{"unschedulable", false}}}});
  ASSERT_TRUE(eventually([&] { return status("a")["attempt"] >= 3 && runs("a"); })) << log();
  EXPECT_EQ(status("a")["restarts"], 0);
}

TEST_F(Queues, AWorkloadThatAnAdministratorDeactivatesStaysThatWayUntilHeActivatesIt) {
  start_controller();
  create_queue("team", {{"reserved", 2}});
  create_job("a", {"team"});
  ASSERT_TRUE(eventually([&] { return runs("a"); })) << log();
  change_workload_of("a", {{"active", false}});
  ASSERT_TRUE(eventually([&] { return evicted("a"); })) << log();
  EXPECT_EQ(api_.get(jobs() + "/a")["spec"].value("suspend", false), false);
  // Another job's whole life, in which the controller has looked at both.
  create_job("b", {"team"});
  ASSERT_TRUE(eventually([&] { return runs("b"); })) << log();
  end_pods("b");
  ASSERT_TRUE(eventually([&] { return holds("b", "Complete"); })) << log();
  EXPECT_EQ(workload_of("a")["spec"]["active"], false);
  EXPECT_TRUE(pods_of("a").empty());
  change_workload_of("a", {{"active", true}});
  ASSERT_TRUE(eventually([&] { return runs("a"); })) << log();
  EXPECT_EQ(status("a")["restarts"], 0);
}

TEST_F(Queues, ASuspendedJobGivesItsQuotaAwayAndWaitsForItWhenItIsResumed) {
  start_controller();
  create_queue("team", {{"reserved", 2}});
  create_job("a", {"team"});
  ASSERT_TRUE(eventually([&] { return runs("a"); })) << log();
  create_job("b", {"team"});
  ASSERT_TRUE(eventually([&] { return queued("b"); })) << log();
  change_job("a", {{"suspend", true}});
  ASSERT_TRUE(eventually([&] { return holds("a", "Suspended") && runs("b"); })) << log();
  EXPECT_TRUE(pods_of("a").empty());
  change_job("a", {{"suspend", false}});
  ASSERT_TRUE(eventually([&] { return queued("a"); })) << log();
  end_pods("b");
  ASSERT_TRUE(eventually([&] { return holds("b", "Complete") && runs("a"); })) << log();
  EXPECT_EQ(status("a")["restarts"], 0);
}

TEST_F(Queues, AJobWithServersIsAdmittedWithBothRoles) {
  start_controller();
  create_queue("team", {{"spot", 2}});
  create_job(
      "a",
      {"team"},
      {{"dataset", {{"format", "Native"}, {"path", "/data"}, {"synthetic", nullptr}}},
       {"placement", {{"partitions", 1}}},
       {"servers", {{"nodes", 2}, {"template", {{"image", "localhost/none:1"}}}}}}
  );
  ASSERT_TRUE(eventually([&] { return runs("a") && holds("a", "ServersReady"); })) << log();
  std::map<std::string, int> counts;
  const Json workload = workload_of("a");
  for (const Json& set : workload["spec"]["podSets"]) counts[set["name"]] = set["count"];
  EXPECT_EQ(counts, (std::map<std::string, int>{{"servers", 2}, {"workers", 2}}));
  EXPECT_EQ(pods_of("a").size(), 4U);
  for (const Json& pod : pods_of("a")) {
    const bool serves = pod["metadata"]["labels"].contains(std::string(contract::kLabelServer));
    EXPECT_EQ(pod["metadata"]["labels"]["kueue.x-k8s.io/podset"], serves ? "servers" : "workers");
    // Servers ask for nothing of which there is a quota.
    if (!serves) {
      EXPECT_EQ(pod["spec"]["nodeSelector"][kPool], "spot");
    }
  }
}

TEST_F(Queues, AJobOfAQueueThatDoesNotExistSaysSoAndStartsOnceItDoes) {
  start_controller();
  create_job("a", {"late"});
  ASSERT_TRUE(eventually([&] { return queued("a"); })) << log();
  EXPECT_TRUE(eventually([&] {
    const std::string said = condition(status("a"), "Scheduled")["message"];
    return said.find("LocalQueue late doesn't exist") != std::string::npos;
  })) << log();
  create_queue("late", {{"reserved", 2}});
  ASSERT_TRUE(eventually([&] { return runs("a"); })) << log();
}

TEST_F(Queues, AJobWithoutALabelStartsAtOnceAndHasNoWorkload) {
  start_controller();
  create_job("a", {});
  ASSERT_TRUE(eventually([&] { return runs("a"); })) << log();
  EXPECT_TRUE(items(workloads()).empty());
}

TEST_F(Queues, DeletedJobsLeaveNoWorkload) {
  start_controller();
  create_queue("team", {{"reserved", 2}});
  create_job("running", {"team"});
  ASSERT_TRUE(eventually([&] { return runs("running"); })) << log();
  create_job("queued", {"team"});
  ASSERT_TRUE(eventually([&] { return queued("queued"); })) << log();
  api_.remove(jobs() + "/queued");
  ASSERT_TRUE(eventually([&] { return workload_of("queued").is_null(); })) << log();
  // While there is no controller, and for the next one to find.
  create_job("queued", {"team"});
  ASSERT_TRUE(eventually([&] { return queued("queued"); })) << log();
  controller_.reset();
  for (const char* job : {"running", "queued"}) api_.remove(jobs() + "/" + job);
  start_controller();
  ASSERT_TRUE(eventually([&] { return items(workloads()).empty() && items(pods()).empty(); }))
      << log();
  ASSERT_TRUE(eventually([&] { return reserving("team") == 0; })) << log();
}

// Queued, admitted, preempted, admitted again, complete.
TEST_F(Queues, AJobLosesNothingWhenTheControllerIsKilledAfterAnyOfItsWrites) {
  const bool full = std::getenv("GNN_FULL") != nullptr;
  for (int k = 1;; k += full ? 1 : 8) {
    const std::string number = std::to_string(k);
    const std::string queue = "team" + number;
    const std::string calm = "calm" + number;
    const std::string urgent = "urgent" + number;
    // In a cohort of its own: there is nothing to borrow from the queues of earlier rounds.
    create_queue(queue, {{"reserved", 2}}, {{"cohortName", cluster_queue(queue)}});
    const auto proxy = must(FaultProxy::in_front_of(plane_));
    controller_ = std::make_unique<ControllerProcess>(
        plane_,
        ControllerArguments{must(plane_.write_kubeconfig(proxy->url())), name_space_, {"--kueue"}}
    );
    std::atomic<bool> killed = false;
    proxy->after_write(k, [&] {
      controller_->signal(SIGKILL);
      killed = true;
    });
    bool started_again = false;
    const auto comes = [&](const std::function<bool()>& state) {
      return eventually([&] {
        if (killed && !std::exchange(started_again, true)) start_controller();
        return state();
      });
    };
    create_job(calm, {queue});
    ASSERT_TRUE(comes([&] { return runs(calm); })) << "write " << k << "\n" << log();
    create_job(urgent, {queue, "urgent"});
    ASSERT_TRUE(comes([&] { return runs(urgent) && evicted(calm); })) << "write " << k << log();
    end_pods(urgent);
    ASSERT_TRUE(comes([&] { return holds(urgent, "Complete") && runs(calm); }))
        << "write " << k << log();
    end_pods(calm);
    ASSERT_TRUE(comes([&] {
      return holds(calm, "Complete") && workload_says(calm, "Finished") == "True" &&
             workload_says(urgent, "Finished") == "True";
    })) << "write "
        << k << log();
    EXPECT_EQ(status(calm)["attempt"], 2) << "write " << k;
    EXPECT_EQ(status(calm)["restarts"], 0) << "write " << k;
    EXPECT_EQ(status(urgent)["attempt"], 1) << "write " << k;
    EXPECT_EQ(items(workloads()).size(), 2U) << "write " << k;
    for (const std::string& job : {calm, urgent}) api_.remove(jobs() + "/" + job);
    ASSERT_TRUE(comes([&] { return items(workloads()).empty() && items(pods()).empty(); }))
        << "write " << k << log();
    if (!killed) break;  // Their lives have fewer writes.
  }
}

}  // namespace
}  // namespace gnn::testing
