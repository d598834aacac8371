#include "controller/reconcile/gang.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
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

objects::ContainerStatus status_of(const std::string& name) {
  objects::ContainerStatus status;
  status.name = name;
  return status;
}

// The kubelet leaves the worker as it was: waiting for the init containers.
void fail_init_container(objects::Pod& pod, int64_t code, const std::string& message) {
  schedule(pod);
  add_condition(pod, "Ready", false);
  pod.status.phase = "Failed";
  objects::ContainerStatus done = status_of("first");
  done.state.terminated.emplace();
  objects::ContainerStatus failed = status_of("vault-agent-init");
  failed.state.terminated.emplace();
  failed.state.terminated->exit_code = code;
  failed.state.terminated->reason = "Error";
  failed.state.terminated->message = message;
  pod.status.init_container_statuses = {done, failed};
  objects::ContainerStatus worker = status_of(std::string(contract::kWorkerContainer));
  worker.state.waiting = {.reason = "PodInitializing", .message = ""};
  pod.status.container_statuses = {worker};
}

TEST(Gang, AnInitContainerThatFailsIsChargedAndNamed) {
  Observed observed = running();
  fail_init_container(observed.pods[0], 42, "no role");
  const Plan result = plan(observed);
  EXPECT_EQ(result.status.restarts, 1);
  EXPECT_EQ(result.status.last_failure->reason, reason::kNotStarted);
  EXPECT_EQ(
      result.status.last_failure->message, "init container vault-agent-init: exit code 42: no role"
  );
  EXPECT_EQ(result.status.last_failure->exit_code, std::nullopt) << "that is the worker's";
  // 64 is a word of the worker's contract alone.
  fail_init_container(observed.pods[0], contract::kExitConfiguration, "");
  EXPECT_FALSE(is_true(plan(observed).status, condition::kFailed));
}

TEST(Gang, AnInitContainerThatEndsAfterTheWorkerOrWithADrainIsNotTheCause) {
  Observed sidecar = running();
  end_container(sidecar.pods[0], contract::kExitPreempted);
  objects::ContainerStatus proxy = status_of("proxy");
  proxy.state.terminated.emplace();
  proxy.state.terminated->exit_code = 137;
  sidecar.pods[0].status.init_container_statuses = {proxy};
  end_container(sidecar.pods[1], contract::kExitPreempted);
  EXPECT_EQ(plan(sidecar).status.last_failure->reason, reason::kPreempted);

  Observed drained = running();
  fail_init_container(drained.pods[0], 143, "");
  add_condition(drained.pods[0], "DisruptionTarget", true, "EvictionByEvictionAPI", "drained");
  EXPECT_EQ(plan(drained).status.restarts, 0);
  EXPECT_EQ(plan(drained).status.last_failure->reason, reason::kDisrupted);

  Observed stopped = running();
  fail_init_container(stopped.pods[0], 143, "");
  mark_deleted(stopped.pods[0], at(100));
  EXPECT_EQ(plan(stopped).status.last_failure->reason, reason::kPodDeleted);
}

const std::string kOverLimit = R"(Usage of EmptyDir volume "scratch" exceeds the limit "1Mi". )";

// The kubelet evicts the pod, and the worker has had the time to say what it knows.
void exceed_storage(Observed& observed, size_t node) {
  const std::string said = result_message(
      observed.job,
      observed.job.status.attempt,
      static_cast<int64_t>(node),
      R"(, "message": "asked to stop")"
  );
  end_container(observed.pods[node], contract::kExitPreempted, said);
  observed.pods[node].status.reason = "Evicted";
  observed.pods[node].status.message = kOverLimit;
}

TEST(Gang, APodOverItsOwnStorageLimitIsChargedAndTheSecondTimeFinal) {
  Observed observed = running();
  exceed_storage(observed, 0);
  const Plan first = plan(observed);
  EXPECT_EQ(first.status.restarts, 1);
  EXPECT_EQ(first.status.storage_exceeded, 1);
  EXPECT_EQ(first.status.last_failure->reason, reason::kStorageExceeded);
  EXPECT_NE(first.status.last_failure->message.find("exceeds the limit"), std::string::npos);
  Observed again = restarted(observed, first);
  exceed_storage(again, 1);
  const Plan second = plan(again);
  EXPECT_EQ(reason_of(second, condition::kFailed), reason::kStorageExceeded);
  again.now += std::chrono::seconds(600);
  EXPECT_FALSE(is_true(plan(again).status, condition::kFailed)) << "it went well for a while";
}

TEST(Gang, AnEvictionForWantOfTheMachinesResourcesIsFree) {
  Observed observed = running();
  exceed_storage(observed, 0);
  observed.pods[0].status.message = "The node was low on resource: memory.";
  add_condition(observed.pods[0], "DisruptionTarget", true, "TerminationByKubelet", "");
  EXPECT_EQ(plan(observed).status.restarts, 0);
  EXPECT_EQ(plan(observed).status.last_failure->reason, reason::kDisrupted);
  // A pod that is not let in has no containers.
  Observed refused = running();
  refused.pods[0].status.phase = "Failed";
  refused.pods[0].status.reason = "Evicted";
  refused.pods[0].status.message = "Pod was rejected: The node had condition: [DiskPressure].";
  EXPECT_EQ(plan(refused).status.last_failure->reason, reason::kDisrupted);
}

TEST(Gang, APodThatTheKernelEndedAsAWholeTellsTheLimitThatItHad) {
  const auto said = [](const std::string& of_pod, const std::string& of_job) {
    Observed observed = running();
    observed.pods[0].spec.memory_limit = of_pod;
    auto& limits = observed.job.spec.workers.pod_template->resources.limits;
    limits.erase("memory");
    if (!of_job.empty()) limits["memory"] = of_job;
    end_container(observed.pods[0], 137).reason = "OOMKilled";
    return plan(observed).status.last_failure->message;
  };
  EXPECT_EQ(said("96Mi", ""), "OOMKilled, memory limit 96Mi (of the pod)");
  EXPECT_EQ(said("512Mi", "0.5Gi"), "OOMKilled, memory limit 512Mi");
  EXPECT_EQ(said("", ""), "OOMKilled, no memory limit: the machine had no more");
}

TEST(Gang, APodThatTheKernelEndedAsAWholeTellsTheRankThatItsAgentHasNoted) {
  Observed observed = running();
  const std::string noted = result_message(
      observed.job,
      observed.job.status.attempt,
      0,
      R"(, "rank": 1, "message": "rank 1 held 400 MiB, and the memory limit is 512 MiB")"
  );
  end_container(observed.pods[0], 137, noted).reason = "OOMKilled";
  const auto failure = plan(observed).status.last_failure;
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->reason, "OutOfMemory");
  EXPECT_EQ(failure->rank, 1);
  EXPECT_EQ(failure->message, "rank 1 held 400 MiB, and the memory limit is 512 MiB");
}

}  // namespace
}  // namespace gnn::reconcile
