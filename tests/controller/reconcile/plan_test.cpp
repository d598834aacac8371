#include "controller/reconcile/plan.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace gnn::reconcile {
namespace {

using std::chrono::seconds;

std::string reason_of(const Plan& plan, std::string_view type) {
  const api::Condition* found = find_condition(plan.status, type);
  return found == nullptr ? "" : found->reason;
}

std::string message_of(const Plan& plan, std::string_view type) {
  const api::Condition* found = find_condition(plan.status, type);
  return found == nullptr ? "" : found->message;
}

/// The next pass: the status was written, time went on.
Observed next(const Observed& observed, const Plan& before, std::int64_t wait_seconds = 1) {
  Observed later = observed;
  later.job.status = before.status;
  later.awaits_culprit_since = before.awaits_culprit_since;
  later.now += seconds(wait_seconds);
  return later;
}

std::vector<std::string> event_reasons(const Plan& plan) {
  std::vector<std::string> reasons;
  for (const EventRecord& event : plan.events) reasons.push_back(event.reason);
  return reasons;
}

// ---- start

TEST(Plan, StartsTheWholeGangInOnePass) {
  Observed observed;
  observed.job = small_job(3);
  observed.now = at(1);
  const Plan first = plan(observed);
  EXPECT_EQ(count_of<CreateService>(first), 1);
  EXPECT_EQ(count_of<CreateConfigMap>(first), 1);
  EXPECT_EQ(count_of<CreateNetworkPolicy>(first), 1);
  ASSERT_EQ(count_of<CreatePod>(first), 3);
  std::set<std::string> names;
  for (const CreatePod& action : actions_of<CreatePod>(first))
    names.insert(action.pod.metadata.name);
  EXPECT_EQ(names, (std::set<std::string>{"arxiv-1-0", "arxiv-1-1", "arxiv-1-2"}));
  // The Service is there before the first pod looks for its peers.
  EXPECT_TRUE(std::holds_alternative<CreateService>(first.actions.front()));
  EXPECT_EQ(first.status.attempt, 1);
  EXPECT_EQ(first.status.state, "Pending");
  EXPECT_EQ(first.status.observed_generation, 1);
  EXPECT_EQ(first.status.start_time, at(1));
  // One status write tells of the creates, which is why it must not be written if one is refused.
  EXPECT_EQ(reason_of(first, condition::kScheduled), reason::kPlacing);
  EXPECT_TRUE(first.status_needs_success);
}

TEST(Plan, CreatesOnlyWhatIsMissing) {
  Observed observed = running(3);
  observed.job.status = {};
  observed.pods.erase(observed.pods.begin() + 1);
  const Plan result = plan(observed);
  ASSERT_EQ(count_of<CreatePod>(result), 1);
  EXPECT_EQ(actions_of<CreatePod>(result)[0].pod.metadata.name, "arxiv-1-1");
  EXPECT_EQ(count_of<CreateService>(result), 0);
}

TEST(Plan, NetworkPolicyIsAChoice) {
  Observed observed;
  observed.job = small_job();
  observed.config.network_policy = false;
  EXPECT_EQ(count_of<CreateNetworkPolicy>(plan(observed)), 0);
}

TEST(Plan, RunningJobIsLeftAlone) {
  const Observed observed = running();
  const Plan result = plan(observed);
  EXPECT_TRUE(result.actions.empty());
  EXPECT_TRUE(result.events.empty());
  EXPECT_EQ(result.status, observed.job.status);
  EXPECT_EQ(result.status.state, "Running");
  EXPECT_EQ(result.status.nodes.summary, "2/2");
}

TEST(Plan, RepairsChildrenThatPeopleChangeOrDelete) {
  Observed observed = running();
  observed.service->spec.publish_not_ready_addresses = false;
  observed.network_policy->spec.ingress.clear();
  observed.config_map.reset();
  const Plan result = plan(observed);
  EXPECT_EQ(count_of<UpdateService>(result), 1);
  EXPECT_EQ(count_of<UpdateNetworkPolicy>(result), 1);
  EXPECT_EQ(count_of<CreateConfigMap>(result), 1);
  EXPECT_EQ(result.status.state, "Running");
}

TEST(Plan, HandsOffWhatSomebodyElseManages) {
  Observed observed;
  observed.job = small_job();
  observed.job.spec.managed_by = "kueue.x-k8s.io/multikueue";
  const Plan foreign = plan(observed);
  EXPECT_TRUE(foreign.actions.empty());
  EXPECT_EQ(foreign.status, api::GnnJobStatus{});
  observed.job.spec.managed_by = "gnn.dev/gnn-controller";
  EXPECT_FALSE(plan(observed).actions.empty());
}

TEST(Plan, ASpecThatTheApiServerShouldHaveRefusedIsReportedAndNotRun) {
  Observed observed;
  observed.job = small_job();
  observed.job.spec.sampling->fanout = {1};
  const Plan result = plan(observed);
  EXPECT_TRUE(result.actions.empty());
  EXPECT_EQ(result.status.state, "Invalid");
  EXPECT_EQ(reason_of(result, condition::kAccepted), reason::kInvalidSpec);
  EXPECT_NE(result.status.message.find("spec.sampling.fanout"), std::string::npos);
  observed.job = small_job();
  observed.job.spec.workers.pod_template.reset();
  EXPECT_EQ(plan(observed).status.state, "Invalid");
}

TEST(Plan, GpusThatTheJobWillNotUseAreAWarningCondition) {
  Observed observed;
  observed.job = small_job();
  observed.job.spec.workers.gpus_per_process = 1;
  observed.job.spec.training.device = api::DeviceChoice::CPU;
  EXPECT_EQ(reason_of(plan(observed), condition::kAccepted), reason::kIdleGpus);
}

// ---- why a job waits

TEST(Plan, SaysWhatTheSchedulerSays) {
  Observed observed = running(2);
  observed.job.status = {};
  observed.pods[1] = pod_of(observed.job, 1);
  add_condition(observed.pods[1], "PodScheduled", false, "Unschedulable", "0/3 nodes: no GPU");
  const Plan result = plan(observed);
  EXPECT_EQ(reason_of(result, condition::kScheduled), reason::kUnschedulable);
  EXPECT_NE(result.status.message.find("1 of 2 nodes wait for a place"), std::string::npos);
  EXPECT_NE(result.status.message.find("0/3 nodes: no GPU"), std::string::npos);
  EXPECT_EQ(result.status.state, "Pending");
}

TEST(Plan, AGangThatTheSchedulerHasNotLookedAtIsInNoTrouble) {
  Observed observed = running(2);
  observed.job.status = {};
  observed.pods = {pod_of(observed.job, 0), pod_of(observed.job, 1)};
  const Plan none = plan(observed);
  EXPECT_EQ(reason_of(none, condition::kScheduled), reason::kPlacing);
  EXPECT_EQ(event_reasons(none), std::vector<std::string>{"Placing"}) << "where the story begins";
  Observed one = next(observed, none, 0);
  schedule(one.pods[0]);
  EXPECT_EQ(plan(one).status, none.status) << "a write for each pod that is placed";
  Observed lost = next(observed, none);
  lost.pods.pop_back();
  EXPECT_EQ(plan(lost).status.attempt, 2) << "all pods were seen: a missing one was taken away";
}

TEST(Plan, SaysWhenAnImageCannotBePulled) {
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

TEST(Plan, SaysWhatTheApiServerRefusesAndPacesItsTries) {
  Observed observed = running(2);
  observed.job.status = {};
  observed.pods.pop_back();
  observed.refusals = {
      {.kind = ApiRefusal::Kind::Quota,
       .object = "pod arxiv-1-1",
       .message = "exceeded quota: pods=1",
       .time = observed.now}
  };
  const Plan refused = plan(observed);
  EXPECT_TRUE(refused.actions.empty());
  EXPECT_EQ(reason_of(refused, condition::kScheduled), reason::kQuotaExceeded);
  EXPECT_NE(refused.status.message.find("exceeded quota"), std::string::npos);
  ASSERT_TRUE(refused.requeue_after);
  EXPECT_LE(*refused.requeue_after, observed.config.refusal_retry);

  const Plan again = plan(next(observed, refused, 11));
  EXPECT_EQ(count_of<CreatePod>(again), 1);
  // True only if the try succeeds; else the refusal stays in the status.
  EXPECT_EQ(reason_of(again, condition::kScheduled), reason::kPlacing);
  EXPECT_TRUE(again.status_needs_success);
}

// ---- names that others hold

TEST(Plan, NeverAdoptsWhatIsNotOurs) {
  Observed observed;
  observed.job = small_job();
  observed.service = desired_service(observed.job);
  observed.service->metadata.owner_references.clear();
  const Plan service = plan(observed);
  EXPECT_TRUE(service.actions.empty());
  EXPECT_EQ(reason_of(service, condition::kScheduled), reason::kNameTaken);

  Observed pods;
  pods.job = small_job();
  pods.pods = {pod_of(pods.job, 1)};
  pods.pods[0].metadata.owner_references.clear();
  pods.pods[0].metadata.finalizers.clear();
  const Plan pod = plan(pods);
  EXPECT_TRUE(pod.actions.empty());
  EXPECT_EQ(reason_of(pod, condition::kScheduled), reason::kNameTaken);
  EXPECT_NE(message_of(pod, condition::kScheduled).find("arxiv-1-1"), std::string::npos);
}

TEST(Plan, AForeignServiceDoesNotDisturbAJobThatRuns) {
  Observed observed = running();
  observed.service->metadata.owner_references[0].uid = "somebody";
  const Plan result = plan(observed);
  EXPECT_TRUE(result.actions.empty());
  EXPECT_EQ(result.status, observed.job.status);
}

TEST(Plan, ARecreatedJobWaitsForThePodsOfTheOldOne) {
  api::GnnJob old = small_job();
  old.metadata.uid = "uid-of-the-old-one";
  Observed observed;
  observed.job = small_job();
  objects::Pod left = pod_of(old, 0);
  make_ready(left);
  mark_deleted(left, at(100));
  observed.pods = {left};
  const Plan waits = plan(observed);
  EXPECT_EQ(count_of<CreatePod>(waits), 0);
  EXPECT_EQ(count_of<DeletePod>(waits), 0);
  ASSERT_EQ(count_of<ReleasePod>(waits), 1);
  EXPECT_EQ(actions_of<ReleasePod>(waits)[0].uid, left.metadata.uid);
  Observed later = next(observed, waits);
  later.pods.clear();
  EXPECT_EQ(count_of<CreatePod>(plan(later)), 2);
}

TEST(Plan, APodOfTheOldJobOnAMachineThatDoesNotAnswerIsTakenAway) {
  api::GnnJob old = small_job();
  old.metadata.uid = "uid-of-the-old-one";
  Observed observed;
  observed.job = small_job();
  observed.now = at(110);
  objects::Pod left = pod_of(old, 0);
  make_ready(left);
  mark_deleted(left, at(100));
  std::erase(left.metadata.finalizers, std::string(contract::kPodFinalizer));
  observed.pods = {left};
  const Plan waits = plan(observed);
  EXPECT_TRUE(waits.actions.empty());
  ASSERT_TRUE(waits.requeue_after);
  EXPECT_EQ(observed.now + *waits.requeue_after, at(130));
  EXPECT_EQ(reason_of(waits, condition::kScheduled), reason::kCreating);
  EXPECT_EQ(
      message_of(waits, condition::kScheduled),
      "Waits until pod arxiv-1-0 of an earlier job of this name has left machine"
  );

  const Plan takes = plan(next(observed, waits, 20));
  EXPECT_EQ(count_of<CreatePod>(takes), 0);
  const auto deletes = actions_of<DeletePod>(takes);
  ASSERT_EQ(deletes.size(), 1U);
  EXPECT_EQ(deletes[0].uid, left.metadata.uid);
  EXPECT_EQ(deletes[0].grace_period_seconds, 0);
}

TEST(Plan, OrphansAreFreed) {
  std::vector<objects::Pod> pods = {pod_of(small_job(), 0), pod_of(small_job(), 1)};
  pods[1].metadata.finalizers = {"other/finalizer"};
  const std::vector<Action> actions = release_orphans(pods);
  ASSERT_EQ(actions.size(), 1U);
  EXPECT_EQ(std::get<ReleasePod>(actions[0]).name, "arxiv-1-0");
}

TEST(Plan, APodTakenFromUsIsNotHeldBack) {
  Observed observed = running();
  observed.pods.push_back(pod_of(observed.job, 0, 7));
  observed.pods.back().metadata.owner_references.clear();
  EXPECT_EQ(count_of<ReleasePod>(plan(observed)), 1);
}

// ---- failures: what each exit does

struct ExitCase {
  std::int64_t code;
  std::string_view reason;
  bool charged;
  bool ends_job;
};

TEST(Plan, ExitCodesDecideRetryAndCharge) {
  for (const ExitCase& each : {
           ExitCase{1, reason::kError, true, false},
           ExitCase{70, reason::kError, true, false},
           ExitCase{137, reason::kError, true, false},
           ExitCase{255, reason::kError, true, false},
           ExitCase{64, reason::kConfiguration, false, true},
           ExitCase{65, reason::kData, false, true},
           ExitCase{77, reason::kOutOfMemory, true, false},
       }) {
    Observed observed = running();
    end_container(observed.pods[1], each.code);
    const Plan result = plan(observed);
    SCOPED_TRACE(each.code);
    // The first of two passes writes the status and touches nothing.
    EXPECT_TRUE(result.actions.empty());
    EXPECT_EQ(is_true(result.status, condition::kFailed), each.ends_job);
    EXPECT_EQ(result.status.attempt, each.ends_job ? 1 : 2);
    EXPECT_EQ(result.status.restarts, each.charged ? 1 : 0);
    ASSERT_TRUE(result.status.last_failure);
    EXPECT_EQ(result.status.last_failure->node, 1);
    EXPECT_EQ(result.status.last_failure->attempt, 1);
    EXPECT_EQ(result.status.last_failure->exit_code, each.code);
    EXPECT_EQ(result.status.last_failure->reason, each.reason);
    const auto type = each.ends_job ? condition::kFailed : condition::kRestarting;
    EXPECT_EQ(reason_of(result, type), each.reason);
  }
}

TEST(Plan, APreemptedGangIsNotCharged) {
  Observed observed = running();
  end_container(observed.pods[0], contract::kExitPreempted);
  end_container(observed.pods[1], contract::kExitPreempted);
  const Plan result = plan(observed);
  EXPECT_EQ(result.status.attempt, 2);
  EXPECT_EQ(result.status.restarts, 0);
  EXPECT_EQ(reason_of(result, condition::kRestarting), reason::kPreempted);
}

TEST(Plan, PeerLostWaitsForTheCulpritAndChargesThat) {
  Observed observed = running(3);
  end_container(observed.pods[0], contract::kExitPeerLost, "", at(50));
  observed.now = at(51);
  const Plan waits = plan(observed);
  EXPECT_EQ(waits.status.attempt, 1);
  EXPECT_EQ(waits.status.state, "Running");
  ASSERT_TRUE(waits.requeue_after);

  Observed later = next(observed, waits);
  end_container(later.pods[2], 1, "out of luck", at(49));
  const Plan decided = plan(later);
  EXPECT_EQ(decided.status.attempt, 2);
  EXPECT_EQ(decided.status.restarts, 1);
  EXPECT_EQ(decided.status.last_failure->node, 2);
  EXPECT_EQ(decided.status.last_failure->message, "out of luck");
}

TEST(Plan, PeerLostDoesNotWaitForEver) {
  Observed observed = running(2);
  end_container(observed.pods[0], contract::kExitPeerLost, "", at(50));
  observed.now = at(50) + observed.config.culprit_wait;
  EXPECT_EQ(plan(observed).status.attempt, 2);
}

TEST(Plan, AMachineWhoseClockIsAheadDoesNotProlongTheWaitForTheCulprit) {
  Observed observed = running(2);
  end_container(observed.pods[0], contract::kExitPeerLost, "", at(3650));
  observed.now = at(50);
  const Plan waits = plan(observed);
  EXPECT_EQ(waits.status.attempt, 1);
  EXPECT_EQ(waits.requeue_after, observed.config.culprit_wait);
  Observed later = next(observed, waits, 59);
  const Plan still = plan(later);
  EXPECT_EQ(still.status.attempt, 1);
  EXPECT_EQ(still.requeue_after, Duration(seconds(1)));
  EXPECT_EQ(plan(next(later, still)).status.attempt, 2);
}

TEST(Plan, AGangThatLostItselfIsCharged) {
  Observed observed = running(2);
  end_container(observed.pods[0], contract::kExitPeerLost);
  end_container(observed.pods[1], contract::kExitPeerLost);
  const Plan result = plan(observed);
  EXPECT_EQ(result.status.restarts, 1);
  EXPECT_EQ(result.status.last_failure->reason, reason::kPeerLost);
}

TEST(Plan, TheFirstFailureIsNamedNotItsEchoes) {
  Observed observed = running(3);
  end_container(observed.pods[0], 1, "echo", at(52));
  end_container(
      observed.pods[1],
      1,
      result_message(observed.job, 1, 1, R"(, "rank": 5, "message": "NaN loss")"),
      at(50)
  );
  end_container(observed.pods[2], contract::kExitPeerLost, "", at(40));
  const Plan result = plan(observed);
  EXPECT_EQ(result.status.last_failure->node, 1);
  EXPECT_EQ(result.status.last_failure->rank, 5);
  EXPECT_EQ(result.status.last_failure->message, "NaN loss");
  EXPECT_EQ(result.status.restarts, 1);
}

TEST(Plan, DisruptionsAreFree) {
  for (const char* reason : {"Evicted", "Preempting", "OutOfcpu", "NodeShutdown"}) {
    Observed observed = running();
    observed.pods[0].status.phase = "Failed";
    observed.pods[0].status.reason = reason;
    observed.pods[0].status.message = "the node was low on memory";
    const Plan result = plan(observed);
    EXPECT_EQ(result.status.restarts, 0) << reason;
    EXPECT_EQ(result.status.attempt, 2) << reason;
    EXPECT_EQ(result.status.last_failure->reason, reason::kDisrupted);
    EXPECT_EQ(result.status.last_failure->message, "the node was low on memory");
  }
  Observed drained = running();
  add_condition(drained.pods[0], "DisruptionTarget", true, "EvictionByEvictionAPI", "drained");
  end_container(drained.pods[0], 137);
  end_container(drained.pods[1], 1);
  const Plan result = plan(drained);
  EXPECT_EQ(result.status.restarts, 0);
  EXPECT_EQ(result.status.last_failure->node, 0);
}

TEST(Plan, UncountedAttemptsDoNotFollowEachOtherAtFullSpeed) {
  Observed observed = running();
  observed.now = at(2);
  observed.pods[0].status.phase = "Failed";
  observed.pods[0].status.reason = "UnexpectedAdmissionError";
  const Plan result = plan(observed);
  EXPECT_EQ(result.status.next_attempt_time, at(10));
  Observed later = next(observed, result);
  later.pods.clear();
  EXPECT_EQ(count_of<CreatePod>(plan(later)), 0);
  later.now = at(10);
  EXPECT_EQ(count_of<CreatePod>(plan(later)), 2);
}

TEST(Plan, ADeletedPodIsWaitedForAndThenRestartsTheGang) {
  Observed observed = running();
  mark_deleted(observed.pods[1], at(150));
  const Plan leaving = plan(observed);
  EXPECT_TRUE(leaving.actions.empty());
  EXPECT_EQ(leaving.status.attempt, 1);
  EXPECT_EQ(leaving.status.state, "Running");
  ASSERT_TRUE(leaving.requeue_after);
  EXPECT_EQ(observed.now + *leaving.requeue_after, at(180));

  Observed later = next(observed, leaving);
  end_container(later.pods[1], contract::kExitPreempted);
  const Plan restarts = plan(later);
  EXPECT_EQ(restarts.status.attempt, 2);
  EXPECT_EQ(restarts.status.restarts, 0);
  EXPECT_EQ(reason_of(restarts, condition::kRestarting), reason::kPodDeleted);
}

TEST(Plan, APodThatOnlyOurFinalizerHoldsIsGone) {
  Observed observed = running();
  mark_deleted(observed.pods[1], at(30), 0);
  EXPECT_EQ(plan(observed).status.attempt, 2);
}

TEST(Plan, APodOnAMachineThatDoesNotAnswerIsLost) {
  Observed observed = running();
  mark_deleted(observed.pods[1], at(150));
  observed.now = at(180);
  const Plan lost = plan(observed);
  EXPECT_EQ(lost.status.attempt, 2);
  EXPECT_EQ(lost.status.restarts, 0);
  EXPECT_EQ(lost.status.last_failure->reason, reason::kNodeLost);
  const Plan clears = plan(next(observed, lost));
  const auto deletes = actions_of<DeletePod>(clears);
  ASSERT_EQ(deletes.size(), 2U);
  EXPECT_EQ(deletes[0].grace_period_seconds, std::nullopt);
  EXPECT_EQ(deletes[1].grace_period_seconds, 0);
}

TEST(Plan, APodThatVanishedRestartsTheGangInsteadOfBeingMadeAgain) {
  Observed observed = running();
  observed.pods.pop_back();
  const Plan result = plan(observed);
  EXPECT_EQ(count_of<CreatePod>(result), 0);
  EXPECT_EQ(result.status.attempt, 2);
  EXPECT_EQ(reason_of(result, condition::kRestarting), reason::kPodDeleted);
}

// ---- out of memory

TEST(Plan, OutOfMemoryTwiceEndsTheJob) {
  Observed observed = running();
  end_container(observed.pods[0], 137).reason = "OOMKilled";
  const Plan first = plan(observed);
  EXPECT_EQ(first.status.attempt, 2);
  EXPECT_EQ(first.status.out_of_memory, 1);
  EXPECT_EQ(first.status.restarts, 1);

  Observed second = next(observed, first);
  second.pods = {pod_of(second.job, 0, 2), pod_of(second.job, 1, 2)};
  make_ready(second.pods[1]);
  end_container(second.pods[0], contract::kExitOutOfMemory);
  const Plan result = plan(second);
  EXPECT_TRUE(is_true(result.status, condition::kFailed));
  EXPECT_EQ(reason_of(result, condition::kFailed), reason::kOutOfMemory);
}

TEST(Plan, OomKilledStandsAboveTheExitCode) {
  Observed observed = running();
  end_container(observed.pods[0], 0).reason = "OOMKilled";
  observed.pods[0].status.phase = "Failed";
  EXPECT_EQ(plan(observed).status.last_failure->reason, reason::kOutOfMemory);
}

// ---- restarts: two passes, one counter

TEST(Plan, RestartIsTwoPasses) {
  Observed observed = running();
  end_container(observed.pods[1], 1);
  const Plan first = plan(observed);
  EXPECT_TRUE(first.actions.empty());
  EXPECT_EQ(first.status.state, "Restarting");
  EXPECT_EQ(event_reasons(first), (std::vector<std::string>{"Creating", "Restarting"}));

  Observed second = next(observed, first);
  const Plan clears = plan(second);
  EXPECT_EQ(count_of<ReleasePod>(clears), 2);
  EXPECT_EQ(count_of<DeletePod>(clears), 2);
  EXPECT_EQ(count_of<CreatePod>(clears), 0);
  // Pass two again, after a crash: the same.
  EXPECT_EQ(plan(second).actions.size(), clears.actions.size());

  Observed one_left = next(second, clears);
  one_left.pods.erase(one_left.pods.begin());
  mark_deleted(one_left.pods[0], at(200));
  one_left.pods[0].metadata.finalizers.clear();
  EXPECT_TRUE(plan(one_left).actions.empty());

  Observed none_left = next(one_left, plan(one_left));
  none_left.pods.clear();
  const Plan creates = plan(none_left);
  ASSERT_EQ(count_of<CreatePod>(creates), 2);
  EXPECT_EQ(actions_of<CreatePod>(creates)[0].pod.metadata.name, "arxiv-2-0");
  EXPECT_EQ(creates.status.state, "Restarting");
}

TEST(Plan, ANewAttemptThatRunsIsNoLongerRestarting) {
  Observed observed = running();
  end_container(observed.pods[1], 1);
  Observed later = next(observed, plan(observed));
  later.pods = {pod_of(later.job, 0, 2), pod_of(later.job, 1, 2)};
  for (objects::Pod& pod : later.pods) make_ready(pod);
  const Plan result = plan(later);
  EXPECT_EQ(result.status.state, "Running");
  EXPECT_FALSE(is_true(result.status, condition::kRestarting));
  EXPECT_EQ(reason_of(result, condition::kRestarting), reason::kRestarted);
}

TEST(Plan, MaxRestartsIsOneCounterOverAttemptsAndRounds) {
  Observed observed = running();
  observed.job.spec.run_policy.max_restarts = 2;
  observed.progress = parse_report(result_message(observed.job, 1, 0, R"(, "round": 1)"));
  const Plan round = plan(observed);
  EXPECT_EQ(round.status.restarts, 1);
  EXPECT_EQ(round.status.round, 1);
  EXPECT_EQ(round.status.attempt, 1);
  EXPECT_EQ(event_reasons(round), std::vector<std::string>{"RestartedInPlace"});
  // Heard twice, counted once.
  EXPECT_EQ(plan(next(observed, round)).status.restarts, 1);

  Observed failed = next(observed, round);
  end_container(failed.pods[0], 1);
  const Plan attempt = plan(failed);
  EXPECT_EQ(attempt.status.restarts, 2);
  EXPECT_EQ(attempt.status.attempt, 2);
  EXPECT_EQ(attempt.status.round, 0);

  Observed again = next(failed, attempt);
  again.pods.clear();
  const Plan creates = plan(again);
  for (const CreatePod& action : actions_of<CreatePod>(creates)) {
    for (const api::EnvVar& variable : action.pod.spec.containers[0].env) {
      if (variable.name == contract::kEnvRoundsLeft) {
        EXPECT_EQ(variable.value, "0");
      }
    }
  }
  Observed last = next(again, creates);
  last.pods = {pod_of(last.job, 0, 2), pod_of(last.job, 1, 2)};
  end_container(last.pods[0], 1);
  const Plan ends = plan(last);
  EXPECT_TRUE(is_true(ends.status, condition::kFailed));
  EXPECT_EQ(reason_of(ends, condition::kFailed), reason::kMaxRestartsExceeded);
  EXPECT_EQ(ends.status.restarts, 2);
}

TEST(Plan, AWorkerCannotClaimMoreRoundsThanItWasGiven) {
  Observed observed = running();
  observed.progress = parse_report(result_message(observed.job, 1, 0, R"(, "round": 1000000)"));
  EXPECT_EQ(plan(observed).status.restarts, observed.job.spec.run_policy.max_restarts);
}

TEST(Plan, ReportsOfOtherJobsAndAttemptsAreNotHeard) {
  Observed observed = running();
  api::GnnJob other = observed.job;
  other.metadata.uid = "somebody";
  observed.progress = parse_report(result_message(other, 1, 0, R"(, "round": 1, "epoch": 9)"));
  EXPECT_EQ(plan(observed).status, observed.job.status);
  observed.progress =
      parse_report(result_message(observed.job, 2, 0, R"(, "round": 1, "epoch": 9)"));
  EXPECT_EQ(plan(observed).status, observed.job.status);
}

TEST(Plan, NoRestartsMeansTheFirstFailureEndsTheJob) {
  Observed observed = running();
  observed.job.spec.run_policy.max_restarts = 0;
  end_container(observed.pods[0], 1, "boom");
  const Plan result = plan(observed);
  EXPECT_EQ(reason_of(result, condition::kFailed), reason::kMaxRestartsExceeded);
  EXPECT_NE(result.status.message.find("boom"), std::string::npos);
}

// ---- the end

TEST(Plan, DoneWhenAllNodesAreDone) {
  Observed observed = running();
  end_container(
      observed.pods[0], 0, result_message(observed.job, 1, 0, R"(, "testMetric": "0.69")")
  );
  const Plan one = plan(observed);
  EXPECT_FALSE(is_true(one.status, condition::kComplete));
  EXPECT_EQ(one.status.nodes.succeeded, 1);
  EXPECT_EQ(one.status.nodes.ready, 2);

  end_container(observed.pods[1], 0);
  const Plan both = plan(observed);
  EXPECT_TRUE(is_true(both.status, condition::kComplete));
  EXPECT_EQ(both.status.state, "Complete");
  EXPECT_EQ(both.status.progress->test_metric, "0.69");
  EXPECT_EQ(both.status.completion_time, observed.now);
  EXPECT_EQ(both.status.start_time, observed.job.status.start_time);
  // The result is saved before the pods that hold it are let go.
  EXPECT_TRUE(both.actions.empty());
  const Plan frees = plan(next(observed, both));
  EXPECT_EQ(count_of<ReleasePod>(frees), 2);
}

TEST(Plan, AFinishedPodThatWasDeletedStillCounts) {
  Observed observed = running();
  for (objects::Pod& pod : observed.pods) {
    end_container(pod, 0);
    mark_deleted(pod, at(10), 0);
  }
  EXPECT_TRUE(is_true(plan(observed).status, condition::kComplete));
}

TEST(Plan, NothingChangesAfterTheEnd) {
  Observed observed = running();
  for (objects::Pod& pod : observed.pods) end_container(pod, 0);
  observed.job.status = plan(observed).status;
  const api::GnnJobStatus finished = observed.job.status;
  observed.pods.clear();
  observed.now = at(100000);
  EXPECT_EQ(plan(observed).status, finished);
  EXPECT_TRUE(plan(observed).actions.empty());
  observed.job.spec.suspend = true;
  observed.job.spec.run_policy.active_deadline_seconds = 1;
  EXPECT_EQ(plan(observed).status, finished);
  // A later generation is observed, or `kubectl wait` would not believe the condition.
  observed.job.metadata.generation = 2;
  const Plan observed_again = plan(observed);
  EXPECT_EQ(observed_again.status.observed_generation, 2);
  for (const api::Condition& each : observed_again.status.conditions) {
    EXPECT_EQ(each.observed_generation, 2);
  }
}

TEST(Plan, CleanPodPolicyDecidesWhatStays) {
  for (const auto& [policy, deletes] :
       {std::pair{api::CleanPodPolicy::Running, 1},
        std::pair{api::CleanPodPolicy::All, 2},
        std::pair{api::CleanPodPolicy::None, 0}}) {
    Observed observed = running();
    observed.job.spec.run_policy.clean_pod_policy = policy;
    end_container(observed.pods[0], 64);
    const Plan failed = plan(observed);
    EXPECT_TRUE(failed.actions.empty()) << "the condition is written before pods are deleted";
    const Plan cleans = plan(next(observed, failed));
    EXPECT_EQ(count_of<DeletePod>(cleans), deletes);
    EXPECT_EQ(count_of<ReleasePod>(cleans), 2);
  }
}

// The kubelet tells of the container's end first, of the pod's later: the job is Complete by then.
TEST(Plan, AFinishedPodStaysAlsoWhileItsPhaseStillSaysRunning) {
  Observed observed = running();
  for (objects::Pod& pod : observed.pods) {
    end_container(pod, 0);
    pod.status.phase = "Running";
  }
  const Plan completes = plan(observed);
  EXPECT_TRUE(is_true(completes.status, condition::kComplete));
  const Plan cleans = plan(next(observed, completes));
  EXPECT_EQ(count_of<DeletePod>(cleans), 0) << "its logs are asked for later";
  EXPECT_EQ(count_of<ReleasePod>(cleans), 2);
}

TEST(Plan, AJobThatFailedKeepsNoMachineBusyWhateverIsToStay) {
  Observed observed = running(3);
  observed.job.spec.run_policy.clean_pod_policy = api::CleanPodPolicy::None;
  observed.pods[2].spec.node_name.clear();
  observed.job.spec.run_policy.active_deadline_seconds = 100;
  observed.job.status.start_time = at(0);
  observed.now = at(100);
  end_container(observed.pods[0], contract::kExitPeerLost);
  const Plan failed = plan(observed);
  EXPECT_TRUE(is_true(failed.status, condition::kFailed));
  Observed later = next(observed, failed);
  const Plan stops = plan(later);
  // The kubelet ends what runs, and its logs stay; what waits for a machine has none.
  const auto stopped = actions_of<StopPod>(stops);
  ASSERT_EQ(stopped.size(), 1U);
  EXPECT_EQ(stopped[0].uid, observed.pods[1].metadata.uid);
  const auto deleted = actions_of<DeletePod>(stops);
  ASSERT_EQ(deleted.size(), 1U);
  EXPECT_EQ(deleted[0].uid, observed.pods[2].metadata.uid);
  later.pods[1].spec.active_deadline_seconds = 1;
  EXPECT_EQ(count_of<StopPod>(plan(later)), 0);
}

TEST(Plan, TimeToLiveDeletesOnlyFinishedJobs) {
  Observed observed = running();
  observed.job.spec.run_policy.ttl_seconds_after_finished = 60;
  observed.now = at(1000);
  EXPECT_EQ(count_of<DeleteJob>(plan(observed)), 0);
  observed.job.spec.suspend = true;
  EXPECT_EQ(count_of<DeleteJob>(plan(observed)), 0);
  observed.job.spec.suspend = false;
  for (objects::Pod& pod : observed.pods) end_container(pod, 0);
  Observed finished = next(observed, plan(observed), 0);
  EXPECT_EQ(plan(finished).requeue_after, Duration(seconds(60)));
  finished.now = at(1060);
  const auto deletes = actions_of<DeleteJob>(plan(finished));
  ASSERT_EQ(deletes.size(), 1U);
  EXPECT_EQ(deletes[0].uid, observed.job.metadata.uid);
}

TEST(Plan, DeadlineEndsTheJobAndThenItsPods) {
  Observed observed = running();
  observed.job.spec.run_policy.active_deadline_seconds = 100;
  observed.job.status.start_time = at(0);
  const Plan before = plan(observed);
  EXPECT_EQ(observed.now + *before.requeue_after, at(100));
  observed.now = at(100);
  const Plan ends = plan(observed);
  EXPECT_EQ(reason_of(ends, condition::kFailed), reason::kDeadlineExceeded);
  EXPECT_TRUE(ends.actions.empty());
  // Written at last, the pods are taken down, as often as it takes.
  const Observed later = next(observed, ends);
  EXPECT_EQ(count_of<DeletePod>(plan(later)), 2);
  EXPECT_EQ(count_of<DeletePod>(plan(later)), 2);
}

TEST(Plan, DeletionFreesEveryPod) {
  Observed observed = running();
  observed.job.metadata.deletion_timestamp = at(31);
  const Plan result = plan(observed);
  EXPECT_EQ(count_of<ReleasePod>(result), 2);
  EXPECT_EQ(count_of<DeletePod>(result), 2);
  EXPECT_EQ(result.status, observed.job.status);
}

// ---- suspend and resume

TEST(Plan, ASuspendedJobStartsNothing) {
  Observed observed;
  observed.job = small_job();
  observed.job.spec.suspend = true;
  const Plan result = plan(observed);
  EXPECT_TRUE(result.actions.empty());
  EXPECT_EQ(result.status.state, "Suspended");
  EXPECT_EQ(result.status.attempt, 0);
  Observed resumed = next(observed, result);
  resumed.job.spec.suspend = false;
  const Plan starts = plan(resumed);
  EXPECT_EQ(count_of<CreatePod>(starts), 2);
  EXPECT_EQ(starts.status.attempt, 1);
  EXPECT_FALSE(is_true(starts.status, condition::kSuspended));
}

TEST(Plan, SuspendIsTrueOnlyWhenNoPodIsLeft) {
  Observed observed = running();
  observed.job.spec.suspend = true;
  const Plan stops = plan(observed);
  EXPECT_EQ(count_of<DeletePod>(stops), 2);
  EXPECT_FALSE(is_true(stops.status, condition::kSuspended));
  EXPECT_EQ(stops.status.state, "Suspending");

  Observed leaving = next(observed, stops);
  for (objects::Pod& pod : leaving.pods) {
    pod.metadata.finalizers.clear();
    mark_deleted(pod, at(200));
  }
  EXPECT_TRUE(plan(leaving).actions.empty());
  EXPECT_FALSE(is_true(plan(leaving).status, condition::kSuspended));

  Observed gone = next(leaving, plan(leaving));
  gone.pods.clear();
  const Plan suspended = plan(gone);
  EXPECT_TRUE(is_true(suspended.status, condition::kSuspended));
  EXPECT_FALSE(suspended.status.start_time);
  EXPECT_EQ(suspended.status.restarts, 0);

  Observed resumed = next(gone, suspended, 500);
  resumed.job.spec.suspend = false;
  const Plan raises = plan(resumed);
  EXPECT_EQ(raises.status.attempt, 2);
  EXPECT_TRUE(raises.actions.empty());
  const Plan creates = plan(next(resumed, raises));
  EXPECT_EQ(count_of<CreatePod>(creates), 2);
  EXPECT_EQ(creates.status.start_time, at(533)) << "the deadline's clock starts anew";
}

TEST(Plan, ASuspendedJobHasNoDeadline) {
  Observed observed = running();
  observed.job.spec.suspend = true;
  observed.job.spec.run_policy.active_deadline_seconds = 1;
  observed.now = at(10000);
  EXPECT_FALSE(is_true(plan(observed).status, condition::kFailed));
}

TEST(Plan, AJobThatEndsWhileItIsSuspendedIsDone) {
  Observed observed = running();
  observed.job.spec.suspend = true;
  for (objects::Pod& pod : observed.pods) end_container(pod, 0);
  EXPECT_TRUE(is_true(plan(observed).status, condition::kComplete));
}

TEST(Plan, ResumingBeforeAllHaveLeftRestartsWithoutCharge) {
  Observed observed = running();
  observed.job.spec.suspend = true;
  Observed back = next(observed, plan(observed));
  back.job.spec.suspend = false;
  for (objects::Pod& pod : back.pods) mark_deleted(pod, at(31), 0);
  const Plan result = plan(back);
  EXPECT_EQ(result.status.attempt, 2);
  EXPECT_EQ(result.status.restarts, 0);
}

// ---- gangs that find no place

Observed half_placed() {
  Observed observed = running();
  observed.job.status = {};
  observed.pods[1] = pod_of(observed.job, 1);
  add_condition(observed.pods[1], "PodScheduled", false, "Unschedulable", "no room");
  observed.job.status = plan(observed).status;
  return observed;
}

TEST(Plan, AGangThatFindsNoPlaceGivesItsPlacesBack) {
  Observed observed = half_placed();
  EXPECT_EQ(observed.now + *plan(observed).requeue_after, at(600));
  observed.now = at(600);
  const Plan released = plan(observed);
  EXPECT_TRUE(released.actions.empty());
  EXPECT_EQ(released.status.state, "Released");
  EXPECT_EQ(released.status.attempt, 2);
  EXPECT_EQ(released.status.restarts, 0);
  EXPECT_EQ(released.status.releases, 1);
  EXPECT_NE(released.status.message.find("no room"), std::string::npos);
  ASSERT_TRUE(released.status.next_attempt_time);

  const Plan clears = plan(next(observed, released));
  EXPECT_EQ(count_of<DeletePod>(clears), 2);
  Observed waiting = next(observed, released);
  waiting.pods.clear();
  EXPECT_EQ(count_of<CreatePod>(plan(waiting)), 0);
  waiting.now = *released.status.next_attempt_time;
  const Plan tries = plan(waiting);
  EXPECT_EQ(count_of<CreatePod>(tries), 2);
  EXPECT_EQ(reason_of(tries, condition::kScheduled), reason::kPlacing);
}

TEST(Plan, AReleasedGangLetsAnOlderOneGoFirst) {
  Observed observed = half_placed();
  observed.now = at(600);
  Observed waiting = next(observed, plan(observed));
  waiting.pods.clear();
  waiting.now = *waiting.job.status.next_attempt_time;
  waiting.older_gang = "train/elder";
  const Plan waits = plan(waiting);
  EXPECT_TRUE(waits.actions.empty());
  EXPECT_NE(waits.status.message.find("train/elder"), std::string::npos);
  ASSERT_TRUE(waits.requeue_after);
}

TEST(Plan, TheOldestGangComesBackFirst) {
  Observed observed = half_placed();
  observed.now = at(600);
  const TimePoint oldest = *plan(observed).status.next_attempt_time;
  observed.older_gang = "train/elder";
  EXPECT_LE(oldest, at(600) + observed.config.release_backoff + seconds(1));
  EXPECT_GE(*plan(observed).status.next_attempt_time, at(600) + observed.config.release_backoff);
}

TEST(Plan, BackOffGrowsAndDiffersFromJobToJob) {
  Observed observed = half_placed();
  observed.now = at(600);
  std::set<std::int64_t> waits;
  for (int i = 0; i < 20; ++i) {
    observed.job.metadata.uid = "uid-" + std::to_string(i);
    observed.job.status.releases = 4;
    for (objects::Pod& pod : observed.pods) {
      pod.metadata.owner_references[0].uid = observed.job.metadata.uid;
    }
    const Duration wait = *plan(observed).status.next_attempt_time - observed.now;
    EXPECT_GE(wait, observed.config.release_backoff * 8);
    EXPECT_LE(wait, observed.config.release_backoff_cap);
    waits.insert(wait.count());
  }
  EXPECT_GT(waits.size(), 10U);
}

TEST(Plan, APlacedGangIsNeverReleased) {
  Observed observed = running();
  observed.now = at(100000);
  EXPECT_TRUE(plan(observed).actions.empty());
  EXPECT_EQ(plan(observed).status.attempt, 1);
}

TEST(Plan, OlderGangsInPlacementAreRecognised) {
  const api::GnnJob young = [] {
    api::GnnJob job = small_job();
    job.metadata.creation_timestamp = at(10);
    return job;
  }();
  api::GnnJob old = half_placed().job;
  old.metadata.uid = "uid-of-elder";
  EXPECT_TRUE(is_older_gang_in_placement(old, young));
  EXPECT_FALSE(is_older_gang_in_placement(young, old));
  EXPECT_FALSE(is_older_gang_in_placement(young, young));
  api::GnnJob suspended = old;
  suspended.spec.suspend = true;
  EXPECT_FALSE(is_older_gang_in_placement(suspended, young));
  api::GnnJob placed = running().job;
  placed.metadata.uid = "uid-of-placed";
  EXPECT_FALSE(is_older_gang_in_placement(placed, young));
  EXPECT_TRUE(wants_competitors(old));
  EXPECT_FALSE(wants_competitors(placed));
}

// ---- progress

TEST(Plan, MergesWhatWorkersReport) {
  Observed observed = running();
  observed.progress = parse_report(result_message(
      observed.job, 1, 0, R"(, "epoch": 2, "epochs": 5, "loss": "1.1", "etaSeconds": 9)"
  ));
  const Plan first = plan(observed);
  EXPECT_EQ(first.status.progress->epoch, 2);
  EXPECT_EQ(first.status.progress->eta_seconds, 9);
  Observed later = next(observed, first);
  later.progress = parse_report(result_message(observed.job, 1, 0, R"(, "epoch": 3)"));
  const Plan second = plan(later);
  EXPECT_EQ(second.status.progress->epoch, 3);
  EXPECT_EQ(second.status.progress->loss, "1.1");
  EXPECT_FALSE(second.status.progress->eta_seconds);
  EXPECT_TRUE(second.events.empty());
}

TEST(Plan, HostileMessagesDoNoHarm) {
  for (const std::string& message :
       {std::string(60000, '['),
        std::string("\x1b[2J\0\xff", 6),
        std::string(
            R"({"contract":1,"jobUid":"x","attempt":99999999999999999999,"round":1,"node":0})"
        ),
        std::string("{\"contract\":1,") + std::string(5000, 'a')}) {
    Observed observed = running();
    end_container(observed.pods[0], 1, message);
    const Plan result = plan(observed);
    EXPECT_EQ(result.status.attempt, 2);
    EXPECT_LE(result.status.last_failure->message.size(), 1024U);
    EXPECT_LE(result.status.message.size(), 2048U);
    EXPECT_EQ(result.status.last_failure->message.find('\x1b'), std::string::npos);
  }
}

TEST(Plan, AsksNodeZeroForProgressOnlyWhileItRuns) {
  Observed observed = running();
  EXPECT_EQ(progress_address(observed.job, observed.pods), "127.64.0.1");
  observed.pods[0].status.phase = "Pending";
  EXPECT_FALSE(progress_address(observed.job, observed.pods));
  observed.pods[0].status.phase = "Running";
  observed.pods[0].metadata.owner_references.clear();
  EXPECT_FALSE(progress_address(observed.job, observed.pods));
}

// ---- how often the status is written

TEST(Plan, CountsAreWrittenOnceASecondAndConditionsAtOnce) {
  Observed observed = running(3);
  observed.pods[2].status.conditions.clear();
  schedule(observed.pods[2]);
  // Nothing was written for a while, or not by this controller: counts are news.
  EXPECT_EQ(plan(observed).status.nodes.ready, 2);
  observed.status_written = observed.now - std::chrono::seconds(1);
  EXPECT_EQ(plan(observed).status.nodes.ready, 2);

  observed.status_written = observed.now - std::chrono::milliseconds(300);
  const Plan held = plan(observed);
  EXPECT_EQ(held.status, observed.job.status);
  EXPECT_TRUE(held.events.empty());
  ASSERT_TRUE(held.requeue_after);
  EXPECT_LE(*held.requeue_after, std::chrono::milliseconds(700));

  end_container(observed.pods[2], 70);
  EXPECT_EQ(plan(observed).status.state, "Restarting");
}

// ---- the story that `kubectl describe` tells

TEST(Plan, EventsTellTheStoryOnce) {
  Observed observed;
  observed.job = small_job();
  observed.now = at(0);
  std::vector<std::string> story;
  const auto pass = [&] {
    const Plan result = plan(observed);
    for (const std::string& reason : event_reasons(result)) story.push_back(reason);
    observed = next(observed, result);
  };
  pass();
  observed.service = desired_service(observed.job);
  observed.config_map = desired_config_map(observed.job);
  observed.network_policy = desired_network_policy(observed.job);
  observed.pods = {pod_of(observed.job, 0), pod_of(observed.job, 1)};
  for (objects::Pod& pod : observed.pods) schedule(pod);
  pass();
  pass();
  for (objects::Pod& pod : observed.pods) make_ready(pod);
  pass();
  for (objects::Pod& pod : observed.pods) end_container(pod, 0);
  pass();
  pass();
  EXPECT_EQ(story, (std::vector<std::string>{"Placing", "Scheduled", "Running", "Complete"}));
}

}  // namespace
}  // namespace gnn::reconcile
