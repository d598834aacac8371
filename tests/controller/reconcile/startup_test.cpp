#include "controller/reconcile/startup.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace gnn::reconcile {
namespace {

using std::chrono::seconds;

// Both pods have a machine since at(30), and node 1's image cannot be pulled.
Observed without_image() {
  Observed observed = running();
  observed.job.status = {};
  objects::Pod& pod = observed.pods[1] = pod_of(observed.job, 1);
  schedule(pod);
  objects::ContainerStatus status;
  status.name = contract::kWorkerContainer;
  status.state.waiting = {.reason = "ImagePullBackOff", .message = "no such image"};
  pod.status.container_statuses = {status};
  observed.job.status = plan(observed).status;
  return observed;
}

TEST(Startup, AGangThatDoesNotStartInTimeHasFailed) {
  const Observed observed = without_image();
  const Plan waits = plan(observed);
  EXPECT_EQ(waits.status.state, "Starting");
  EXPECT_EQ(waits.requeue_after, Duration(seconds(900)));
  const Plan decided = plan(next(observed, waits, 900));
  EXPECT_EQ(decided.status.attempt, 2);
  EXPECT_EQ(decided.status.restarts, 1);
  EXPECT_EQ(decided.status.last_failure->node, 1);
  EXPECT_EQ(decided.status.last_failure->reason, reason::kNotStarted);
  EXPECT_NE(decided.status.message.find("ImagePullBackOff: no such image"), std::string::npos);
}

TEST(Startup, FailsAJobWithoutRestarts) {
  Observed observed = without_image();
  observed.job.spec.run_policy.max_restarts = 0;
  observed.job.spec.run_policy.startup_deadline_seconds = 60;
  observed.now += seconds(60);
  EXPECT_TRUE(is_true(plan(observed).status, condition::kFailed));
}

TEST(Startup, TheDeadlineIsForContainersThatHaveNotStarted) {
  Observed observed = without_image();
  observed.pods[1].status.container_statuses[0].state = {};
  observed.pods[1].status.container_statuses[0].state.running.emplace();
  observed.now += seconds(5000);
  const Plan result = plan(observed);
  EXPECT_EQ(result.status.attempt, 1);
  EXPECT_EQ(result.status.state, "Starting");
}

TEST(Startup, ExplainsPeersThatGaveUp) {
  Observed observed = without_image();
  end_container(observed.pods[0], contract::kExitPeerLost);
  const Plan decided = plan(next(observed, plan(observed), 90));
  EXPECT_EQ(decided.status.last_failure->node, 1);
  EXPECT_EQ(decided.status.last_failure->reason, reason::kNotStarted);
}

}  // namespace
}  // namespace gnn::reconcile
