#include "controller/reconcile/data_key.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace gnn::reconcile {
namespace {

const std::string kSuffix(32, 'a');

// A new job whose pods need a key.
Observed fresh() {
  Observed observed;
  observed.job = job_with_servers();
  observed.job.status = {};
  observed.new_data_key.suffix = kSuffix;
  observed.now = at(1);
  return observed;
}

TEST(DataKey, ItsSecretIsRecordedBeforeAPodMountsIt) {
  Observed observed = fresh();
  ASSERT_TRUE(wants_data_key(observed));
  const Plan first = plan(observed);
  ASSERT_EQ(count_of<CreateDataKey>(first), 1);
  const objects::Secret secret = actions_of<CreateDataKey>(first)[0].secret;
  EXPECT_EQ(secret.metadata.name, "arxiv-key-" + kSuffix);
  EXPECT_EQ(
      secret.metadata.owner_references, desired_service(observed.job).metadata.owner_references
  );
  EXPECT_TRUE(secret.data.empty()) << "a plan holds no secrets";
  EXPECT_EQ(count_of<CreatePod>(first), 0);
  EXPECT_EQ(first.status.data_key_secret, secret.metadata.name);
  EXPECT_TRUE(first.status_needs_success);
  EXPECT_EQ(first.requeue_after, Duration::zero());

  observed = next(observed, first);
  EXPECT_FALSE(wants_data_key(observed));
  const Plan second = plan(observed);
  EXPECT_EQ(count_of<CreateDataKey>(second), 0);
  EXPECT_EQ(count_of<CreatePod>(second), 3)
      << "a server that the partitions do not need comes later";
  for (const CreatePod& each : actions_of<CreatePod>(second)) {
    EXPECT_EQ(each.pod.metadata.labels.at("gnn.dev/data-key"), kSuffix);
    const auto spec = encode(each.pod)["spec"];
    EXPECT_EQ(
        spec["volumes"][0],
        objects::Json::parse(
            R"({"name": "gnn-config", "projected": {"sources": [
      {"configMap": {"name": "arxiv-gnn"}},
      {"secret": {"name": "arxiv-key-)" +
            kSuffix + R"(", "items": [{"key": "data.key", "path": "data.key"}]}}
    ]}})"
        )
    );
    EXPECT_EQ(spec["containers"][0]["volumeMounts"][0]["mountPath"], "/etc/gnn");
  }
}

TEST(DataKey, OfAJobThatServesNoDataIsNoSecret) {
  Observed observed;
  observed.job = small_job();
  observed.now = at(1);
  EXPECT_FALSE(wants_data_key(observed));
  const Plan made = plan(observed);
  EXPECT_EQ(count_of<CreateDataKey>(made), 0);
  EXPECT_EQ(count_of<CreatePod>(made), 2);
  EXPECT_FALSE(made.status.data_key_secret);
}

TEST(DataKey, ThatWasMadeAndNotRecordedIsRecordedAndNotMadeAgain) {
  Observed observed = fresh();
  observed.new_data_key.made = true;
  const Plan again = plan(observed);
  EXPECT_EQ(count_of<CreateDataKey>(again) + count_of<CreatePod>(again), 0);
  EXPECT_EQ(again.status.data_key_secret, "arxiv-key-" + kSuffix);
}

TEST(DataKey, ACrdThatDropsItsNameCausesOneSecretAndSaysSo) {
  Observed observed = fresh();
  const Plan first = plan(observed);
  observed.new_data_key.made = true;
  observed.cut_status = {.sent = first.status, .kept = first.status};
  observed.cut_status->kept.data_key_secret.reset();
  observed.job.status = observed.cut_status->kept;
  const Plan second = plan(observed);
  EXPECT_EQ(count_of<CreateDataKey>(second) + count_of<CreatePod>(second), 0);
  EXPECT_NE(message_of(second, condition::kScheduled).find("upgrade the CRD"), std::string::npos);
  observed.cut_status = {.sent = second.status, .kept = second.status};
  observed.cut_status->kept.data_key_secret.reset();
  observed.job.status = observed.cut_status->kept;
  const Plan third = plan(observed);
  EXPECT_EQ(third.status, observed.job.status) << "nothing is written again and again";
  EXPECT_EQ(third.requeue_after, observed.config.refusal_retry);
}

// Only somebody who can write the status could have put it there.
TEST(DataKey, ANameThatTheControllerNeverDrawsIsNotMounted) {
  for (const std::string_view name :
       {"keys",
        "other-key-0123456789abcdef0123456789abcdef",
        "arxiv-key-",
        "arxiv-key-1",
        "arxiv-key-0123456789abcdef0123456789abcdeF",
        "arxiv-key-0123456789abcdef0123456789abcdef0"}) {
    Observed observed = fresh();
    observed.job.status.data_key_secret = name;
    EXPECT_FALSE(desired_pod(observed.job, {}).spec.secret_file) << name;
    const Plan made = plan(observed);
    EXPECT_EQ(made.status.data_key_secret, "arxiv-key-" + kSuffix) << name;
    EXPECT_EQ(count_of<CreatePod>(made), 0) << name;
  }
}

TEST(DataKey, IsNewForTheAttemptAfterOneThatDidNotStart) {
  Observed observed = running(2);
  observed.job = [&] {
    api::GnnJob job = job_with_servers(2, 1);
    const auto secret = job.status.data_key_secret;
    job.status = observed.job.status;
    job.status.data_key_secret = secret;
    return job;
  }();
  observed.pods = {pod_of(observed.job, 0), pod_of(observed.job, 1)};
  make_ready(observed.pods[0]);
  schedule(observed.pods[1]);
  observed.now = at(10'000);
  const Plan failed = plan(observed);
  EXPECT_EQ(failed.status.attempt, 2);
  EXPECT_EQ(reason_of(failed, condition::kRestarting), "NotStarted");
  EXPECT_FALSE(failed.status.data_key_secret);

  end_container(observed.pods[1], 70);
  const Plan ended = plan(observed);
  EXPECT_EQ(ended.status.attempt, 2);
  EXPECT_EQ(ended.status.data_key_secret, observed.job.status.data_key_secret);
}

TEST(DataKey, IsNoPartOfWhatAQueueCounts) {
  const api::GnnJob job = job_with_servers();
  api::GnnJob without = job;
  without.status = {};
  EXPECT_EQ(desired_workload(job, "w", false), desired_workload(without, "w", false));
}

TEST(DataKey, ThePodThatPreparesTheDataHasNone) {
  api::GnnJob job = job_with_servers();
  job.spec.prepare.emplace();
  EXPECT_FALSE(desired_prepare_pod(job, 1).spec.secret_file);
}

}  // namespace
}  // namespace gnn::reconcile
