#include "controller/reconcile/plan.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace gnn::reconcile {
namespace {

TEST(Plan, LeavesARunningJobAlone) {
  const Observed observed = running();
  const Plan result = plan(observed);
  EXPECT_TRUE(result.actions.empty());
  EXPECT_TRUE(result.events.empty());
  EXPECT_EQ(result.status, observed.job.status);
  EXPECT_EQ(result.status.state, "Running");
  EXPECT_EQ(result.status.nodes.summary, "2/2");
}

TEST(Plan, IgnoresJobsThatAnotherControllerManages) {
  Observed observed;
  observed.job = small_job();
  observed.job.spec.managed_by = "kueue.x-k8s.io/multikueue";
  const Plan foreign = plan(observed);
  EXPECT_TRUE(foreign.actions.empty());
  EXPECT_EQ(foreign.status, api::GnnJobStatus{});
  observed.job.spec.managed_by = "gnn.dev/gnn-controller";
  EXPECT_FALSE(plan(observed).actions.empty());
}

// An older CRD took it. No server ever takes its pods, so that none is tried.
TEST(Plan, AJobWhosePodsCanNeverBeIsNotAccepted) {
  Observed observed;
  observed.job = small_job();
  observed.job.spec.workers.pod_template->resources = {
      .requests = {{"memory", "4Gi"}}, .limits = {{"memory", "4G"}}
  };
  const Plan result = plan(observed);
  EXPECT_EQ(reason_of(result, condition::kAccepted), reason::kInvalidSpec);
  EXPECT_EQ(result.status.state, "Invalid");
  EXPECT_TRUE(result.actions.empty());
}

TEST(Plan, ReportsAnInvalidSpecAndDoesNotRunIt) {
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
  observed.job = small_job();
  observed.job.spec.workers.pod_template->metadata = {.labels = {{"team", "graphs"}}};
  EXPECT_EQ(plan(observed).status.state, "Invalid") << "no administrator has allowed this label";
  observed.config.allowed_keys = *api::AllowedKeys::parse("team");
  EXPECT_FALSE(plan(observed).actions.empty());
}

TEST(Plan, AnUnknownWordIsNamedAndNothingIsCreated) {
  Observed observed;
  observed.job = small_job();
  observed.job.unknown_words = {
      {.path = "spec.model.type", .word = R"("GAT")"},
      {.path = "spec.training.sharding", .word = R"("Ring")"},
  };
  observed.job.spec.model.graph_sage.reset();
  const Plan result = plan(observed);
  EXPECT_TRUE(result.actions.empty());
  EXPECT_EQ(result.status.state, "Invalid");
  EXPECT_EQ(reason_of(result, condition::kAccepted), reason::kUnknownValue);
  EXPECT_EQ(
      result.status.message,
      R"(spec.model.type: this version of the controller does not know "GAT"; )"
      R"(spec.training.sharding: this version of the controller does not know "Ring"; )"
      "no pod is created before the controller is upgraded"
  );

  // The upgrade.
  Observed later = next(observed, result);
  later.job = small_job();
  later.job.status = result.status;
  const Plan started = plan(later);
  EXPECT_TRUE(is_true(started.status, condition::kAccepted));
  EXPECT_EQ(count_of<CreatePod>(started), 2);
}

Observed running_with_unknown_word() {
  Observed observed = running();
  observed.job.unknown_words = {{.path = "spec.model.type", .word = R"("GAT")"}};
  return observed;
}

TEST(Plan, AnUnknownWordStopsNeitherARunningGangNorItsEnd) {
  const Observed observed = running_with_unknown_word();
  const Plan result = plan(observed);
  EXPECT_TRUE(result.actions.empty());
  EXPECT_TRUE(is_true(result.status, condition::kRunning));
  EXPECT_EQ(result.status.attempt, 1);

  Observed succeeded = running_with_unknown_word();
  for (objects::Pod& pod : succeeded.pods) end_container(pod, 0);
  EXPECT_TRUE(is_true(plan(succeeded).status, condition::kComplete));

  Observed suspended = running_with_unknown_word();
  suspended.job.spec.suspend = true;
  EXPECT_EQ(count_of<DeletePod>(plan(next(suspended, plan(suspended)))), 2);

  Observed deleted = running_with_unknown_word();
  deleted.job.metadata.deletion_timestamp = at(30);
  EXPECT_EQ(count_of<DeletePod>(plan(deleted)), 2);
}

TEST(Plan, AnUnknownWordHoldsTheNextAttemptUntilItIsKnown) {
  Observed observed = running_with_unknown_word();
  end_container(observed.pods[0], 1);
  const Plan failed = plan(observed);
  EXPECT_EQ(failed.status.attempt, 2);
  Observed held = next(observed, failed);
  EXPECT_EQ(count_of<DeletePod>(plan(held)), 2);
  held.pods.clear();
  const Plan waiting = plan(held);
  EXPECT_TRUE(waiting.actions.empty());
  EXPECT_EQ(waiting.status.state, "Invalid");
  held = next(held, waiting);
  held.job.unknown_words.clear();
  EXPECT_EQ(count_of<CreatePod>(plan(held)), 2);
}

// A controller with stricter rules than the one that started the gang.
Observed running_but_invalid() {
  Observed observed = running();
  observed.job.spec.sampling->fanout = {1};
  return observed;
}

TEST(Plan, AGangWhoseSpecBecameInvalidRunsOn) {
  const Observed observed = running_but_invalid();
  const Plan result = plan(observed);
  EXPECT_TRUE(result.actions.empty());
  EXPECT_EQ(reason_of(result, condition::kAccepted), reason::kInvalidSpec);
  EXPECT_TRUE(is_true(result.status, condition::kRunning));
  EXPECT_EQ(result.status.state, "Running") << "it trains";
  EXPECT_FALSE(is_true(result.status, condition::kStalled));
}

TEST(Plan, AnInvalidSpecHoldsUpNeitherSuccessNorSuspensionNorTheDeadline) {
  Observed succeeded = running_but_invalid();
  for (objects::Pod& pod : succeeded.pods) end_container(pod, 0);
  EXPECT_TRUE(is_true(plan(succeeded).status, condition::kComplete));

  Observed suspended = running_but_invalid();
  suspended.job.spec.suspend = true;
  EXPECT_EQ(count_of<DeletePod>(plan(next(suspended, plan(suspended)))), 2);

  Observed late = running_but_invalid();
  late.job.spec.run_policy.active_deadline_seconds = 10;
  late.now += std::chrono::seconds(20);
  EXPECT_EQ(reason_of(plan(late), condition::kFailed), reason::kDeadlineExceeded);
}

TEST(Plan, AnInvalidSpecStartsNoFurtherAttempt) {
  Observed observed = running_but_invalid();
  end_container(observed.pods[0], 1);
  const Plan failed = plan(observed);
  EXPECT_EQ(failed.status.attempt, 2);
  Observed later = next(observed, failed);
  EXPECT_EQ(count_of<DeletePod>(plan(later)), 2);
  later.pods.clear();
  EXPECT_TRUE(plan(later).actions.empty());
}

TEST(Plan, AStaleJobDoesNothingToALaterAttempt) {
  Observed observed = running();
  for (objects::Pod& pod : observed.pods) {
    pod = pod_of(observed.job, &pod - observed.pods.data(), 2);
    make_ready(pod);
  }
  const Observed gang = observed;
  Observed suspended = observed;
  suspended.job.spec.suspend = true;
  Observed unknown = observed;
  unknown.job.status = {};
  for (const Observed& each : {gang, suspended, unknown}) {
    const Plan result = plan(each);
    EXPECT_TRUE(result.actions.empty());
    EXPECT_EQ(result.status, each.job.status);
    ASSERT_TRUE(result.requeue_after);
    EXPECT_LE(*result.requeue_after, std::chrono::seconds(10));
  }
}

TEST(Plan, NamesThePodsThatItMisses) {
  Observed observed = running(3);
  EXPECT_TRUE(vanished_pods(observed).empty());
  observed.pods.erase(observed.pods.begin() + 1);
  EXPECT_EQ(vanished_pods(observed), std::vector<std::string>{"arxiv-1-1"});
  observed.job.spec.suspend = true;
  EXPECT_TRUE(vanished_pods(observed).empty()) << "it is on its way out";
  Observed fresh;
  fresh.job = small_job();
  EXPECT_TRUE(vanished_pods(fresh).empty()) << "not created yet";
}

TEST(Plan, AcceptsJobsThatWasteGpusOrReachNoTrackerWithAWarning) {
  Observed observed;
  observed.job = small_job();
  observed.job.spec.workers.gpus_per_process = 1;
  observed.job.spec.training.device = api::DeviceChoice::CPU;
  EXPECT_EQ(reason_of(plan(observed), condition::kAccepted), reason::kIdleGpus);

  Observed tracked;
  tracked.job = small_job();
  tracked.job.spec.tracking.emplace().mlflow = {.uri = "https://a", .experiment = "b"};
  const auto message = [&] { return message_of(plan(tracked), condition::kAccepted); };
  EXPECT_EQ(message(), "The spec is valid") << "egress is not restricted";
  tracked.config.fence.egress.emplace();
  EXPECT_NE(message().find("tracking.mlflow.uri"), std::string::npos) << message();
  tracked.config.fence.egress->emplace_back();
  EXPECT_EQ(message(), "The spec is valid") << "some rule may be the tracker's";
  tracked.config.fence.egress->clear();
  tracked.config.network_policy = false;
  EXPECT_EQ(message(), "The spec is valid");
}

TEST(Plan, ReleasesOrphans) {
  std::vector<objects::Pod> pods = {pod_of(small_job(), 0), pod_of(small_job(), 1)};
  pods[1].metadata.finalizers = {"other/finalizer"};
  const std::vector<Action> actions = release_orphans(pods);
  ASSERT_EQ(actions.size(), 1U);
  EXPECT_EQ(std::get<ReleasePod>(actions[0]).name, "arxiv-1-0");
}

TEST(Plan, ReleasesAPodThatChangedItsOwner) {
  Observed observed = running();
  observed.pods.push_back(pod_of(observed.job, 0, 7));
  observed.pods.back().metadata.owner_references.clear();
  EXPECT_EQ(count_of<ReleasePod>(plan(observed)), 1);
}

TEST(Plan, AsksNodeZeroForProgressWhileItRuns) {
  Observed observed = running();
  objects::Pod& pod = observed.pods[0];
  EXPECT_EQ(pod.metadata.name, progress_pod(observed.job));
  EXPECT_EQ(progress_address(observed.job, pod), "127.64.0.1");
  EXPECT_FALSE(progress_address(observed.job, observed.pods[1]));
  pod.status.phase = "Pending";
  EXPECT_FALSE(progress_address(observed.job, pod));
  pod.status.phase = "Running";
  pod.metadata.owner_references.clear();
  EXPECT_FALSE(progress_address(observed.job, pod));
}

// A pod that anybody may make: it names the job as its controller.
objects::Pod impostor(const api::GnnJob& job, const std::string& name) {
  objects::Pod pod = pod_of(job, 0);
  pod.metadata.name = name;
  pod.metadata.uid = "uid-of-" + name;
  pod.metadata.finalizers.clear();
  return pod;
}

// What a read of the job makes of the pods that are ahead of it.
Observed after_read(Observed observed) {
  for (const std::string& uid : pods_ahead(observed)) observed.impostors.insert(uid);
  return observed;
}

TEST(Plan, APodThatOnlyClaimsToBeTheJobsHoldsNothingUp) {
  for (const bool served : {false, true}) {
    Observed ran = running();
    if (served) {
      ran.job = job_with_servers();
      for (int64_t server = 0; server < 2; ++server) {
        objects::Pod pod = desired_server_pod(ran.job, {.server = server});
        pod.metadata.uid = "uid-of-" + pod.metadata.name;
        pod.metadata.creation_timestamp = at(0);
        ran.pods.push_back(make_ready(pod));
      }
      ran.job.status = plan(ran).status;
    }
    for (const char* name :
         {"arxiv-999-0",
          "arxiv-1-0-r7",
          "arxiv-1-1-r1",
          "arxiv-1-7",
          "arxiv-prepare-1",
          "arxiv-prepare-9",
          "arxiv-s0-99",
          "arxiv-s99999-0",
          "arxiv",
          "arxiv-gnn",
          "something"}) {
      for (const char* finalizer : {"", "somebody.else/keeps", "gnn.dev/result"}) {
        SCOPED_TRACE(std::string(name) + " " + finalizer);
        Observed observed = ran;
        observed.pods.push_back(impostor(observed.job, name));
        objects::Pod& pod = observed.pods.back();
        make_ready(pod);
        end_container(pod, 0);  // and to have done all work
        if (*finalizer != '\0') pod.metadata.finalizers = {finalizer};
        observed = after_read(observed);

        const Plan calm = plan(observed);
        EXPECT_EQ(calm.status.state, "Running");
        const auto removed = actions_of<DeletePod>(calm);
        ASSERT_EQ(removed.size(), 1U);
        EXPECT_EQ(removed[0].name, name);
        // It stays for as long as its finalizer does. What is asked of the job is done meanwhile.
        observed = next(observed, calm);
        mark_deleted(observed.pods.back(), observed.now, 0);
        std::erase(observed.pods.back().metadata.finalizers, std::string(contract::kPodFinalizer));
        EXPECT_TRUE(plan(observed).actions.empty());
        Observed long_after = observed;
        long_after.now += std::chrono::hours(1);
        EXPECT_TRUE(plan(long_after).actions.empty()) << "it is not deleted again and again";

        Observed failed = observed;
        end_container(failed.pods[1], 1);
        Plan restarts = plan(failed);
        EXPECT_EQ(restarts.status.attempt, 2);
        failed = next(failed, restarts);
        failed.pods.erase(failed.pods.begin(), failed.pods.begin() + 2);
        EXPECT_EQ(count_of<CreatePod>(plan(failed)), 2);

        Observed late = observed;
        late.job.spec.run_policy.active_deadline_seconds = 10;
        late.now += std::chrono::seconds(20);
        EXPECT_EQ(reason_of(plan(late), condition::kFailed), reason::kDeadlineExceeded);

        Observed suspended = observed;
        suspended.job.spec.suspend = true;
        for (int pass = 0; pass < 6; ++pass) {
          suspended = next(suspended, plan(suspended));
          const std::string kept = observed.pods.back().metadata.name;
          std::erase_if(suspended.pods, [&](const objects::Pod& each) {
            return pass >= 1 && each.metadata.name != kept;
          });
        }
        EXPECT_EQ(suspended.job.status.state, "Suspended");
      }
    }
  }
}

TEST(Plan, APodThatOnlyClaimsToBeTheJobsAndHoldsANameThatItNeedsIsNamed) {
  Observed observed = running();
  observed.pods.push_back(impostor(observed.job, "arxiv-2-0"));
  // Its finalizer keeps it beyond its deletion, until the job needs its name.
  observed.pods.back().metadata.finalizers = {"somebody.else/keeps"};
  mark_deleted(observed.pods.back(), at(0), 0);
  observed = after_read(observed);
  ASSERT_EQ(observed.impostors.size(), 1U);
  end_container(observed.pods[1], 1);
  observed = next(observed, plan(observed));
  ASSERT_EQ(observed.job.status.attempt, 2);
  observed.pods.erase(observed.pods.begin(), observed.pods.begin() + 2);
  const Plan waits = plan(observed);
  EXPECT_EQ(reason_of(waits, condition::kScheduled), reason::kNameTaken);
  EXPECT_NE(message_of(waits, condition::kScheduled).find("arxiv-2-0"), std::string::npos);
  EXPECT_EQ(count_of<CreatePod>(waits), 0);
  observed = next(observed, waits, 60);
  observed.pods.clear();
  EXPECT_EQ(count_of<CreatePod>(plan(observed)), 2);
}

TEST(Plan, AJobSaysThatItsNamespaceHasItsShareOfTheWorkers) {
  Observed observed = running();
  observed.waits_for_workers = true;
  const Plan told = plan(observed);
  EXPECT_TRUE(is_true(told.status, condition::kAccepted));
  EXPECT_NE(
      message_of(told, condition::kAccepted).find("share of the operator's workers"),
      std::string::npos
  );
  EXPECT_TRUE(told.actions.empty());
  observed = next(observed, told);
  EXPECT_EQ(plan(observed).status, observed.job.status) << "once";
  observed.waits_for_workers = false;
  observed.status_written.reset();
  EXPECT_EQ(message_of(plan(observed), condition::kAccepted), "The spec is valid");
}

TEST(Plan, APodThatClaimsToBeTheJobsIsToldOnce) {
  Observed observed = running();
  observed.pods.push_back(impostor(observed.job, "something"));
  const Plan removes = plan(observed);
  ASSERT_EQ(event_reasons(removes), std::vector<std::string>{"ForeignPod"});
  EXPECT_NE(removes.events[0].message.find("something"), std::string::npos);
  observed = next(observed, removes);
  mark_deleted(observed.pods.back(), at(500));
  EXPECT_TRUE(plan(observed).events.empty());
}

}  // namespace
}  // namespace gnn::reconcile
