#include "tests/controller/reconcile/simulation.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace gnn::reconcile {
namespace {

using objects::GroupApi;

constexpr auto kForbidden = "the podgroups of some API cannot be read: forbidden";
constexpr auto kNoWebhook = "the workloads of kueue.x-k8s.io cannot be read: no endpoints";

api::GnnJob job_of(api::GangProvider provider) {
  api::GnnJob job = small_job();
  job.spec.scheduling.emplace().provider = provider;
  return job;
}

// The operator may use all APIs for groups, and that one is unknown.
Simulation simulation_with_unknown(GroupApi api, api::GnnJob job) {
  Simulation simulation(std::move(job));
  Observed& world = simulation.world();
  world.now = at(1);
  world.config.group_apis = {objects::kGroupApis.begin(), objects::kGroupApis.end()};
  world.group_apis = world.config.group_apis;
  std::erase(world.group_apis, api);
  world.unknown_group_apis = {{api, kForbidden}};
  return simulation;
}

void make_known(Observed& world) {
  for (const auto& [api, why] : world.unknown_group_apis) world.group_apis.push_back(api);
  world.unknown_group_apis.clear();
}
void make_unknown(Observed& world, GroupApi api) {
  std::erase(world.group_apis, api);
  world.unknown_group_apis = {{api, kForbidden}};
  world.groups.clear();
}

const std::vector<std::pair<GroupApi, api::GangProvider>> kProviders = {
    {GroupApi::Native, api::GangProvider::Native},
    {GroupApi::Coscheduling, api::GangProvider::Coscheduling},
    {GroupApi::Volcano, api::GangProvider::Volcano},
};

TEST(UnknownGroupApi, HoldsUpTheJobsThatUseItAndNoOthers) {
  for (const auto& [unknown, itself] : kProviders) {
    for (const auto& [api, provider] : kProviders) {
      Simulation simulation = simulation_with_unknown(unknown, job_of(provider));
      const Plan made = simulation.reconcile();
      EXPECT_EQ(count_of<CreatePod>(made) > 0, api != unknown);
      EXPECT_EQ(count_of<CreateGroup>(made) > 0, api != unknown);
      if (api != unknown) continue;
      EXPECT_EQ(reason_of(made, condition::kScheduled), reason::kCreating);
      EXPECT_NE(message_of(made, condition::kScheduled).find(kForbidden), std::string::npos);
      EXPECT_GT(made.requeue_after, Duration::zero());
      EXPECT_LE(made.requeue_after, std::chrono::seconds(10));
      EXPECT_TRUE(simulation.run_until_idle());
      make_known(simulation.world());
      EXPECT_TRUE(simulation.run_until_idle());
      EXPECT_EQ(simulation.world().pods.size(), 2U);
      EXPECT_EQ(simulation.live_groups(), 1);
    }
    Simulation ungrouped = simulation_with_unknown(unknown, small_job());
    EXPECT_EQ(count_of<CreatePod>(ungrouped.reconcile()), 2);
  }
}

TEST(UnknownGroupApi, ReleasesAndDeletesNothing) {
  for (const auto& [api, provider] : kProviders) {
    for (const bool runs : {false, true}) {
      Simulation simulation = simulation_with_unknown(api, job_of(provider));
      make_known(simulation.world());
      EXPECT_TRUE(simulation.run_until_idle());
      if (runs) simulation.ready_all();
      EXPECT_TRUE(simulation.run_until_idle());
      const api::GnnJobStatus before = simulation.status();
      make_unknown(simulation.world(), api);
      simulation.advance(10 * before.attempt + 100'000);
      const Plan made = simulation.reconcile();
      EXPECT_TRUE(made.actions.empty());
      EXPECT_EQ(made.status.releases, 0);
      EXPECT_EQ(made.status.attempt, before.attempt);
      EXPECT_EQ(made.status.scheduling, before.scheduling);
    }
  }
}

Simulation simulation_of_queue(api::GnnJob job, bool has_queue = true) {
  if (has_queue) job.metadata.labels["kueue.x-k8s.io/queue-name"] = "queue";
  Simulation simulation(std::move(job));
  Observed& world = simulation.world();
  world.config.kueue = true;
  world.kueue = objects::KueueVersion::V1Beta2;
  world.flavors["flavor"] = {};
  return simulation;
}

void make_kueue_unknown(Observed& world) {
  world.kueue.reset();
  world.kueue_unknown = kNoWebhook;
  world.workloads.clear();
}

TEST(UnknownKueue, HoldsUpNewJobsOfQueuesAndNoOthers) {
  Simulation waits = simulation_of_queue(small_job());
  make_kueue_unknown(waits.world());
  const Plan made = waits.reconcile();
  EXPECT_EQ(count_of<CreatePod>(made), 0);
  EXPECT_EQ(reason_of(made, condition::kScheduled), reason::kQueued);
  EXPECT_NE(message_of(made, condition::kScheduled).find(kNoWebhook), std::string::npos);
  EXPECT_GT(made.requeue_after, Duration::zero());
  EXPECT_LE(made.requeue_after, std::chrono::seconds(10));

  Simulation others = simulation_of_queue(small_job(), false);
  make_kueue_unknown(others.world());
  EXPECT_EQ(count_of<CreatePod>(others.reconcile()), 2);
}

TEST(UnknownKueue, LetsWhatIsAdmittedRunAndReleasesNothing) {
  for (const bool runs : {false, true}) {
    Simulation simulation = simulation_of_queue(job_with_servers());
    EXPECT_TRUE(simulation.run_until_idle());
    simulation.admit_workloads();
    EXPECT_TRUE(simulation.run_until_idle());
    if (runs) {
      for (size_t i = 0; i < simulation.world().pods.size(); ++i) simulation.ready_pod(i);
    }
    EXPECT_TRUE(simulation.run_until_idle());
    const api::GnnJobStatus before = simulation.status();
    // What was admitted counts, also while it cannot be read.
    simulation.world().job.spec.servers->nodes = 1;
    make_kueue_unknown(simulation.world());
    simulation.advance(runs ? 1000 : 100'000);
    const Plan made = simulation.reconcile();
    EXPECT_EQ(count_of<DeletePod>(made) + count_of<ReleasePod>(made), 0);
    EXPECT_EQ(count_of<ReleaseWorkload>(made), 0);
    EXPECT_EQ(made.status.releases, 0);
    EXPECT_EQ(made.status.scheduling, before.scheduling);
    EXPECT_EQ(made.status.attempt, before.attempt);
  }
}

}  // namespace
}  // namespace gnn::reconcile
