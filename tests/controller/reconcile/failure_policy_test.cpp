#include "controller/reconcile/failure_policy.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace gnn::reconcile {
namespace {

using std::chrono::seconds;

struct ExitCase {
  int64_t code;
  std::string_view reason;
  bool charged;
  bool ends_job;
};

TEST(FailurePolicy, ExitCodesDecideRetryAndCharge) {
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
    // The first of two passes only writes the status.
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

TEST(FailurePolicy, DoesNotChargePreemption) {
  Observed observed = running();
  end_container(observed.pods[0], contract::kExitPreempted);
  end_container(observed.pods[1], contract::kExitPreempted);
  const Plan result = plan(observed);
  EXPECT_EQ(result.status.attempt, 2);
  EXPECT_EQ(result.status.restarts, 0);
  EXPECT_EQ(reason_of(result, condition::kRestarting), reason::kPreempted);
}

TEST(FailurePolicy, PeerLostWaitsForTheCulprit) {
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

TEST(FailurePolicy, PeerLostDoesNotWaitForever) {
  Observed observed = running(2);
  end_container(observed.pods[0], contract::kExitPeerLost, "", at(50));
  const Plan waits = plan(observed);
  EXPECT_EQ(waits.requeue_after, observed.config.culprit_wait);
  Observed later = next(observed, waits, 89);
  const Plan still = plan(later);
  EXPECT_EQ(still.status.attempt, 1);
  EXPECT_EQ(still.requeue_after, Duration(seconds(1)));
  const Plan decided = plan(next(later, still));
  EXPECT_EQ(decided.status.attempt, 2);
  EXPECT_EQ(decided.status.restarts, 1);
}

// A machine's clock may be wrong, and an outage may hide for long that it has ended.
TEST(FailurePolicy, TheWaitCountsFromWhenTheControllerFirstSawTheEnd) {
  for (const TimePoint ended : {at(3650), at(-3600)}) {
    Observed observed = running(2);
    end_container(observed.pods[0], contract::kExitPeerLost, "", ended);
    const Plan waits = plan(observed);
    EXPECT_EQ(waits.status.attempt, 1);
    EXPECT_EQ(waits.requeue_after, observed.config.culprit_wait);
  }
}

// The worker's container as the API shows it, which a silent machine no longer updates.
void show_ready_container(objects::Pod& pod) {
  objects::ContainerStatus status;
  status.name = contract::kWorkerContainer;
  status.ready = true;
  status.state.running.emplace();
  pod.status.container_statuses = {status};
}

// Node 1's machine has died, and node 0 has noticed.
Observed with_dead_machine() {
  Observed observed = running(2);
  show_ready_container(observed.pods[1]);
  end_container(observed.pods[0], contract::kExitPeerLost);
  return observed;
}

TEST(FailurePolicy, DoesNotChargeASilentMachine) {
  Observed observed = with_dead_machine();
  const Plan waits = plan(observed);
  EXPECT_EQ(waits.status.attempt, 1);
  Observed later = next(observed, waits, 45);
  add_condition(later.pods[1], "Ready", false);
  const Plan decided = plan(later);
  EXPECT_EQ(decided.status.attempt, 2);
  EXPECT_EQ(decided.status.restarts, 0);
  EXPECT_EQ(decided.status.last_failure->reason, reason::kNodeLost);
  EXPECT_EQ(decided.status.last_failure->node, 1);
}

TEST(FailurePolicy, ChargesAMachineThatAnswers) {
  Observed observed = with_dead_machine();
  add_condition(observed.pods[1], "Ready", false, "ContainersNotReady");
  Observed later = next(observed, plan(observed), 90);
  const Plan decided = plan(later);
  EXPECT_EQ(decided.status.restarts, 1);
  EXPECT_EQ(decided.status.last_failure->reason, reason::kPeerLost);
}

TEST(FailurePolicy, DoesNotChargeAnEvictionThatCannotEnd) {
  Observed observed = with_dead_machine();
  Observed later = next(observed, plan(observed), 75);
  add_condition(
      later.pods[1],
      "DisruptionTarget",
      true,
      "DeletionByTaintManager",
      "the machine is unreachable"
  );
  mark_deleted(later.pods[1], later.now + seconds(120));
  const Plan waits = plan(later);
  EXPECT_EQ(waits.status.attempt, 1) << "it may still end and say more";
  const Plan decided = plan(next(later, waits, 15));
  EXPECT_EQ(decided.status.attempt, 2);
  EXPECT_EQ(decided.status.restarts, 0);
  EXPECT_EQ(decided.status.last_failure->reason, reason::kDisrupted);
  EXPECT_EQ(decided.status.last_failure->message, "the machine is unreachable");
}

TEST(FailurePolicy, DoesNotChargeADeletionThatCannotEnd) {
  Observed observed = with_dead_machine();
  mark_deleted(observed.pods[1], observed.now + seconds(120));
  const Plan decided = plan(next(observed, plan(observed), 90));
  EXPECT_EQ(decided.status.restarts, 0);
  EXPECT_EQ(decided.status.last_failure->reason, reason::kPodDeleted);
}

TEST(FailurePolicy, ASilentMachineAloneIsNoFailure) {
  Observed observed = running(2);
  show_ready_container(observed.pods[1]);
  add_condition(observed.pods[1], "Ready", false);
  const Plan result = plan(observed);
  EXPECT_EQ(result.status.attempt, 1);
  EXPECT_EQ(result.status.state, "Running");
}

TEST(FailurePolicy, ChargesAGangThatOnlyReportsLostPeers) {
  Observed observed = running(2);
  end_container(observed.pods[0], contract::kExitPeerLost);
  end_container(observed.pods[1], contract::kExitPeerLost);
  const Plan result = plan(observed);
  EXPECT_EQ(result.status.restarts, 1);
  EXPECT_EQ(result.status.last_failure->reason, reason::kPeerLost);
}

TEST(FailurePolicy, NamesTheFirstFailure) {
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

TEST(FailurePolicy, SaysEachThingOnce) {
  Observed observed = running();
  const auto fail_with = [&](int64_t code, const std::string& rest) {
    end_container(observed.pods[0], code, result_message(observed.job, 1, 0, rest));
    return plan(observed);
  };
  const Plan data = fail_with(
      65, R"(, "rank": 0, "message": "/data/nothing: expected the folder raw of an OGB data set")"
  );
  EXPECT_EQ(
      message_of(data, condition::kFailed),
      "Attempt 1, node 0, rank 0: /data/nothing: expected the folder raw of an OGB data set"
  );
  EXPECT_FALSE(data.status.last_failure->stderr_tail);

  const Plan killed = fail_with(
      70, R"(, "rank": 3, "message": "rank 3 was killed by signal 9", "stderrTail": "last words")"
  );
  EXPECT_EQ(
      message_of(killed, condition::kRestarting), "Attempt 1, node 0: rank 3 was killed by signal 9"
  );
  EXPECT_EQ(killed.status.last_failure->stderr_tail, "last words");

  end_container(observed.pods[0], 70);
  EXPECT_EQ(
      message_of(plan(observed), condition::kRestarting), "Attempt 1, node 0: exit code 70 (Error)"
  );
}

TEST(FailurePolicy, RemembersTheLastTenFailures) {
  Observed observed = running();
  observed.job.spec.run_policy.max_restarts = 100;
  for (int64_t i = 0; i < 12; ++i) {
    if (i == 11) {
      observed.pods[0].spec.node_name = "broken";
      observed.pods[0].status.phase = "Failed";
    } else {
      end_container(observed.pods[1], 70, result_message(observed.job, i + 1, 1, R"(, "rank": 5)"));
    }
    observed = restarted(observed, plan(observed));
  }
  const std::vector<api::FailureRecord>& failures = observed.job.status.failures;
  ASSERT_EQ(failures.size(), 10U);
  EXPECT_EQ(failures[0].attempt, 3);
  EXPECT_EQ(failures[0].node, 1);
  EXPECT_EQ(failures[0].machine, "machine");
  EXPECT_EQ(failures[0].rank, 5);
  EXPECT_EQ(failures[0].exit_code, 70);
  EXPECT_EQ(failures[0].reason, reason::kError);
  EXPECT_TRUE(failures[0].charged);
  EXPECT_LT(failures[0].time, failures[1].time);
  EXPECT_EQ(failures[9].attempt, 12);
  EXPECT_EQ(failures[9].machine, "broken");
  EXPECT_EQ(failures[9].reason, reason::kDisrupted);
  EXPECT_FALSE(failures[9].exit_code);
  EXPECT_FALSE(failures[9].charged);
}

TEST(FailurePolicy, OutOfMemoryTwiceFailsTheJob) {
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

TEST(FailurePolicy, MaxRestartsCountsAttemptsAndRounds) {
  Observed observed = running();
  observed.job.spec.run_policy.max_restarts = 2;
  observed.progress = api::decode_report(result_message(observed.job, 1, 0, R"(, "round": 1)"));
  const Plan round = plan(observed);
  EXPECT_EQ(round.status.restarts, 1);
  EXPECT_EQ(round.status.round, 1);
  EXPECT_EQ(round.status.attempt, 1);
  EXPECT_EQ(event_reasons(round), std::vector<std::string>{"RestartedInPlace"});
  // Reported twice, counted once.
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

TEST(FailurePolicy, LimitsTheRoundsAWorkerMayReport) {
  Observed observed = running();
  observed.progress =
      api::decode_report(result_message(observed.job, 1, 0, R"(, "round": 1000000)"));
  EXPECT_EQ(plan(observed).status.restarts, observed.job.spec.run_policy.max_restarts);
}

TEST(FailurePolicy, IgnoresReportsOfOtherJobsAndAttempts) {
  Observed observed = running();
  api::GnnJob other = observed.job;
  other.metadata.uid = "somebody";
  observed.progress =
      api::decode_report(result_message(other, 1, 0, R"(, "round": 1, "epoch": 9)"));
  EXPECT_EQ(plan(observed).status, observed.job.status);
  observed.progress =
      api::decode_report(result_message(observed.job, 2, 0, R"(, "round": 1, "epoch": 9)"));
  EXPECT_EQ(plan(observed).status, observed.job.status);
}

TEST(FailurePolicy, WithoutRestartsTheFirstFailureFailsTheJob) {
  Observed observed = running();
  observed.job.spec.run_policy.max_restarts = 0;
  end_container(observed.pods[0], 1, "boom");
  const Plan result = plan(observed);
  EXPECT_EQ(reason_of(result, condition::kFailed), reason::kMaxRestartsExceeded);
  EXPECT_NE(result.status.message.find("boom"), std::string::npos);
}

void run_out_of_memory(Observed& observed) {
  end_container(observed.pods[0], 137, "", observed.now).reason = "OOMKilled";
}

TEST(FailurePolicy, OutOfMemoryAgainAfterAHealthyStretchIsLikeTheFirstTime) {
  Observed observed = running();
  run_out_of_memory(observed);
  Observed again = restarted(observed, plan(observed));
  run_out_of_memory(again);
  EXPECT_EQ(reason_of(plan(again), condition::kFailed), reason::kOutOfMemory);
  // On another machine it is the same work and the same limit.
  again.pods[0].spec.node_name = "another-machine";
  EXPECT_EQ(reason_of(plan(again), condition::kFailed), reason::kOutOfMemory);
  again.now += std::chrono::seconds(600);
  const Plan later = plan(again);
  EXPECT_FALSE(is_true(later.status, condition::kFailed));
  EXPECT_EQ(later.status.restarts, 2) << "but charged";
  EXPECT_EQ(later.status.out_of_memory, 1);
}

TEST(FailurePolicy, ASuspensionForgetsThatMemoryRanOut) {
  Observed observed = running();
  run_out_of_memory(observed);
  Observed suspended = next(observed, plan(observed));
  suspended.pods.clear();
  suspended.job.spec.suspend = true;
  EXPECT_EQ(plan(suspended).status.out_of_memory, 0);
}

}  // namespace
}  // namespace gnn::reconcile
