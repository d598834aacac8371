#include "controller/reconcile/workload.h"

#include "controller/reconcile/queue.h"
#include "tests/controller/reconcile/simulation.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace gnn::reconcile {
namespace {

Observed queued(api::GnnJob job = small_job()) {
  Observed observed;
  observed.job = std::move(job);
  observed.job.metadata.labels["kueue.x-k8s.io/queue-name"] = "queue";
  observed.config.kueue = true;
  observed.kueue = objects::KueueVersion::V1Beta2;
  observed.flavors["flavor"] = {};
  observed.now = at(1);
  return observed;
}

api::GnnJob job_on_gpus(api::GnnJob job = small_job()) {
  job.spec.workers.gpus_per_process = 1;
  return job;
}

objects::Workload made_by(const Plan& made) {
  const auto creates = actions_of<CreateWorkload>(made);
  return creates.empty() ? objects::Workload() : creates.front().workload;
}

TEST(Workloads, AskForAllPodsOfTheJobAndBelongToIt) {
  const Observed observed = queued(job_on_gpus(job_with_servers(2, 3)));
  const objects::Workload made = made_by(plan(observed));
  EXPECT_EQ(made.metadata.name, "gnnjob-arxiv-51550");
  EXPECT_TRUE(is_owned_by(made.metadata, observed.job));
  EXPECT_EQ(made.metadata.labels.at("kueue.x-k8s.io/job-uid"), "uid-of-arxiv");
  EXPECT_EQ(made.metadata.finalizers, std::vector<std::string>{"kueue.x-k8s.io/resource-in-use"});
  EXPECT_EQ(made.queue, "queue");
  ASSERT_EQ(made.pod_sets.size(), 2U);
  EXPECT_EQ(made.pod_sets[0].count, 2);
  EXPECT_EQ(made.pod_sets[1].count, 3);
  const auto& pod = made.pod_sets[0].pod_template;
  // As the API server has it of pods.
  const objects::Json gpus = pod_of(observed.job, 0).spec.containers[0].resources.limits;
  EXPECT_TRUE(gpus.contains("nvidia.com/gpu"));
  EXPECT_EQ(
      pod["spec"]["containers"][0]["resources"],
      (objects::Json{{"requests", gpus}, {"limits", gpus}})
  );
  EXPECT_FALSE(pod["metadata"]["labels"].contains("gnn.dev/node"));
  Observed other = observed;
  other.job.metadata.labels.clear();
  EXPECT_TRUE(actions_of<CreateWorkload>(plan(other)).empty());
  other.config.kueue_manages_all = true;
  EXPECT_EQ(made_by(plan(other)).queue, "default");
}

TEST(Workloads, HaveThePriorityOfTheClassThatTheJobNames) {
  Observed observed = queued();
  observed.job.metadata.labels["kueue.x-k8s.io/priority-class"] = "high";
  EXPECT_EQ(queue_needs(observed).priority_class->name, "high");
  const Plan unknown = plan(observed);
  EXPECT_TRUE(actions_of<CreateWorkload>(unknown).empty());
  EXPECT_NE(
      message_of(unknown, condition::kScheduled).find("high cannot be read"), std::string::npos
  );
  EXPECT_TRUE(unknown.requeue_after);
  observed.priority = {.of = {.of_pods = false, .name = "high"}, .value = 7};
  EXPECT_EQ(made_by(plan(observed)).priority, 7);
  EXPECT_FALSE(made_by(plan(observed)).priority_class.of_pods);
  observed.job.metadata.labels.erase("kueue.x-k8s.io/priority-class");
  observed.job.spec.workers.pod_template->priority_class_name = "of-pods";
  EXPECT_TRUE(queue_needs(observed).priority_class->of_pods);
  observed.priority = {.of = {.of_pods = true, .name = "of-pods"}, .value = 8};
  EXPECT_EQ(made_by(plan(observed)).priority_class.name, "of-pods");
}

TEST(Workloads, HaveThePriorityThatPodsWithoutAClassHave) {
  Observed observed = queued();
  EXPECT_EQ(
      queue_needs(observed).priority_class, (objects::PriorityClass{.of_pods = true, .name = ""})
  );
  EXPECT_FALSE(made_by(plan(observed)).priority) << "the cluster has no default";
  observed.priority = {.of = {.of_pods = true, .name = "all"}, .value = 500, .is_default = true};
  const objects::Workload made = made_by(plan(observed));
  EXPECT_EQ(made.priority_class, (objects::PriorityClass{.of_pods = true, .name = "all"}));
  EXPECT_EQ(made.priority, 500);
  // Nobody asks for it again, whatever becomes of the default.
  observed.workloads = {made};
  observed.priority.reset();
  EXPECT_FALSE(queue_needs(observed).priority_class);
  EXPECT_EQ(count_of<UpdateWorkload>(plan(observed)), 0);
  // A label that is taken away leads back to it.
  observed.workloads[0].priority_class = {.of_pods = false, .name = "high"};
  EXPECT_TRUE(queue_needs(observed).priority_class);
}

TEST(Workloads, AreToldWhetherThePodsAreReadyAndHowTheJobEnded) {
  Simulation simulation(queued().job);
  simulation.world().config.kueue = true;
  simulation.world().kueue = objects::KueueVersion::V1Beta2;
  simulation.world().flavors["flavor"] = {};
  (void)simulation.run_until_idle();
  simulation.admit_workloads();
  (void)simulation.run_until_idle();
  const auto reason = [&] {
    const auto* found = objects::find_condition(simulation.world().workloads.at(0), "PodsReady");
    return found == nullptr ? "" : found->reason;
  };
  const auto ready_all = [&] {
    for (size_t i = 0; i < simulation.world().pods.size(); ++i) simulation.ready_pod(i);
    (void)simulation.run_until_idle();
  };
  EXPECT_EQ(reason(), "");
  ready_all();
  EXPECT_EQ(reason(), "Started");
  simulation.end_pod(1, 70);
  (void)simulation.run_until_idle();
  EXPECT_EQ(reason(), "WaitForRecovery");
  simulation.finish_leaving();
  simulation.advance(60);
  (void)simulation.run_until_idle();
  ready_all();
  EXPECT_EQ(simulation.status().attempt, 2);
  EXPECT_EQ(reason(), "Recovered");
  EXPECT_TRUE(simulation.world().workloads.at(0).admission) << "attempts keep it";
  for (size_t i = 0; i < simulation.world().pods.size(); ++i) {
    simulation.end_pod(i, 0);
    (void)simulation.run_until_idle();
    EXPECT_EQ(reason(), "Recovered") << "a pod that has succeeded has not failed";
  }
  const objects::Workload& ended = simulation.world().workloads.at(0);
  EXPECT_EQ(objects::find_condition(ended, "Finished")->reason, "Succeeded");
  EXPECT_TRUE(ended.metadata.finalizers.empty());
}

TEST(Workloads, AreLetGoWithTheirJob) {
  Observed observed = queued();
  objects::Workload workload = made_by(plan(observed));
  workload.metadata.uid = "uid-of-workload";
  observed.workloads = {workload};
  observed.job.metadata.deletion_timestamp = at(1);
  EXPECT_EQ(count_of<ReleaseWorkload>(plan(observed)), 1);
  const OrphanedWorkloads released = release_orphaned_workloads({workload}, {}, at(1), {});
  EXPECT_EQ(released.actions.size(), 1U);
  EXPECT_FALSE(released.next);
  // So are those that somebody deletes.
  observed.job.metadata.deletion_timestamp.reset();
  observed.workloads[0].metadata.deletion_timestamp = at(1);
  EXPECT_EQ(count_of<ReleaseWorkload>(plan(observed)), 1);
  EXPECT_EQ(count_of<CreateWorkload>(plan(observed)), 0);
}

// Quota is given back for machines that are free.
TEST(Workloads, AreKeptUntilNoPodOfADeletedJobOccupiesAMachine) {
  Observed observed = queued();
  objects::Workload workload = made_by(plan(observed));
  workload.metadata.uid = "uid-of-workload";
  observed.workloads = {workload};
  observed.job.metadata.deletion_timestamp = at(1);
  objects::Pod pod = pod_of(observed.job, 0);
  observed.pods = {make_ready(pod)};
  const Duration lost_after = observed.config.lost_after;
  const auto release = [&] {
    return release_orphaned_workloads({workload}, observed.pods, observed.now, lost_after);
  };
  EXPECT_EQ(count_of<ReleaseWorkload>(plan(observed)), 0);
  EXPECT_TRUE(release().actions.empty());
  EXPECT_FALSE(release().next) << "its deletion is an event";
  // A pod that outlives its deletion is on a machine that is lost.
  mark_deleted(observed.pods[0], at(100));
  const Plan leaving = plan(observed);
  EXPECT_EQ(count_of<ReleaseWorkload>(leaving), 0);
  EXPECT_EQ(observed.now + *leaving.requeue_after, at(100) + lost_after);
  EXPECT_TRUE(release().actions.empty());
  EXPECT_EQ(release().next, at(100) + lost_after);
  observed.now = at(100) + lost_after;
  EXPECT_EQ(count_of<ReleaseWorkload>(plan(observed)), 1);
  EXPECT_EQ(release().actions.size(), 1U);
  // So are those that have ended, and those of another job.
  observed.now = at(50);
  end_container(observed.pods[0], 0);
  EXPECT_EQ(count_of<ReleaseWorkload>(plan(observed)), 1);
  EXPECT_EQ(release().actions.size(), 1U);
  observed.pods = {make_ready(pod)};
  observed.pods[0].metadata.owner_references[0].uid = "uid of another";
  EXPECT_EQ(release().actions.size(), 1U);
}

// The first job is gone before the operator has seen it go, and nobody looks at its Workload as at that
// of a job that is gone.
TEST(Workloads, OfAnEarlierJobOfTheNameAreLetGoOnceTheyAreDeleted) {
  Observed observed = queued();
  observed.job.metadata.uid = "uid of an earlier job";
  objects::Workload earlier = made_by(plan(observed));
  earlier.metadata.uid = "uid-of-workload";
  objects::Pod pod = pod_of(observed.job, 0);
  observed = queued();
  observed.workloads = {earlier};
  EXPECT_EQ(count_of<ReleaseWorkload>(plan(observed)), 0) << "it may be of a later job";
  observed.workloads[0].metadata.deletion_timestamp = at(1);
  EXPECT_EQ(count_of<ReleaseWorkload>(plan(observed)), 1);
  observed.job.metadata.labels.clear();
  EXPECT_EQ(count_of<ReleaseWorkload>(plan(observed)), 1);
  observed.pods = {make_ready(pod)};
  EXPECT_EQ(count_of<ReleaseWorkload>(plan(observed)), 0) << "its pod occupies a machine";
}

// As after `kubectl delete --cascade=orphan`, when the job is made again.
TEST(Workloads, WithoutAnOwnerAreLetGoOnceTheyAreDeleted) {
  Observed observed = queued();
  observed.job.metadata.uid = "uid of an earlier job";
  objects::Workload orphan = made_by(plan(observed));
  orphan.metadata.uid = "uid-of-workload";
  orphan.metadata.owner_references.clear();
  observed = queued();
  observed.workloads = {orphan};
  EXPECT_EQ(count_of<ReleaseWorkload>(plan(observed)), 0);
  observed.workloads[0].metadata.deletion_timestamp = at(1);
  EXPECT_EQ(count_of<ReleaseWorkload>(plan(observed)), 1);
}

TEST(Workloads, OfAJobThatHaveLostTheirOwnerKeepTheQuotaOfItsPods) {
  Observed observed = queued();
  objects::Workload own = made_by(plan(observed));
  own.metadata.uid = "uid-of-workload";
  own.metadata.owner_references.clear();
  own.metadata.deletion_timestamp = at(1);
  observed.workloads = {own};
  objects::Pod pod = pod_of(observed.job, 0);
  observed.pods = {make_ready(pod)};
  EXPECT_EQ(count_of<ReleaseWorkload>(plan(observed)), 0);
  observed.pods.clear();
  EXPECT_EQ(count_of<ReleaseWorkload>(plan(observed)), 1);
}

// No watch tells of what the operator has written itself.
TEST(Workloads, ThatAreGivenBackAreLookedAtAgain) {
  Simulation simulation(queued().job);
  simulation.world().config.kueue = true;
  simulation.world().kueue = objects::KueueVersion::V1Beta2;
  simulation.world().flavors["flavor"] = {};
  ASSERT_TRUE(simulation.run_until_idle());
  simulation.admit_workloads();
  simulation.evict_workloads("Preempted");
  const Plan gives_back = plan(simulation.world());
  ASSERT_EQ(count_of<UpdateWorkloadStatus>(gives_back), 1);
  EXPECT_EQ(gives_back.requeue_after, Duration::zero());
}

TEST(Workloads, OfAManagerOfClustersAreMadeAndNothingElse) {
  Observed observed = queued();
  observed.job.spec.managed_by = "kueue.x-k8s.io/multikueue";
  const Plan made = plan(observed);
  ASSERT_EQ(made.actions.size(), 1U);
  EXPECT_EQ(made_by(made).queue, "queue");
  EXPECT_EQ(made.status, observed.job.status);
  observed.config.kueue = false;
  EXPECT_TRUE(plan(observed).actions.empty());
}

TEST(Workloads, ThatKueueHasMadeForTheJobAreTakenIfTheyFit) {
  Observed observed = queued(job_on_gpus());
  observed.job.metadata.labels = {{"kueue.x-k8s.io/prebuilt-workload-name", "made"}};
  EXPECT_EQ(queue_needs(observed).workload, "made");
  EXPECT_TRUE(plan(observed).actions.empty());
  objects::Workload prebuilt = desired_workload(observed.job, "made", false);
  prebuilt.metadata.owner_references.clear();
  prebuilt.metadata.labels.clear();
  observed.workloads = {prebuilt};
  const auto adopted = actions_of<AdoptWorkload>(plan(observed));
  ASSERT_EQ(adopted.size(), 1U);
  EXPECT_TRUE(is_owned_by(adopted[0].workload.metadata, observed.job));
  EXPECT_EQ(adopted[0].workload.metadata.labels.at("gnn.dev/job"), "arxiv");
  const auto refused = [&](const std::string& why) {
    const Plan made = plan(observed);
    EXPECT_TRUE(made.actions.empty()) << why;
    const std::string said = message_of(made, condition::kScheduled);
    return said.find("other PodSets") != std::string::npos && said.find(why) != std::string::npos;
  };
  observed.workloads[0].pod_sets[0].count = 1;
  EXPECT_TRUE(refused("count 1 instead of 2"));
  observed.workloads[0] = prebuilt;
  observed.workloads[0].pod_sets[0].requests.at("nvidia.com/gpu") = "0";
  EXPECT_TRUE(refused("nvidia.com/gpu 0 instead of"));
}

TEST(Workloads, AreLookedForAndLabelledAgainIfSomebodyTakesTheJobsLabel) {
  Observed observed = queued();
  EXPECT_FALSE(queue_needs(observed).workload) << "there was none yet";
  objects::Workload workload = made_by(plan(observed));
  workload.metadata.uid = "uid-of-workload";
  observed.workloads = {workload};
  observed.job.status = plan(observed).status;
  // As the watch has it: gone.
  observed.workloads.clear();
  EXPECT_EQ(queue_needs(observed).workload, workload.metadata.name);
  workload.metadata.labels.erase("gnn.dev/job");
  workload.metadata.labels["of"] = "somebody";
  observed.workloads = {workload};
  const Plan restored = plan(observed);
  ASSERT_EQ(restored.actions.size(), 1U);
  const objects::Workload labelled = std::get<AdoptWorkload>(restored.actions[0]).workload;
  EXPECT_EQ(labelled.metadata.labels.at("gnn.dev/job"), "arxiv");
  EXPECT_EQ(labelled.metadata.labels.at("of"), "somebody");
  EXPECT_TRUE(is_owned_by(labelled.metadata, observed.job));
  // A cache keeps few of its labels.
  const auto cached =
      objects::decode_workload(objects::encode(labelled), objects::KueueVersion::V1Beta2);
  ASSERT_TRUE(cached) << cached.error().message;
  observed.workloads = {*cached};
  EXPECT_TRUE(plan(observed).actions.empty());
}

// What a tenant makes of it before it has quota is put right, and what was admitted for less gets no pod.
TEST(Workloads, ThatAskForLessThanThePodsAreWrittenAgain) {
  Observed observed = queued(job_on_gpus());
  objects::Workload workload = made_by(plan(observed));
  workload.metadata.uid = "uid-of-workload";
  workload.pod_sets[0].requests.at("nvidia.com/gpu") = "0";
  observed.workloads = {workload};
  const auto updates = actions_of<UpdateWorkload>(plan(observed));
  ASSERT_EQ(updates.size(), 1U);
  EXPECT_NE(updates[0].workload.pod_sets[0].requests, workload.pod_sets[0].requests);

  objects::Workload& admitted = observed.workloads[0];
  admitted.admission = objects::Admission{
      .cluster_queue = "cq",
      .pod_sets = {{.name = "workers", .flavors = {"flavor"}, .count = 2}},
  };
  for (const char* type : {"QuotaReserved", "Admitted"}) {
    objects::WorkloadCondition& condition = admitted.conditions.emplace_back();
    condition.type = type;
    condition.status = "True";
  }
  const Plan useless = plan(observed);
  EXPECT_EQ(count_of<CreatePod>(useless), 0);
  EXPECT_EQ(count_of<ReleaseWorkload>(useless), 1);
  EXPECT_EQ(count_of<DeleteWorkload>(useless), 1);
  EXPECT_NE(
      message_of(useless, condition::kScheduled).find("less than the job's pods request"),
      std::string::npos
  );
  // One that somebody else made is his to put right.
  observed.job.metadata.labels["kueue.x-k8s.io/prebuilt-workload-name"] = admitted.metadata.name;
  const Plan kept = plan(observed);
  EXPECT_EQ(count_of<CreatePod>(kept), 0);
  EXPECT_EQ(count_of<DeleteWorkload>(kept), 0);
  // Nor is there a pod in the cluster of a manager.
  observed.job.metadata.labels.erase("kueue.x-k8s.io/prebuilt-workload-name");
  observed.job.spec.managed_by = "kueue.x-k8s.io/multikueue";
  EXPECT_EQ(count_of<DeleteWorkload>(plan(observed)), 0);
  observed.job.spec.managed_by.reset();
  // Pods that run keep what they were given.
  for (int64_t node = 0; node < 2; ++node) {
    objects::Pod pod = pod_of(observed.job, node);
    observed.pods.push_back(make_ready(pod));
  }
  EXPECT_EQ(count_of<DeleteWorkload>(plan(observed)), 0);
  EXPECT_EQ(reason_of(plan(observed), condition::kRunning), "AllNodesReady");
}

}  // namespace
}  // namespace gnn::reconcile
