#include "common/contract.h"
#include "tests/integration/controller/queues.h"

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

// Jobs in queues of the real Kueue.
namespace gnn::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST_F(Queues, AJobWaitsWithKueuesWordsUntilTheOneBeforeItHasEnded) {
  ASSERT_NO_FATAL_FAILURE(run_one_of_two());
  const Json workload = workload_of("b");
  const std::string words = "insufficient unused quota for nvidia.com/gpu in flavor reserved";
  ASSERT_TRUE(eventually([&] { return says("b", words); })) << log();
  const std::string kueues = workload_condition("b", "QuotaReserved")["message"];
  EXPECT_THAT(kueues, HasSubstr(words));
  EXPECT_TRUE(says("b", kueues)) << log();
  EXPECT_EQ(status("b")["scheduling"]["workload"], workload["metadata"]["name"]);
  EXPECT_EQ(status("a")["scheduling"]["clusterQueue"], cluster_queue("team"));
  for (const Json& pod : pods_of("a")) {
    EXPECT_EQ(pod["spec"]["nodeSelector"][kPool], "reserved");
  }
  EXPECT_TRUE(eventually([&] { return workload_says("a", "PodsReady") == "True"; })) << log();

  end_pods("a");
  ASSERT_TRUE(eventually([&] { return holds("a", "Complete") && runs("b"); })) << log();
  ASSERT_TRUE(eventually([&] { return workload_says("a", "Finished") == "True"; })) << log();
  EXPECT_EQ(workload_condition("a", "Finished")["reason"], "Succeeded");
  EXPECT_TRUE(eventually([&] { return !workload_of("a")["metadata"].contains("finalizers"); }));
  EXPECT_EQ(status("b")["attempt"], 1);

  end_pods("b", 64);
  ASSERT_TRUE(eventually([&] { return holds("b", "Failed") && reserving("team") == 0; })) << log();
  EXPECT_TRUE(eventually([&] { return workload_condition("b", "Finished")["reason"] == "Failed"; }))
      << log();
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
      cluster_.condition("a", "Scheduled")["message"].get<std::string>(),
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
    api_.remove(cluster_.pods() + "/" + pod["metadata"]["name"].get<std::string>());
  }
  ASSERT_TRUE(eventually([&] { return status("a").value("attempt", 0) == 2; })) << log();
  ASSERT_TRUE(eventually([&] {
    return workload_condition("a", "Evicted")["reason"] == "PodsReadyTimeout";
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
  EXPECT_EQ(api_.get(cluster_.jobs() + "/a")["spec"].value("suspend", false), false);
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
  ASSERT_NO_FATAL_FAILURE(run_one_of_two());
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
  EXPECT_TRUE(eventually([&] { return says("a", "LocalQueue late doesn't exist"); })) << log();
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
  remove_job("queued");
  ASSERT_TRUE(eventually([&] { return workload_of("queued").is_null(); })) << log();
  // While there is no controller, and for the next one to find.
  create_job("queued", {"team"});
  ASSERT_TRUE(eventually([&] { return queued("queued"); })) << log();
  controller_.reset();
  for (const char* job : {"running", "queued"}) remove_job(job);
  start_controller();
  ASSERT_TRUE(eventually([&] {
    return items(workloads()).empty() && items(cluster_.pods()).empty();
  })) << log();
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
        plane_, cluster_.arguments_through(*proxy, {"--kueue"})
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
    for (const std::string& job : {calm, urgent}) remove_job(job);
    ASSERT_TRUE(comes([&] { return items(workloads()).empty() && items(cluster_.pods()).empty(); }))
        << "write " << k << log();
    if (!killed) break;  // Their lives have fewer writes.
  }
}

}  // namespace
}  // namespace gnn::testing
