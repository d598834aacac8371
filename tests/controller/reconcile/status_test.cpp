#include "controller/reconcile/status.h"

#include "common/rfc3339.h"
#include "controller/reconcile/conditions.h"
#include "tests/controller/reconcile/builders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gnn::reconcile {
namespace {

TEST(Status, ReportsWhatTheSchedulerSays) {
  Observed observed = running(2);
  observed.job.status = {};
  observed.pods[1] = pod_of(observed.job, 1);
  add_condition(observed.pods[1], "PodScheduled", false, "Unschedulable", "0/3 nodes: no GPU");
  const Plan result = plan(observed);
  EXPECT_EQ(reason_of(result, condition::kScheduled), reason::kUnschedulable);
  EXPECT_NE(result.status.message.find("1 of 2 nodes are not scheduled"), std::string::npos);
  EXPECT_NE(result.status.message.find("0/3 nodes: no GPU"), std::string::npos);
  EXPECT_EQ(result.status.state, "Pending");
}

TEST(Conditions, TellEachMessageOnce) {
  api::GnnJobStatus status;
  const auto set = [&](std::string_view type, bool holds, const std::string& message) {
    set_condition(status, {type, holds, reason::kError, message}, 1, TimePoint());
  };
  const auto told = [&](std::string_view type) { return find_condition(status, type)->message; };
  set(condition::kRunning, false, "exit code 70");
  set(condition::kRestarting, true, "exit code 70");
  set(condition::kScheduled, false, "Creating the pods");
  say_once(status);
  EXPECT_EQ(told(condition::kRestarting), "exit code 70");
  EXPECT_EQ(told(condition::kRunning), "See Restarting");
  EXPECT_EQ(told(condition::kScheduled), "Creating the pods");
  say_once(status);
  EXPECT_EQ(told(condition::kRunning), "See Restarting");

  set(condition::kFailed, true, "exit code 70");
  set(condition::kStalled, true, "exit code 70");
  say_once(status);
  EXPECT_EQ(told(condition::kFailed), "exit code 70");
  for (const auto type : {condition::kRestarting, condition::kRunning, condition::kStalled}) {
    EXPECT_EQ(told(type), "See Failed") << type;
  }
}

TEST(Conditions, ARestartThatIsOverTellsNoNews) {
  api::GnnJobStatus status;
  for (const std::string_view type : {condition::kRestarting, condition::kScheduled}) {
    set_condition(status, {type, false, reason::kQueued, "It waits"}, 1, TimePoint());
  }
  say_once(status);
  EXPECT_EQ(find_condition(status, condition::kScheduled)->message, "It waits");
  EXPECT_EQ(find_condition(status, condition::kRestarting)->message, "See Scheduled");
}

TEST(Conditions, AReferenceIsFollowedWhereverItLeads) {
  api::GnnJobStatus status;
  set_condition(status, {condition::kFailed, true, reason::kError, "full"}, 1, TimePoint());
  for (const auto& [type, message] :
       {std::pair(condition::kRestarting, "See Failed"),
        std::pair(condition::kRunning, "See Restarting"),
        std::pair(condition::kStalled, "See you")}) {
    set_condition(status, {type, false, reason::kError, message}, 1, TimePoint());
  }
  EXPECT_EQ(message_of(status, *find_condition(status, condition::kRunning)), "full");
  EXPECT_EQ(message_of(status, *find_condition(status, condition::kStalled)), "See you");
}

TEST(Status, IsPlacingUntilTheSchedulerHasDecided) {
  Observed observed = running(2);
  observed.job.status = {};
  observed.pods = {pod_of(observed.job, 0), pod_of(observed.job, 1)};
  const Plan none = plan(observed);
  EXPECT_EQ(reason_of(none, condition::kScheduled), reason::kPlacing);
  EXPECT_EQ(event_reasons(none), std::vector<std::string>{"Placing"}) << "the first event";
  Observed one = next(observed, none, 0);
  schedule(one.pods[0]);
  EXPECT_EQ(plan(one).status, none.status) << "no status write for each scheduled pod";
  Observed lost = next(observed, none);
  lost.pods.pop_back();
  EXPECT_EQ(plan(lost).status.attempt, 2)
      << "all pods have existed, so the missing one was deleted";
}

TEST(Status, ReportsAnImageThatCannotBePulled) {
  Observed observed = running(2);
  observed.job.status = {};
  observed.pods[1] = pod_of(observed.job, 1);
  schedule(observed.pods[1]);
  objects::ContainerStatus status;
  status.name = contract::kWorkerContainer;
  status.state.waiting = {{.reason = "ImagePullBackOff", .message = "no such image"}};
  observed.pods[1].status.container_statuses = {status};
  const Plan result = plan(observed);
  EXPECT_EQ(result.status.state, "Starting");
  EXPECT_NE(result.status.message.find("ImagePullBackOff: no such image"), std::string::npos);
  EXPECT_EQ(result.status.restarts, 0);
}

TEST(Status, MergesWhatWorkersReport) {
  Observed observed = running();
  observed.progress = api::decode_report(result_message(
      observed.job, 1, 0, R"(, "epoch": 2, "epochs": 5, "loss": "1.1", "etaSeconds": 9)"
  ));
  const Plan first = plan(observed);
  EXPECT_EQ(first.status.progress->epoch, 2);
  EXPECT_EQ(first.status.progress->eta_seconds, 9);
  Observed later = next(observed, first);
  later.progress = api::decode_report(result_message(observed.job, 1, 0, R"(, "epoch": 3)"));
  const Plan second = plan(later);
  EXPECT_EQ(second.status.progress->epoch, 3);
  EXPECT_EQ(second.status.progress->loss, "1.1");
  EXPECT_FALSE(second.status.progress->eta_seconds);
  EXPECT_TRUE(second.events.empty());
}

TEST(Status, DropsTheNumbersOfAnotherMetric) {
  Observed observed = running();
  const auto hear = [](Observed& by, const std::string& numbers) {
    by.progress = api::decode_report(result_message(by.job, 1, 0, numbers));
    return plan(by);
  };
  const Plan batches = hear(observed, R"(, "metricName": "accuracy", "trainMetric": "0.5")");
  Observed later = next(observed, batches);
  const Plan evaluated = hear(later, R"(, "metricName": "auc", "validationMetric": "0.7")");
  EXPECT_EQ(evaluated.status.progress->metric_name, "auc");
  EXPECT_EQ(evaluated.status.progress->validation_metric, "0.7");
  EXPECT_FALSE(evaluated.status.progress->train_metric);
  Observed last = next(later, evaluated);
  const Plan restarted = hear(last, R"(, "epoch": 3)");
  EXPECT_EQ(restarted.status.progress->metric_name, "auc");
  EXPECT_EQ(restarted.status.progress->validation_metric, "0.7");
}

TEST(Status, KeepsWhatIsKnownOfTheBestEpoch) {
  Observed observed = running();
  observed.progress = api::decode_report(result_message(
      observed.job,
      1,
      0,
      R"(, "bestEpoch": 2, "bestMetric": "0.7", "bestCheckpoint": "/ckpt/a", "testModel": "best")"
  ));
  const Plan first = plan(observed);
  EXPECT_EQ(first.status.progress->best_metric, "0.7");
  Observed later = next(observed, first);
  later.progress = api::decode_report(result_message(observed.job, 1, 0, R"(, "epoch": 3)"));
  const Plan second = plan(later);
  EXPECT_EQ(second.status.progress->best_epoch, 2);
  EXPECT_EQ(second.status.progress->best_checkpoint, "/ckpt/a");
  EXPECT_EQ(second.status.progress->test_model, "best");
}

TEST(Status, WritesCountsOnceASecondAndConditionsAtOnce) {
  Observed observed = running(3);
  observed.pods[2].status.conditions.clear();
  schedule(observed.pods[2]);
  // Without a recent write by this controller, counts are written at once.
  EXPECT_EQ(plan(observed).status.nodes.ready, 2);
  observed.counts_written = observed.now - std::chrono::seconds(1);
  EXPECT_EQ(plan(observed).status.nodes.ready, 2);

  observed.counts_written = observed.now - std::chrono::milliseconds(300);
  const Plan held = plan(observed);
  EXPECT_EQ(held.status, observed.job.status);
  EXPECT_TRUE(held.events.empty());
  ASSERT_TRUE(held.requeue_after);
  EXPECT_LE(*held.requeue_after, std::chrono::milliseconds(700));

  end_container(observed.pods[2], 70);
  EXPECT_EQ(plan(observed).status.state, "Restarting");
}

TEST(Status, WritesCountsAtOnceAfterAWriteOfProgress) {
  Observed observed = running(3);
  observed.pods[2].status.conditions.clear();
  schedule(observed.pods[2]);
  observed.counts_written = observed.now - std::chrono::seconds(1);
  observed.status_written = observed.now;
  EXPECT_EQ(plan(observed).status.nodes.ready, 2);
}

TEST(Status, SendsWhatTheApiServerDropsOnlyOnce) {
  Observed observed = running(3);
  observed.job.status.nodes = {};
  const Plan sent = plan(observed);
  ASSERT_NE(sent.status, observed.job.status);
  observed.cut_status = CutStatus{.sent = sent.status, .kept = observed.job.status};
  observed.now += std::chrono::minutes(1);
  const Plan again = plan(observed);
  EXPECT_EQ(again.status, observed.job.status);
  EXPECT_FALSE(again.requeue_after);

  end_container(observed.pods[2], 70);
  EXPECT_EQ(plan(observed).status.state, "Restarting") << "this is news";
}

// A job of two nodes that has not begun, while many others wait.
Observed untold_start() {
  Observed observed = running(2);
  observed.job.status = {};
  observed.pods.clear();
  observed.busy = true;
  return observed;
}

TEST(Status, TellsOfAStartLaterWhileOtherJobsWait) {
  Observed observed = untold_start();
  const Plan creates = plan(observed);
  EXPECT_EQ(count_of<CreatePod>(creates), 2);
  EXPECT_EQ(creates.status, observed.job.status);
  EXPECT_TRUE(creates.events.empty());
  EXPECT_EQ(creates.requeue_after, std::chrono::seconds(1)) << "the others may be done by then";

  observed.pods = {pod_of(observed.job, 0, 1, at(25)), pod_of(observed.job, 1, 1, at(25))};
  EXPECT_EQ(plan(observed).status, observed.job.status);
  schedule(observed.pods[0]);
  make_ready(observed.pods[1]);
  EXPECT_EQ(plan(observed).status, observed.job.status);
  schedule(observed.pods[1]);
  EXPECT_EQ(plan(observed).status, observed.job.status);
  observed.now = at(35);
  EXPECT_EQ(plan(observed).status.state, "Starting") << "10 s after the pods' creation";
  observed.now = at(30);
  observed.busy = false;
  EXPECT_EQ(plan(observed).status.state, "Starting");
}

TEST(Status, TellsOfAStartInOneWriteIfTheGangRunsByThen) {
  Observed observed = untold_start();
  observed.pods = {pod_of(observed.job, 0, 1, at(25)), pod_of(observed.job, 1, 1, at(25))};
  for (objects::Pod& pod : observed.pods) make_ready(pod);
  const Plan result = plan(observed);
  EXPECT_EQ(result.status.state, "Running");
  EXPECT_EQ(result.status.attempt, 1);
  EXPECT_TRUE(result.status.start_time);
  EXPECT_EQ(event_reasons(result), (std::vector<std::string>{"Scheduled", "Running"}));
}

TEST(Status, TellsOfTroubleAtAStartAtOnce) {
  Observed observed = untold_start();
  observed.pods = {pod_of(observed.job, 0, 1, at(25)), pod_of(observed.job, 1, 1, at(25))};
  Observed stuck = observed;
  add_condition(stuck.pods[1], "PodScheduled", false, "Unschedulable", "0/3 nodes: no GPU");
  EXPECT_EQ(reason_of(plan(stuck), condition::kScheduled), reason::kUnschedulable);
  Observed failed = observed;
  end_container(failed.pods[1], 70);
  EXPECT_EQ(plan(failed).status.attempt, 2);
  Observed refused = untold_start();
  refused.refusals = {
      {.kind = ApiRefusal::Kind::Quota, .object = "pod", .message = "quota", .time = refused.now}
  };
  EXPECT_EQ(reason_of(plan(refused), condition::kScheduled), reason::kQuotaExceeded);
  Observed restarted = running(2);
  end_container(restarted.pods[0], 70);
  restarted.busy = true;
  EXPECT_EQ(plan(restarted).status.attempt, 2) << "the number of an attempt precedes its pods";
  Observed second = next(restarted, plan(restarted));
  second.pods.clear();
  second.now = at(200);
  EXPECT_NE(plan(second).status, second.job.status);
}

TEST(Status, WritesProgressWithinAnEpochSeldomAndOfAnEpochAtOnce) {
  Observed observed = running();
  const auto report = [&](const std::string& progress) {
    observed.progress = api::decode_report(result_message(observed.job, 1, 0, progress));
  };
  report(R"(, "epoch": 1, "globalStep": 5)");
  observed.job.status = plan(observed).status;
  observed.status_written = observed.now;
  observed.now += std::chrono::seconds(24);
  report(R"(, "epoch": 1, "globalStep": 9)");
  const Plan held = plan(observed);
  EXPECT_EQ(held.status, observed.job.status);
  EXPECT_EQ(*held.requeue_after, std::chrono::seconds(1));
  report(R"(, "epoch": 2, "globalStep": 9)");
  EXPECT_EQ(plan(observed).status.progress->epoch, 2);
  observed.now += std::chrono::seconds(1);
  report(R"(, "epoch": 1, "globalStep": 9)");
  EXPECT_EQ(plan(observed).status.progress->global_step, 9);
}

TEST(Status, SaysHowFarTheTrainingIsAndKeepsItsConditions) {
  Observed observed = running();
  observed.job.status = plan(observed).status;
  const std::vector<api::Condition> conditions = observed.job.status.conditions;
  observed.progress = api::decode_report(result_message(
      observed.job, 1, 0, R"(, "epoch": 12, "epochs": 50, "loss": "0.4312", "etaSeconds": 200)"
  ));
  const Plan said = plan(observed);
  EXPECT_EQ(said.status.message, "Epoch 12 of 50, loss 0.4312, 3 min 20 s left");
  EXPECT_EQ(said.status.progress->eta, "3m20s");
  EXPECT_EQ(said.status.conditions, conditions);
  EXPECT_TRUE(said.is_progress);
  EXPECT_TRUE(said.events.empty());

  Observed moved = next(observed, said);
  moved.status_written = moved.now;
  moved.progress = api::decode_report(result_message(
      observed.job, 1, 0, R"(, "epoch": 12, "epochs": 50, "loss": "0.43", "etaSeconds": 180)"
  ));
  EXPECT_EQ(plan(moved).status, said.status) << "within an epoch every 25 s";
  moved.now += std::chrono::seconds(25);
  EXPECT_EQ(plan(moved).status.message, "Epoch 12 of 50, loss 0.43, 3 min left");
}

TEST(Status, AJobThatDoesNotRunHasNoEstimate) {
  Observed observed = running();
  observed.progress = api::decode_report(
      result_message(observed.job, 1, 0, R"(, "epoch": 2, "epochs": 5, "etaSeconds": 200)")
  );
  Observed later = next(observed, plan(observed));
  end_container(later.pods[0], 70);
  const Plan failed = plan(later);
  EXPECT_EQ(failed.status.state, "Restarting");
  EXPECT_FALSE(failed.status.progress->eta);
  EXPECT_FALSE(failed.status.progress->eta_seconds);
  EXPECT_EQ(failed.status.progress->epoch, 2);
  EXPECT_FALSE(failed.is_progress);
}

TEST(Status, ANewNumberOfNodesOrAConditionIsMoreThanProgress) {
  Observed observed = running(3);
  observed.job.status = plan(observed).status;
  observed.progress = api::decode_report(result_message(observed.job, 1, 0, R"(, "epoch": 2)"));
  EXPECT_TRUE(plan(observed).is_progress);
  observed.pods[2].status.conditions.clear();
  schedule(observed.pods[2]);
  EXPECT_FALSE(plan(observed).is_progress);
}

TEST(Status, SaysWhichPodTheNextAttemptWaitsFor) {
  Observed observed = running();
  end_container(observed.pods[0], 70);
  Observed leaving = next(observed, plan(observed));
  const Plan waits = plan(leaving);
  EXPECT_EQ(
      message_of(waits, condition::kScheduled),
      "Waiting for pod arxiv-1-0 of an earlier attempt to terminate on machine"
  );
  leaving.job.status = waits.status;
  leaving.job.status.next_attempt_time = leaving.now + std::chrono::seconds(5);
  leaving.pods.clear();
  EXPECT_THAT(
      message_of(plan(leaving), condition::kScheduled),
      ::testing::HasSubstr(" starts at " + format_rfc3339(*leaving.job.status.next_attempt_time))
  );
}

}  // namespace
}  // namespace gnn::reconcile
