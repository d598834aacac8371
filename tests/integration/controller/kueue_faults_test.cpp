#include "tests/integration/controller/queues.h"
#include "tests/integration/controller/release.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

// What goes wrong around a job in a queue of the real Kueue: writes that fail, and what people do to Workloads, queues
// and the API itself.
namespace gnn::testing {
namespace {

using namespace std::chrono_literals;

// The first of each kind of write to a Workload: by method and subresource.
RequestMatcher first_writes_of_each_kind() {
  struct Seen {
    std::mutex mutex;
    std::set<std::string> kinds;
  };
  const auto seen = std::make_shared<Seen>();
  return [seen](const RecordedRequest& request) {
    if (!request.is_write() || request.path.find("/workloads") == std::string::npos) return false;
    const bool status = request.path.ends_with("/status");
    const bool json_patch = request.body.starts_with("[");
    const std::lock_guard lock(seen->mutex);
    return seen->kinds
        .insert(
            request.method + (status       ? " status"
                              : json_patch ? " finalizers"
                                           : "")
        )
        .second;
  };
}

class QueueFaults : public Queues {
 protected:
  explicit QueueFaults(Environment& environment = testing::environment()) : Queues(environment) {}

  // Queued, admitted, preempted, admitted again, complete.
  void live() {
    create_queue("team", {{"reserved", 2}});
    create_job("calm", {"team"});
    ASSERT_TRUE(eventually([&] { return runs("calm"); })) << log();
    create_job("urgent", {"team", "urgent"});
    ASSERT_TRUE(eventually([&] { return runs("urgent") && evicted("calm"); })) << log();
    end_pods("urgent");
    ASSERT_TRUE(eventually([&] { return holds("urgent", "Complete") && runs("calm"); })) << log();
    end_pods("calm");
    ASSERT_TRUE(eventually([&] {
      return holds("calm", "Complete") && workload_says("calm", "Finished") == "True" &&
             workload_says("urgent", "Finished") == "True" && reserving("team") == 0;
    })) << log();
    EXPECT_EQ(status("calm")["attempt"], 2);
    EXPECT_EQ(status("calm")["restarts"], 0);
    EXPECT_EQ(status("urgent")["attempt"], 1);
    EXPECT_EQ(items(workloads()).size(), 2U);
  }
  void live_with(const Answer& answer) {
    const auto proxy = must(FaultProxy::in_front_of(plane_));
    const int fault = proxy->add_fault(first_writes_of_each_kind(), answer);
    controller_ = std::make_unique<ControllerProcess>(
        plane_, cluster_.arguments_through(*proxy, {"--kueue"})
    );
    live();
    // Made, and let go; its readiness and end were told.
    EXPECT_GE(proxy->times_applied(fault), 3);
    controller_.reset();
  }
  [[nodiscard]] std::string name_of_workload(const std::string& job) const {
    const Json found = workload_of(job);
    return found.is_object() ? found["metadata"]["name"].get<std::string>() : "";
  }
  [[nodiscard]] Json uids_of_pods(const std::string& job) const {
    Json uids = Json::array();
    for (const Json& pod : pods_of(job)) uids.push_back(pod["metadata"]["uid"]);
    return uids;
  }
  [[nodiscard]] std::string gpus_asked(const std::string& job) const {
    const Json found = workload_of(job);
    const Json::json_pointer gpus(
        "/spec/podSets/0/template/spec/containers/0/resources/requests/nvidia.com~1gpu"
    );
    return found.is_object() ? found.value(gpus, std::string()) : "";
  }
  // A copy of that job's Workload under another name, as Kueue's MultiKueue makes one.
  void copy_workload(const std::string& job, const std::string& name, const Json& changes) const {
    const Json found = workload_of(job);
    Json copy = {
        {"apiVersion", found["apiVersion"]},
        {"kind", "Workload"},
        {"metadata", {{"name", name}}},
        {"spec", found["spec"]}
    };
    for (const auto& [path, value] : changes.items()) copy[Json::json_pointer(path)] = value;
    api_.create(workloads(), copy);
  }
};

TEST_F(QueueFaults, WritesThatMeetAConflictAreMadeAgain) {
  live_with(answer_conflict());
}
TEST_F(QueueFaults, WritesThatAreGoneAreMadeAgain) {
  live_with(answer_gone());
}
TEST_F(QueueFaults, WritesThatFailAreMadeAgain) {
  live_with(answer_internal_error());
}

TEST_F(QueueFaults, TheChartsRightsAndPoliciesSufficeForAJobsLife) {
  const Release release(
      "kueue", cluster_, {.settings = {"--set=kueue.enabled=true"}, .arguments = {"--kueue"}}
  );
  live();
  for (const char* job : {"calm", "urgent"}) remove_job(job);
  ASSERT_TRUE(eventually([&] { return items(workloads()).empty(); })) << release.log();
  EXPECT_EQ(release.forbidden(), "");
}

TEST_F(QueueFaults, ASuspensionThatFlapsEndsInWhatWasSaidLast) {
  start_controller();
  create_queue("team", {{"reserved", 2}});
  create_job("a", {"team"});
  ASSERT_TRUE(eventually([&] { return runs("a"); })) << log();
  for (int i = 0; i < 20; ++i) change_job("a", {{"suspend", i % 2 == 0}});
  ASSERT_TRUE(eventually([&] {
    return runs("a") && workload_of("a")["spec"]["active"] == true && reserving("team") == 1;
  })) << log();
  EXPECT_EQ(status("a")["restarts"], 0);
  for (int i = 0; i < 21; ++i) change_job("a", {{"suspend", i % 2 == 0}});
  ASSERT_TRUE(eventually([&] {
    return holds("a", "Suspended") && pods_of("a").empty() && reserving("team") == 0;
  })) << log();
}

TEST_F(QueueFaults, AWorkloadThatSomebodyDeletesIsMadeAgainOnceNoPodIsLeft) {
  ASSERT_NO_FATAL_FAILURE(run_one_of_two());
  for (const char* job : {"b", "a"}) {
    const Json uid = workload_of(job)["metadata"]["uid"];
    api_.remove(workloads() + "/" + name_of_workload(job));
    ASSERT_TRUE(eventually([&] {
      const Json found = workload_of(job);
      return found.is_object() && found["metadata"]["uid"] != uid;
    })) << log();
  }
  // Whose turn it is Kueue says; one runs, and has lost nothing.
  ASSERT_TRUE(eventually([&] { return runs("a") != runs("b") && reserving("team") == 1; }))
      << log();
  EXPECT_EQ(status("a")["restarts"], 0);
}

TEST_F(QueueFaults, AWorkloadThatATenantTakesTheJobsLabelFromHasItBackAndTheJobRunsOn) {
  ASSERT_NO_FATAL_FAILURE(run_one_of_two());
  const Json pods = uids_of_pods("a");
  for (const char* job : {"a", "b"}) {
    const Json uid = workload_of(job)["metadata"]["uid"];
    ASSERT_TRUE(api_.patch(
        workloads() + "/" + name_of_workload(job),
        {{"metadata", {{"labels", {{"gnn.dev/job", nullptr}}}}}}
    ));
    ASSERT_TRUE(eventually([&] {
      const Json meta = workload_of(job)["metadata"];
      return meta["uid"] == uid && meta["labels"].value("gnn.dev/job", "") == job;
    })) << log();
  }
  EXPECT_EQ(uids_of_pods("a"), pods);
  end_pods("a");
  ASSERT_TRUE(eventually([&] { return holds("a", "Complete") && runs("b"); })) << log();
  EXPECT_EQ(status("a")["attempt"], 1);
}

TEST_F(QueueFaults, AWorkloadThatATenantMakesAskForLessGetsNoPods) {
  start_controller();
  create_queue("team", {{"reserved", 1}});  // too little for a job
  create_job("a", {"team"});
  ASSERT_TRUE(eventually([&] { return queued("a") && gpus_asked("a") == "1"; })) << log();
  Json pod_sets = workload_of("a")["spec"]["podSets"];
  pod_sets[0]["template"]["spec"]["containers"][0]["resources"] = Json::object();
  // While nobody looks, so that Kueue admits it.
  controller_.reset();
  change_workload_of("a", {{"podSets", pod_sets}});
  ASSERT_TRUE(eventually([&] { return workload_says("a", "Admitted") == "True"; })) << log();
  start_controller();
  ASSERT_TRUE(eventually([&] {
    return gpus_asked("a") == "1" && workload_says("a", "QuotaReserved") == "False";
  })) << log();
  EXPECT_TRUE(queued("a")) << log();
  // While it waits, too.
  change_workload_of("a", {{"podSets", pod_sets}});
  ASSERT_TRUE(eventually([&] { return gpus_asked("a") == "1"; })) << log();
  EXPECT_EQ(status("a")["restarts"], 0);
}

TEST_F(QueueFaults, OfTwoJobsThatNameOnePrebuiltWorkloadOneHasIt) {
  start_controller();
  create_queue("team", {{"reserved", 2}});
  create_job("pattern", {"team"}, {{"suspend", false}});
  ASSERT_TRUE(eventually([&] { return runs("pattern"); })) << log();
  copy_workload("pattern", "made", Json::object());
  copy_workload(
      "pattern",
      "smaller",
      {{"/spec/podSets/0/template/spec/containers/0/resources/requests/nvidia.com~1gpu", "0"},
       {"/spec/podSets/0/template/spec/containers/0/resources/limits/nvidia.com~1gpu", "0"}}
  );
  create_job("a", {.queue = "team", .prebuilt = "made"});
  create_job("b", {.queue = "team", .prebuilt = "made"});
  create_job("c", {.queue = "team", .prebuilt = "smaller"});
  ASSERT_TRUE(eventually([&] {
    return (why_not_scheduled("a") == "NameTaken") != (why_not_scheduled("b") == "NameTaken") &&
           workload_of("a").is_object() != workload_of("b").is_object();
  })) << log();
  ASSERT_TRUE(eventually([&] { return says("c", "nvidia.com/gpu 0 instead of 1"); })) << log();
  EXPECT_TRUE(pods_of("c").empty());
  end_pods("pattern");
  const std::string first = workload_of("a").is_object() ? "a" : "b";
  ASSERT_TRUE(eventually([&] { return runs(first); })) << log();
  EXPECT_TRUE(pods_of(first == "a" ? "b" : "a").empty());
  api_.remove(workloads() + "/smaller");  // nobody's
}

TEST_F(QueueFaults, AnotherQueueAppliesAtOnceWhileAJobWaitsAndLaterWhileItRuns) {
  start_controller();
  // In cohorts of their own: there is nothing to borrow.
  create_queue("full", {{"reserved", 1}}, {{"cohortName", cluster_queue("full")}});
  create_queue("free", {{"reserved", 2}}, {{"cohortName", cluster_queue("free")}});
  create_job("a", {"full"});
  ASSERT_TRUE(eventually([&] { return queued("a"); })) << log();
  const auto move = [&](const char* queue) {
    api_.patch(cluster_.jobs() + "/a", {{"metadata", {{"labels", {{kQueueLabel, queue}}}}}});
  };
  move("free");
  ASSERT_TRUE(eventually([&] { return runs("a"); })) << log();
  move("full");
  ASSERT_TRUE(eventually([&] {
    return cluster_.condition("a", "Accepted")["reason"] == "AwaitsQueue";
  })) << log();
  EXPECT_TRUE(runs("a"));
  EXPECT_EQ(workload_of("a")["spec"]["queueName"], "free");
  change_job("a", {{"suspend", true}});
  ASSERT_TRUE(eventually([&] { return workload_of("a")["spec"]["queueName"] == "full"; })) << log();
  change_job("a", {{"suspend", false}});
  ASSERT_TRUE(eventually([&] { return queued("a"); })) << log();
}

TEST_F(QueueFaults, AQueueThatAnAdministratorStopsHoldsJobsOrDrainsThem) {
  start_controller();
  create_queue("team", {{"reserved", 4}});
  const auto stop = [&](const char* policy) {
    api_.patch(
        std::string(kQueues) + "/clusterqueues/" + cluster_queue("team"),
        {{"spec", {{"stopPolicy", policy}}}}
    );
  };
  create_job("a", {"team"});
  ASSERT_TRUE(eventually([&] { return runs("a"); })) << log();
  stop("Hold");
  create_job("b", {"team"});
  ASSERT_TRUE(eventually([&] { return queued("b") && says("b", "is inactive"); })) << log();
  EXPECT_TRUE(runs("a"));
  stop("HoldAndDrain");
  ASSERT_TRUE(eventually([&] { return evicted("a") && says("a", "ClusterQueueStopped"); }))
      << log();
  stop("None");
  ASSERT_TRUE(eventually([&] { return runs("a") && runs("b"); })) << log();
  EXPECT_EQ(status("a")["restarts"], 0);
}

TEST_F(QueueFaults, JobsThatAreDeletedInAnyStateAndTheirNamespaceGo) {
  start_controller();
  create_queue("team", {{"reserved", 2}});
  create_job("a", {"team"});
  ASSERT_TRUE(eventually([&] { return runs("a"); })) << log();
  create_job("queued", {"team"});
  ASSERT_TRUE(eventually([&] { return queued("queued"); })) << log();
  // While it is evicted: its pods leave at once here, so that it may be over already.
  create_job("urgent", {"team", "urgent"});
  ASSERT_TRUE(eventually([&] { return workload_says("a", "Evicted") == "True"; })) << log();
  remove_job("a");
  ASSERT_TRUE(eventually([&] { return workload_of("a").is_null() && runs("urgent"); })) << log();
  api_.remove("/api/v1/namespaces/" + name_space_);
  ASSERT_TRUE(eventually([&] { return api_.find("/api/v1/namespaces/" + name_space_).is_null(); }))
      << log();
  EXPECT_TRUE(eventually([&] { return reserving("team") == 0; }));
}

TEST_F(QueueFaults, AJobWithoutAClassHasTheClustersDefaultPriority) {
  const std::string classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
  api_.create(classes, {{"metadata", {{"name", "all"}}}, {"value", 500}, {"globalDefault", true}});
  start_controller();
  create_queue("team", {{"reserved", 2}});
  create_job("a", {"team"});
  ASSERT_TRUE(eventually([&] { return runs("a"); })) << log();
  api_.remove(classes + "/all");
  EXPECT_EQ(workload_of("a")["spec"]["priority"], 500);
  EXPECT_EQ(workload_of("a")["spec"]["priorityClassRef"]["name"], "all");
  for (const Json& pod : pods_of("a")) EXPECT_EQ(pod["spec"]["priority"], 500);
}

// An API of its own, which does not come back whole.
class RemovedQueues : public QueueFaults {
 protected:
  RemovedQueues() : QueueFaults(own()) {}

