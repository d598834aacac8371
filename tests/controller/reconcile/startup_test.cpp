#include "controller/reconcile/startup.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

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

Plan after_deadline(const std::string& reason, const std::string& message) {
  Observed observed = without_image();
  observed.pods[1].status.container_statuses[0].state.waiting = {
      .reason = reason, .message = message
  };
  return plan(next(observed, plan(observed), 900));
}

TEST(Startup, ARegistryThatDoesNotAnswerIsNotTheJobsFault) {
  for (const char* silence :
       {R"(failed to pull image "r/i": dial tcp 10.0.0.1:443: i/o timeout)",
        R"(Back-off pulling image "r/i": ErrImagePull: dial tcp: lookup r: no such host)",
        "failed to do request: Head \"https://r/v2/\": dial tcp 10.0.0.1:443: connect: connection "
        "refused",
        "unexpected status from HEAD request to https://r/v2/i: 503 Service Unavailable",
        "toomanyrequests: You have reached your pull rate limit",
        "net/http: TLS handshake timeout"}) {
    for (const char* reason : {"ErrImagePull", "ImagePullBackOff"}) {
      const Plan decided = after_deadline(reason, silence);
      EXPECT_EQ(decided.status.attempt, 2) << "it gives its machines back";
      EXPECT_EQ(decided.status.restarts, 0) << silence;
      EXPECT_EQ(decided.status.last_failure->reason, reason::kNotStarted);
      EXPECT_FALSE(decided.status.failures.back().charged);
    }
  }
  for (const char* answer :
       {"r/i: not found",
        "pull access denied, repository does not exist or may require authorization",
        R"(Back-off pulling image "r/i")"}) {
    EXPECT_EQ(after_deadline("ImagePullBackOff", answer).status.restarts, 1) << answer;
  }
  EXPECT_EQ(after_deadline("CreateContainerError", "context deadline exceeded").status.restarts, 1);
}

TEST(Startup, AnHourWithoutTheRegistryEndsNoJob) {
  Observed observed = without_image();
  observed.job.spec.run_policy.max_restarts = 0;
  for (int attempt = 2; attempt < 8; ++attempt) {
    observed.pods[1].status.container_statuses[0].state.waiting = {
        .reason = "ErrImagePull", .message = "dial tcp: i/o timeout"
    };
    const Plan decided = plan(next(observed, plan(observed), 900));
    ASSERT_EQ(decided.status.attempt, attempt);
    ASSERT_FALSE(is_true(decided.status, condition::kFailed));
    observed = next(observed, decided, 900);
    observed.pods = {pod_of(observed.job, 0, attempt), pod_of(observed.job, 1, attempt)};
    make_ready(observed.pods[0]);
    schedule(observed.pods[1]);
    objects::ContainerStatus status;
    status.name = contract::kWorkerContainer;
    status.state.waiting.emplace();
    observed.pods[1].status.container_statuses = {status};
    observed.job.status = plan(observed).status;
  }
}

// Node 1 has a machine since at(30), and its kubelet reports `worker` and `inits`.
Observed starting(
    const objects::ContainerWaiting& worker, std::vector<objects::ContainerStatus> inits = {}
) {
  Observed observed = without_image();
  objects::PodStatus& status = observed.pods[1].status;
  status.container_statuses[0].state.waiting = worker;
  status.init_container_statuses = std::move(inits);
  for (objects::PodCondition& each : status.conditions) each.last_transition_time = at(30);
  observed.job.status = plan(observed).status;
  return observed;
}

std::string said_after(Observed observed, int64_t seconds_later) {
  observed.now = at(30 + seconds_later);
  return message_of(plan(observed), condition::kRunning);
}

TEST(Startup, SaysWhichInitContainerIsWaitedFor) {
  objects::ContainerStatus done;
  done.name = "done";
  done.state.terminated.emplace();
  objects::ContainerStatus runs;
  runs.name = "fetch";
  runs.state.running.emplace();
  objects::ContainerStatus waits;
  waits.name = "last";
  waits.state.waiting = {.reason = "PodInitializing", .message = ""};
  EXPECT_EQ(
      said_after(starting({.reason = "PodInitializing", .message = ""}, {done, runs, waits}), 1),
      "1 of 2 nodes are ready: node 1: init container fetch runs"
  );
  waits.state.waiting = {.reason = "ImagePullBackOff", .message = "no such image"};
  EXPECT_EQ(
      said_after(starting({.reason = "PodInitializing", .message = ""}, {done, waits}), 1),
      "1 of 2 nodes are ready: node 1: init container last: ImagePullBackOff: no such image"
  );
}

TEST(Startup, SaysWhatTheEventsOfAPodSayThatStandsStill) {
  Observed observed = starting({.reason = "ContainerCreating", .message = ""});
  EXPECT_EQ(said_after(observed, 29), "1 of 2 nodes are ready") << "every pod passes through that";
  observed.now = at(59);
  EXPECT_FALSE(pod_to_explain(observed));
  EXPECT_EQ(plan(observed).requeue_after, Duration(seconds(1)));
  observed.now = at(60);
  ASSERT_TRUE(pod_to_explain(observed));
  EXPECT_EQ(pod_to_explain(observed)->name, "arxiv-1-1");
  const std::string& uid = observed.pods[1].metadata.uid;
  observed.start_troubles[uid] = {
      .text = R"(FailedMount: configmap "no-such" not found)", .read = observed.now
  };
  EXPECT_EQ(
      said_after(observed, 30),
      R"(1 of 2 nodes are ready: node 1: FailedMount: configmap "no-such" not found)"
      " (kubectl describe pod arxiv-1-1)"
  );
  observed.now = at(2000);
  EXPECT_FALSE(pod_to_explain(observed)) << "once";
  const Plan late = plan(observed);
  EXPECT_NE(late.status.last_failure->message.find("no-such"), std::string::npos);
}

TEST(Startup, ReadsEventsThatToldNothingOnceMore) {
  Observed observed = starting({.reason = "ContainerCreating", .message = ""});
  add_condition(observed.pods[1], "PodReadyToStartContainers", false);
  const std::string& uid = observed.pods[1].metadata.uid;
  observed.start_troubles[uid] = {.text = "", .read = at(60)};
  EXPECT_EQ(
      said_after(observed, 30),
      "1 of 2 nodes are ready: node 1: its volumes are being mounted, or its network is made"
      " (kubectl describe pod arxiv-1-1)"
  );
  observed.now = at(209);
  EXPECT_FALSE(pod_to_explain(observed));
  observed.now = at(210);
  EXPECT_TRUE(pod_to_explain(observed));
  observed.start_troubles[uid].read = at(210);
  EXPECT_FALSE(pod_to_explain(observed));
}

TEST(Startup, AsksForNoEventsOfAPodThatSaysWhatItWaitsFor) {
  Observed observed = starting({.reason = "CreateContainerConfigError", .message = "no key"});
  observed.now = at(500);
  EXPECT_FALSE(pod_to_explain(observed));
}

}  // namespace
}  // namespace gnn::reconcile
