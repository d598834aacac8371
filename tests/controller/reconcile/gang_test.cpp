#include "controller/reconcile/gang.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <string>

namespace gnn::reconcile {
namespace {

TEST(Gang, ReadsDisruptionsFromThePod) {
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

TEST(Gang, APodThatItsKubeletRefusedIsDisruptedWhateverTheReason) {
  for (const char* reason :
       {"TopologyAffinityError", "UnexpectedAdmissionError", "", "AnyNewOne"}) {
    Observed observed = running();
    observed.pods[0].status.phase = "Failed";
    observed.pods[0].status.reason = reason;
    const Plan result = plan(observed);
    EXPECT_EQ(result.status.restarts, 0) << reason;
    EXPECT_EQ(result.status.last_failure->reason, reason::kDisrupted) << reason;
  }
}

TEST(Gang, AContainerThatItsRestartedMachineNoLongerKnowsIsDisrupted) {
  Observed observed = running();
  end_container(observed.pods[0], 137).reason = "ContainerStatusUnknown";
  const Plan result = plan(observed);
  EXPECT_EQ(result.status.restarts, 0);
  EXPECT_EQ(result.status.last_failure->reason, reason::kDisrupted);
}

TEST(Gang, OomKilledOverridesTheExitCode) {
  Observed observed = running();
  end_container(observed.pods[0], 0).reason = "OOMKilled";
  observed.pods[0].status.phase = "Failed";
  EXPECT_EQ(plan(observed).status.last_failure->reason, reason::kOutOfMemory);
}

TEST(Gang, CountsAPodHeldOnlyByOurFinalizerAsDeleted) {
  Observed observed = running();
  mark_deleted(observed.pods[1], at(30), 0);
  EXPECT_EQ(plan(observed).status.attempt, 2);
}

TEST(Gang, CountsAPodThatOutlivesItsGracePeriodAsLost) {
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

TEST(Gang, SurvivesHostileTerminationMessages) {
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

}  // namespace
}  // namespace gnn::reconcile