 private:
  static Environment& own() {
    static Environment made = make_environment();
    return made;
  }
};

TEST_F(RemovedQueues, JobsWaitUntilTheirApiIsBack) {
  start_controller();
  create_queue("team", {{"reserved", 2}});
  create_job("a", {"team"});
  ASSERT_TRUE(eventually([&] { return runs("a"); })) << log();
  create_job("free", {});
  ASSERT_TRUE(eventually([&] { return runs("free"); })) << log();
  const std::string crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
  const std::string name = "workloads.kueue.x-k8s.io";
  const Json crd = api_.get(crds + "/" + name);
  // Its Workload goes with it.
  api_.remove(crds + "/" + name);
  ASSERT_TRUE(eventually([&] { return api_.find(crds + "/" + name).is_null(); })) << log();
  ASSERT_TRUE(eventually([&] { return pods_of("a").empty() && says("a", "does not serve"); }))
      << log();
  EXPECT_TRUE(runs("free"));
  api_.create(
      crds,
      {{"apiVersion", crd["apiVersion"]},
       {"kind", crd["kind"]},
       {"metadata", {{"name", name}, {"annotations", crd["metadata"]["annotations"]}}},
       {"spec", crd["spec"]}}
  );
  ASSERT_TRUE(eventually([&] { return runs("a"); }, 180s)) << log();
  EXPECT_EQ(status("a")["restarts"], 0);
  EXPECT_EQ(status("free")["attempt"], 1);
}

}  // namespace
}  // namespace gnn::testing
