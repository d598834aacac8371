#include "tests/integration/controller/fixture.h"
#include "tests/support/group_crds.h"
#include "tests/support/must.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <signal.h>
#include <string>

namespace gnn::testing {
namespace {

using namespace std::chrono_literals;

constexpr int kExitLostLease = 3;

// A short lease, so that a test does not wait 15 s for a dead leader. On a busy machine a leader may
// lose a lease of 3 seconds.
std::vector<std::string> lease(const std::string& name_space, int seconds = 3) {
  return {
      "--leader-elect",
      "--lease-namespace=" + name_space,
      "--lease-duration=" + std::to_string(seconds),
      "--renew-deadline=" + std::to_string(seconds - 1),
      "--retry-period=0.3",
  };
}

// A job starts, runs, fails, restarts and ends; its leader is killed after the k-th write. Whether there
// were as many.
bool runs_through_kill(int k, const Json& spec) {
  SCOPED_TRACE("killed after write " + std::to_string(k));
  const std::vector<std::string> grouped = {
      "--gang-provider=Coscheduling", "--coscheduling-scheduler=mine"
  };
  Cluster cluster;
  const auto proxy = must(FaultProxy::in_front_of(cluster.plane()));
  FakeKubelets kubelets(cluster.plane(), cluster.name_space(), 0ms);
  kubelets.fail("j-1-1", 70);
  kubelets.let_finish();
  auto options = lease(cluster.name_space());
  options.insert(options.end(), grouped.begin(), grouped.end());
  const auto arguments = cluster.arguments_through(*proxy, options);
  auto first = std::make_unique<ControllerProcess>(cluster.plane(), arguments);
  EXPECT_TRUE(first->wait_working()) << first->log();
  std::atomic<bool> killed = false;
  // Renewals of the lease are writes, too, but do not count.
  proxy->after_write(
      k,
      [&] {
        first->signal(SIGKILL);
        killed = true;
      },
      [](const RecordedRequest& request) {
        return request.path.find("/leases") == std::string::npos;
      }
  );
  cluster.create_job("j", 2, spec);
  EXPECT_TRUE(eventually([&] { return killed || cluster.holds("j", "Complete"); }));
  const auto standby = cluster.arguments(options);
  auto second = std::make_unique<ControllerProcess>(cluster.plane(), standby);
  EXPECT_TRUE(eventually([&] {
    // On a busy machine it may lose the short lease and exit; its Deployment would restart it.
    if (second->wait(0ms) != -1) {
      second = std::make_unique<ControllerProcess>(cluster.plane(), standby);
    }
    return cluster.holds("j", "Complete") && cluster.groups(kCoschedulingApi).empty();
  })) << cluster.describe("j")
      << second->log();
  const Json status = cluster.job("j")["status"];
  EXPECT_EQ(status["attempt"], 2);
  EXPECT_EQ(status["restarts"], 1);
  EXPECT_EQ(kubelets.seen().size(), 4U);
  return killed;
}

bool is_full() {
  return std::getenv("GNN_FULL") != nullptr;
}

TEST(Leader, SurvivesAKillAfterEachWriteOfAJob) {
  for (int k = 1; runs_through_kill(k, Json::object()) && !HasFailure();) k += is_full() ? 1 : 8;
}

TEST(Leader, SurvivesAKillAfterEachWriteOfAJobWithGroups) {
  must(ControlPlane::shared().apply("-", kCoschedulingCrd));
  const Json spec = {
      {"scheduling", Json::object()}, {"workers", {{"template", {{"schedulerName", "mine"}}}}}
  };
  // By default only after the first group, when its pods are still to come.
  int k = is_full() ? 1 : 4;
  while (runs_through_kill(k, spec) && is_full() && !HasFailure()) ++k;
}

// It is stopped amid the creation of a gang, so that it has something left to write when it wakes:
// when all that comes before the pods is written, and none of it is on its way any more.
TEST(Leader, AStoppedLeaderExitsBeforeItWrites) {
  Cluster cluster;
  FakeKubelets kubelets(cluster.plane(), cluster.name_space(), 0ms);
  const auto proxy = must(FaultProxy::in_front_of(cluster.plane()));
  const auto options = lease(cluster.name_space(), 8);
  ControllerProcess first(cluster.plane(), cluster.arguments_through(*proxy, options));
  ASSERT_TRUE(first.wait_working()) << first.log();
  ControllerProcess second(cluster.plane(), cluster.arguments(options));
  std::atomic<bool> stopped = false;
  proxy->after_write(
      3,
      [&] {
        first.signal(SIGSTOP);
        stopped = true;
      },
      [](const RecordedRequest& request) {
        const auto makes = [&](const char* kind) { return request.path.ends_with(kind); };
        return request.method == "POST" &&
               (makes("/services") || makes("/configmaps") || makes("/networkpolicies"));
      }
  );
  cluster.create_job("j");
  ASSERT_TRUE(eventually([&] { return stopped.load(); }));
  EXPECT_FALSE(second.wait_working(500ms));
  EXPECT_TRUE(cluster.pods_of("j").empty()) << "the first one has pods to create";

  ASSERT_TRUE(second.wait_working()) << second.log();
  ASSERT_TRUE(eventually([&] { return cluster.holds("j", "Running"); })) << cluster.describe("j");
  proxy->forget_requests();
  first.signal(SIGCONT);
  EXPECT_EQ(first.wait(60s), kExitLostLease) << first.log();
  // Stopped between reading its Lease and renewing it, it asks to renew and gets a conflict.
  std::string written;
  for (const RecordedRequest& request : proxy->requests([](const RecordedRequest& each) {
         return each.is_write() && each.path.find("/leases") == std::string::npos;
       }))
    written += request.method + " " + request.path + "\n";
  EXPECT_EQ(written, "");

  kubelets.let_finish();
  ASSERT_TRUE(eventually([&] { return cluster.holds("j", "Complete"); })) << cluster.describe("j");
  EXPECT_EQ(cluster.job("j")["status"]["attempt"], 1);
  EXPECT_EQ(kubelets.seen().size(), 2U);
}

// What the leader knows is newer than what the API server knows: its watches would be silent until
// the versions are as high again.
TEST(Leader, StartsAnewWhenEtcdIsRestoredFromABackup) {
  Cluster cluster;
  FakeKubelets kubelets(cluster.plane(), cluster.name_space(), 0ms);
  const auto arguments = cluster.arguments(lease(cluster.name_space(), 120));
  auto leader = std::make_unique<ControllerProcess>(cluster.plane(), arguments);
  cluster.create_job("j");
  ASSERT_TRUE(eventually([&] { return cluster.holds("j", "Running"); })) << cluster.describe("j");
  must(cluster.plane().back_up_etcd());
  cluster.create_job("lost");
  ASSERT_TRUE(eventually([&] { return cluster.holds("lost", "Running"); }))
      << cluster.describe("lost") << leader->log();
  must(cluster.plane().restore_etcd());
  EXPECT_EQ(leader->wait(60s), kExitLostLease) << leader->log();
  EXPECT_NE(leader->log().find("restored"), std::string::npos) << leader->log();

  // As its Deployment would.
  leader = std::make_unique<ControllerProcess>(cluster.plane(), arguments);
  kubelets.let_finish();
  ASSERT_TRUE(eventually([&] { return cluster.holds("j", "Complete"); }, 90s))
      << cluster.describe("j") << leader->log();
  EXPECT_EQ(cluster.job("j")["status"]["attempt"], 1);
  EXPECT_TRUE(cluster.pods_of("lost").empty());
  EXPECT_EQ(kubelets.seen().size(), 4U) << "each pod was made once";
}

// Its watch of jobs has gone silent while the job was suspended for a moment.
TEST(Leader, AStandbyWhoseWatchIsSilentActsOnlyOnWhatItListsAfterItLeads) {
  Cluster cluster;
  FakeKubelets kubelets(cluster.plane(), cluster.name_space(), 0ms);
  ControllerProcess first(cluster.plane(), cluster.arguments(lease(cluster.name_space(), 5)));
  cluster.create_job("j");
  ASSERT_TRUE(eventually([&] { return cluster.holds("j", "Running"); })) << cluster.describe("j");
  const auto uids = [&] {
    std::set<std::string> found;
    for (const Json& pod : cluster.pods_of("j")) found.insert(pod["metadata"]["uid"]);
    return found;
  };
  const std::set<std::string> before = uids();
  first.signal(SIGKILL);
  ASSERT_EQ(first.wait(10s), 128 + SIGKILL);

  ASSERT_TRUE(cluster.api().patch(cluster.jobs() + "/j", {{"spec", {{"suspend", true}}}}));
  const auto proxy = must(FaultProxy::in_front_of(cluster.plane()));
  const auto watches_jobs = [](const RecordedRequest& request) {
    return request.is_watch() && request.path.ends_with("/gnnjobs");
  };
  const int silence = proxy->add_fault(watches_jobs, BlackHole{.after_body_bytes = 0}, 1);
  ControllerProcess second(
      cluster.plane(), cluster.arguments_through(*proxy, lease(cluster.name_space(), 5))
  );
  ASSERT_TRUE(eventually([&] { return proxy->times_applied(silence) == 1; })) << second.log();
  ASSERT_TRUE(cluster.api().patch(cluster.jobs() + "/j", {{"spec", {{"suspend", false}}}}));
  ASSERT_TRUE(second.wait_working()) << second.log();

  kubelets.let_finish();
  ASSERT_TRUE(eventually([&] { return cluster.holds("j", "Complete"); }))
      << cluster.describe("j") << second.log();
  EXPECT_EQ(cluster.job("j")["status"]["attempt"], 1);
  EXPECT_EQ(uids(), before);
  const auto deletes_or_makes_pods = [](const RecordedRequest& request) {
    return (request.method == "DELETE" || request.method == "POST") &&
           request.path.find("/pods") != std::string::npos;
  };
  EXPECT_TRUE(proxy->requests(deletes_or_makes_pods).empty());
}

// The list of pods that it starts from is older than the gang.
TEST(Leader, AnApiServerThatIsBehindAtTheStartCostsNoPod) {
  Cluster cluster;
  FakeKubelets kubelets(cluster.plane(), cluster.name_space(), 0ms);
  const auto proxy = must(FaultProxy::in_front_of(cluster.plane()));
  const Snapshot no_pods = must(proxy->take_snapshot(cluster.pods()));
  {
    ControllerProcess first(cluster.plane(), cluster.arguments());
    cluster.create_job("j");
    ASSERT_TRUE(eventually([&] { return cluster.holds("j", "Running"); })) << cluster.describe("j");
  }
  const auto lists_pods = [&](const RecordedRequest& request) {
    return request.method == "GET" && request.path == no_pods.collection_path;
  };
  const int stale = proxy->add_fault(lists_pods, ServeSnapshot{no_pods});
  ControllerProcess second(cluster.plane(), cluster.arguments_through(*proxy));
  ASSERT_TRUE(second.wait_working()) << second.log();
  const auto reads_a_pod = [&](const RecordedRequest& request) {
    return request.method == "GET" && request.path.starts_with(no_pods.collection_path + "/");
  };
  ASSERT_TRUE(proxy->wait_for_requests(reads_a_pod, 2, 60s)) << second.log();
  proxy->remove_fault(stale);
  proxy->cut_connections();
  kubelets.let_finish();
  ASSERT_TRUE(eventually([&] { return cluster.holds("j", "Complete"); }))
      << cluster.describe("j") << second.log();
  EXPECT_EQ(cluster.job("j")["status"]["attempt"], 1);
  EXPECT_EQ(kubelets.seen().size(), 2U);
}

TEST(Leader, ExitsWhenTheApiServerIsTooSlowForItsLease) {
  Cluster cluster;
  const auto proxy = must(FaultProxy::in_front_of(cluster.plane()));
  ControllerProcess leader(
      cluster.plane(), cluster.arguments_through(*proxy, lease(cluster.name_space()))
  );
  ASSERT_TRUE(leader.wait_working()) << leader.log();
  proxy->add_fault(any_request(), Delay{.before_request = 10s});
  EXPECT_EQ(leader.wait(60s), kExitLostLease) << leader.log();
}

// The leader's clock is an hour fast, and later an hour slow; the stand-by's is right.
TEST(Leader, KeepsItsLeaseAndItsJobWhenItsClockJumpsByAnHour) {
  Cluster cluster;
  FakeKubelets kubelets(cluster.plane(), cluster.name_space(), 0ms);
  const std::string clock = cluster.plane().directory() / ("clock-" + cluster.name_space());
  const auto set_clock = [&](const std::string& offset) {
    std::ofstream(clock + ".new") << offset << "\n";
    std::filesystem::rename(clock + ".new", clock);
  };
  set_clock("+1h");
  const auto options = lease(cluster.name_space(), 15);
  ControllerArguments fast = cluster.arguments(options);
  fast.clock_file = clock;
  ControllerProcess leader(cluster.plane(), fast);
  ASSERT_TRUE(leader.wait_working()) << leader.log();
  ControllerProcess standby(cluster.plane(), cluster.arguments(options));
  cluster.create_job("j", 2, {{"runPolicy", {{"activeDeadlineSeconds", 7200}}}});
  ASSERT_TRUE(eventually([&] { return cluster.holds("j", "Running"); }))
      << cluster.describe("j") << leader.log();
  set_clock("-1h");
  cluster.end_pod("j-1-1", 70);
  ASSERT_TRUE(eventually([&] {
    return cluster.job("j")["status"]["attempt"] == 2 && cluster.holds("j", "Running");
  })) << cluster.describe("j")
      << leader.log();
  kubelets.let_finish();
  ASSERT_TRUE(eventually([&] { return cluster.holds("j", "Complete"); })) << cluster.describe("j");
  EXPECT_EQ(cluster.job("j")["status"]["restarts"], 1);
  EXPECT_EQ(kubelets.seen().size(), 4U);
  EXPECT_FALSE(standby.wait_working(0ms));
  EXPECT_EQ(leader.terminate(), 0) << "it led all the time";
}

TEST(Leader, SigtermHandsOverAtOnce) {
  Cluster cluster;
  const auto slow = lease(cluster.name_space(), 300);
  ControllerProcess first(cluster.plane(), cluster.arguments(slow));
  ASSERT_TRUE(first.wait_working()) << first.log();
  ControllerProcess second(cluster.plane(), cluster.arguments(slow));
  EXPECT_EQ(first.terminate(), 0);
  // Far less than the lease's 300 seconds.
  EXPECT_TRUE(second.wait_working(60s)) << second.log();
}

}  // namespace
}  // namespace gnn::testing
