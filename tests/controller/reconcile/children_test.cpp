#include "controller/reconcile/children.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace gnn::reconcile {
namespace {

TEST(Children, StartTheWholeGangInOnePass) {
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
  // The Service exists before the first pod looks for its peers.
  EXPECT_TRUE(std::holds_alternative<CreateService>(first.actions.front()));
  EXPECT_EQ(first.status.attempt, 1);
  EXPECT_EQ(first.status.state, "Pending");
  EXPECT_EQ(first.status.observed_generation, 1);
  EXPECT_EQ(first.status.start_time, at(1));
  // The status assumes that the creates succeed, so it must not be written if one is refused.
  EXPECT_EQ(reason_of(first, condition::kScheduled), reason::kPlacing);
  EXPECT_TRUE(first.status_needs_success);
}

TEST(Children, RunAsTheClusterSaysIfTheOperatorDoes) {
  std::set<std::string> roles;
  for (const api::GnnJob& job : {job_with_servers(), job_with_prepare()}) {
    Observed observed;
    observed.job = job;
    observed.config.pod_user = PodUser::OfCluster;
    observed.now = at(1);
    for (const CreatePod& each : actions_of<CreatePod>(plan(observed))) {
      EXPECT_EQ(each.pod.spec.security.run_as_user, std::nullopt) << each.pod.metadata.name;
      EXPECT_EQ(each.pod.spec.security.fs_group, std::nullopt) << each.pod.metadata.name;
      roles.insert(each.pod.metadata.labels.at(std::string(contract::kLabelAppComponent)));
    }
  }
  EXPECT_EQ(roles, (std::set<std::string>{"prepare", "server", "worker"}));
}

TEST(Children, CreateOnlyWhatIsMissing) {
  Observed observed = running(3);
  observed.job.status = {};
  observed.pods.erase(observed.pods.begin() + 1);
  const Plan result = plan(observed);
  ASSERT_EQ(count_of<CreatePod>(result), 1);
  EXPECT_EQ(actions_of<CreatePod>(result)[0].pod.metadata.name, "arxiv-1-1");
  EXPECT_EQ(count_of<CreateService>(result), 0);
}

TEST(Children, LeaveOutTheNetworkPolicyIfDisabled) {
  Observed observed;
  observed.job = small_job();
  observed.config.network_policy = false;
  EXPECT_EQ(count_of<CreateNetworkPolicy>(plan(observed)), 0);
}

TEST(Children, AreRepairedWhenChangedOrDeleted) {
  Observed observed = running();
  observed.service->spec.publish_not_ready_addresses = false;
  observed.service->metadata.uid = "service-uid";
  observed.network_policy->spec.ingress.clear();
  observed.config_map.reset();
  const Plan result = plan(observed);
  EXPECT_EQ(count_of<UpdateService>(result), 1);
  EXPECT_EQ(count_of<UpdateNetworkPolicy>(result), 1);
  EXPECT_EQ(actions_of<UpdateService>(result).at(0).service.metadata.uid, "service-uid");
  EXPECT_EQ(count_of<CreateConfigMap>(result), 1);
  EXPECT_EQ(result.status.state, "Running");
}

TEST(Children, ReportRefusalsAndPaceRetries) {
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
  // Written only if the retry succeeds; until then the refusal stays in the status.
  EXPECT_EQ(reason_of(again, condition::kScheduled), reason::kPlacing);
  EXPECT_TRUE(again.status_needs_success);
}

TEST(Children, BackOffWhatTheApiServerRefusesAgain) {
  Observed observed = running(2);
  observed.job.status = {};
  observed.pods.clear();
  observed.refusals = {{.object = "pod arxiv-1-0", .message = "no", .time = observed.now}};
  const auto wait = [&](ApiRefusal::Kind kind, int64_t refused_in_a_row) {
    observed.refusals[0].kind = kind;
    observed.refused_in_a_row = refused_in_a_row;
    return plan(observed).requeue_after;
  };
  using std::chrono::seconds;
  for (const auto kind : {ApiRefusal::Kind::Invalid, ApiRefusal::Kind::Forbidden}) {
    EXPECT_EQ(wait(kind, 1), Duration(seconds(10)));
    EXPECT_EQ(wait(kind, 2), Duration(seconds(20)));
    EXPECT_EQ(wait(kind, 1000), Duration(seconds(360)));
  }
  EXPECT_EQ(wait(ApiRefusal::Kind::Quota, 1000), Duration(seconds(10)));
}

// What refuses it may change its mind, so the job waits, but it holds no machines meanwhile, and no
// longer than it was given.
TEST(Children, ARefusedPodEndsTheWaitOfItsGangAndTheJobAtItsDeadline) {
  Observed observed = running(2);
  observed.job.status = {};
  observed.pods.pop_back();
  observed.refusals = {
      {.kind = ApiRefusal::Kind::Invalid,
       .object = "pod arxiv-1-1",
       .message = "is invalid",
       .time = observed.now}
  };
  observed = next(observed, plan(observed), 0);
  const int64_t patience = observed.job.spec.run_policy.scheduling_timeout_seconds;
  observed.now = at(patience - 1);
  EXPECT_EQ(plan(observed).status.attempt, 1);
  observed.now = at(patience);
  const Plan released = plan(observed);
  EXPECT_EQ(reason_of(released, condition::kScheduled), reason::kReleased);
  EXPECT_EQ(released.status.attempt, 2);

  observed.job.spec.run_policy.active_deadline_seconds = patience;
  observed.now = *observed.job.status.start_time + std::chrono::seconds(patience);
  EXPECT_EQ(reason_of(plan(observed), condition::kFailed), reason::kDeadlineExceeded);
}

TEST(Children, ReportACreateThatKeepsFailing) {
  Observed observed;
  observed.job = small_job();
  observed.refusals = {
      {.kind = ApiRefusal::Kind::Failing,
       .object = "pod arxiv-1-0",
       .message = "failed calling webhook",
       .time = observed.now}
  };
  const Plan failing = plan(observed);
  EXPECT_EQ(reason_of(failing, condition::kScheduled), reason::kCreateFailed);
  EXPECT_EQ(
      message_of(failing, condition::kScheduled),
      "Cannot create pod arxiv-1-0: failed calling webhook"
  );
  EXPECT_EQ(event_reasons(failing), std::vector<std::string>{"CreateFailed"});
}

// What is not seen may exist: it is only left out of the caches.
TEST(Children, AreNotCreatedWhereTheCachesLeaveObjectsOfTheNamespaceOut) {
  Observed observed;
  observed.job = small_job();
  observed.memory_limit = "Namespace train has more objects than the operator keeps";
  const Plan left_out = plan(observed);
  EXPECT_TRUE(left_out.actions.empty());
  EXPECT_EQ(reason_of(left_out, condition::kScheduled), reason::kMemoryLimit);
  EXPECT_EQ(left_out.status.message, observed.memory_limit);
  EXPECT_EQ(left_out.status.state, state::kPending);
  EXPECT_TRUE(left_out.requeue_after);

  observed.job.status = left_out.status;
  observed.memory_limit.clear();
  EXPECT_FALSE(plan(observed).actions.empty()) << "there is room again";

  Observed whole = running();
  whole.memory_limit = "x";
  whole.service.reset();
  const Plan runs_on = plan(whole);
  EXPECT_TRUE(runs_on.actions.empty());
  EXPECT_TRUE(is_true(runs_on.status, condition::kRunning));
}

TEST(Children, NeverAdoptForeignObjects) {
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

TEST(Children, IgnoreAForeignServiceWhileTheJobRuns) {
  Observed observed = running();
  observed.service->metadata.owner_references[0].uid = "somebody";
  const Plan result = plan(observed);
  EXPECT_TRUE(result.actions.empty());
  EXPECT_EQ(result.status, observed.job.status);
}

}  // namespace
}  // namespace gnn::reconcile
