#include "controller/reconcile/pod_group.h"

#include "tests/controller/reconcile/builders.h"
#include "tests/controller/reconcile/simulation.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gnn::reconcile {
namespace {

using objects::GroupApi;
using std::chrono::seconds;

void offer(Observed& observed, GroupApi api = GroupApi::Native) {
  observed.config.group_apis = {api};
  observed.group_apis = {api};
}

Observed grouped(api::GnnJob job) {
  job.spec.scheduling.emplace();
  Observed observed;
  observed.job = std::move(job);
  observed.now = at(1);
  offer(observed);
  return observed;
}

Simulation grouped_simulation(api::GnnJob job) {
  job.spec.scheduling.emplace();
  Simulation simulation(std::move(job));
  offer(simulation.world());
  return simulation;
}

// All pods exist, and none has a place.
Simulation waiting_simulation(api::GnnJob job) {
  Simulation simulation = grouped_simulation(std::move(job));
  (void)simulation.run_until_idle();
  return simulation;
}

size_t index_of_pod(Simulation& simulation, const std::string& name) {
  const auto& pods = simulation.world().pods;
  return static_cast<size_t>(
      std::ranges::find_if(pods, [&](const auto& pod) { return pod.metadata.name == name; }) -
      pods.begin()
  );
}

std::string group_of_pod(Simulation& simulation, const std::string& name) {
  const auto& group = simulation.world().pods.at(index_of_pod(simulation, name)).spec.group;
  return group ? group->group : "";
}

void place_all(Simulation& simulation) {
  for (size_t i = 0; i < simulation.world().pods.size(); ++i) simulation.ready_pod(i);
}

TEST(PodGroup, IsMadeBeforeThePodsThatNameIt) {
  Observed observed = grouped(small_job(3));
  observed.job.spec.workers.pod_template->priority_class_name = "high";
  const Plan made = plan(observed);
  const auto groups = actions_of<CreateGroup>(made);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].group.metadata.name, "arxiv-1");
  EXPECT_TRUE(is_owned_by(groups[0].group.metadata, observed.job));
  EXPECT_EQ(groups[0].group.spec.min_count, 3);
  EXPECT_EQ(groups[0].group.spec.priority_class_name, "high");
  bool made_group = false;
  for (const Action& action : made.actions) {
    made_group = made_group || std::holds_alternative<CreateGroup>(action);
    if (const auto* create = std::get_if<CreatePod>(&action)) {
      EXPECT_TRUE(made_group);
      EXPECT_EQ(create->pod.spec.group->group, "arxiv-1");
    }
  }
  EXPECT_EQ(made.status.scheduling->provider, "Native");
  EXPECT_EQ(made.status.scheduling->group, "arxiv-1");
}

TEST(PodGroup, HasWhatTheSpecAsksFor) {
  Observed observed = grouped(small_job(3));
  api::Scheduling& scheduling = *observed.job.spec.scheduling;
  scheduling.scheduling_policy.emplace().basic.emplace();
  scheduling.scheduling_constraints.emplace().topology = {{.key = "rack"}};
  scheduling.disruption_mode.emplace().all.emplace();
  const objects::PodGroupSpec spec = actions_of<CreateGroup>(plan(observed)).at(0).group.spec;
  EXPECT_EQ(spec.min_count, 0);
  EXPECT_EQ(spec.topology_key, "rack");
  EXPECT_EQ(spec.disruption_mode, "all");
}

// By this a queue of Volcano decides.
TEST(PodGroup, AsksForWhatItsPodsAskForInAll) {
  Observed observed = grouped(job_with_servers(3, 2));
  api::Workers& workers = observed.job.spec.workers;
  workers.gpus_per_process = 1;
  workers.processes_per_node = 4;
  workers.pod_template->resources = {
      .requests = {{"cpu", "500m"}}, .limits = {{"memory", "1.5Gi"}}
  };
  observed.job.spec.servers->pod_template->resources.requests = {{"cpu", "0.7"}, {"memory", "64G"}};
  const auto spec = [&] { return actions_of<CreateGroup>(plan(observed)).at(0).group.spec; };
  const api::ResourceList of_workers = {
      {"cpu", "1500m"}, {"memory", "4608Mi"}, {"nvidia.com/gpu", "12"}
  };
  api::ResourceList of_all = of_workers;
  of_all["cpu"] = "2200m";
  of_all["memory"] = "67218592Ki";
  EXPECT_EQ(spec().min_count, 4);  // without the server that the gang can do without
  EXPECT_EQ(spec().min_resources, of_all);
  observed.job.spec.servers->pod_template->priority_class_name = "low";
  EXPECT_EQ(spec().min_resources, of_workers);
  observed.job.spec.scheduling->scheduling_policy.emplace().basic.emplace();
  EXPECT_EQ(spec().min_resources, api::ResourceList());
}

// The provider that the spec and the cluster lead to, and a part of why there is none.
TEST(PodGroup, IsOfTheProviderThatTheClusterOffers) {
  struct Case {
    api::GangProvider provider;
    std::string scheduler;
    std::vector<GroupApi> allowed;
    std::vector<GroupApi> served;
    std::string chosen;
    std::string why;
  };
  using P = api::GangProvider;
  const std::vector<GroupApi> native = {GroupApi::Native};
  const std::vector<GroupApi> all(objects::kGroupApis.begin(), objects::kGroupApis.end());
  const std::vector<Case> cases = {
      {P::Auto, "", all, all, "Native", ""},
      {P::Auto, "volcano", all, all, "Volcano", ""},
      {P::Auto, "mine", all, all, "Coscheduling", ""},
      {P::Auto, "other", all, all, "None", "no groups are known of the scheduler other"},
      {P::None, "", all, all, "None", ""},
      {P::Native, "other", all, all, "Native", ""},
      {P::Volcano, "", all, all, "Volcano", ""},
      {P::Volcano, "mine", all, all, "None", "for the scheduler mine, only for volcano"},
      {P::Coscheduling, "", all, all, "Coscheduling", ""},
      {P::Coscheduling, "mine", all, all, "Coscheduling", ""},
      {P::Coscheduling, "other", all, all, "None", "for the scheduler other, only for mine"},
      {P::Coscheduling, "", all, native, "None", "does not serve podgroups of scheduling.x-k8s.io"},
      {P::Auto, "", {}, all, "None", "may not use podgroups of scheduling.k8s.io/v1beta1"},
  };
  for (const Case& each : cases) {
    Observed observed = grouped(small_job());
    observed.config.coscheduling_schedulers = {"mine"};
    observed.config.group_apis = each.allowed;
    observed.group_apis = each.served;
    observed.job.spec.scheduling->provider = each.provider;
    if (!each.scheduler.empty()) {
      observed.job.spec.workers.pod_template->scheduler_name = each.scheduler;
    }
    const Plan made = plan(observed);
    SCOPED_TRACE(each.scheduler + " " + each.chosen + " " + each.why);
    EXPECT_EQ(made.status.scheduling->provider, each.chosen);
    const bool none = each.chosen == "None";
    EXPECT_EQ(count_of<CreateGroup>(made), none ? 0 : 1);
    EXPECT_EQ(count_of<CreatePod>(made), 2);
    EXPECT_NE(made.status.scheduling->message.value_or("").find(each.why), std::string::npos);
    EXPECT_EQ(made.status.scheduling->message.has_value(), !each.why.empty());
    const auto events = event_reasons(made);
    EXPECT_EQ(std::ranges::count(events, kNoPodGroup), each.why.empty() ? 0 : 1);
  }
}

TEST(PodGroup, IsPlacedByASchedulerThatKnowsItWhereTheJobNamesNone) {
  Observed observed = grouped(job_with_servers());
  observed.config.coscheduling_schedulers = {"gang", "other"};
  observed.config.volcano_schedulers = {"volcano-of-ours"};
  const auto scheduler = [&](api::GangProvider provider, GroupApi api) {
    observed.job.spec.scheduling->provider = provider;
    offer(observed, api);
    std::string found;
    for (const CreatePod& each : actions_of<CreatePod>(plan(observed))) {
      const std::string& name = each.pod.spec.scheduler_name;
      if (each.pod.spec.group) found = found.empty() || found == name ? name : "several";
    }
    return found;
  };
  EXPECT_EQ(scheduler(api::GangProvider::Coscheduling, GroupApi::Coscheduling), "gang");
  EXPECT_EQ(scheduler(api::GangProvider::Volcano, GroupApi::Volcano), "volcano-of-ours");
  EXPECT_EQ(scheduler(api::GangProvider::Native, GroupApi::Native), "");
  // Where the operator knows of none, the default scheduler may run the plugin.
  observed.config.coscheduling_schedulers.clear();
  EXPECT_EQ(scheduler(api::GangProvider::Coscheduling, GroupApi::Coscheduling), "");
  observed.config.coscheduling_schedulers = {"gang", "other"};
  observed.job.spec.workers.pod_template->scheduler_name = "other";
  observed.job.spec.servers->pod_template->scheduler_name = "other";
  EXPECT_EQ(scheduler(api::GangProvider::Coscheduling, GroupApi::Coscheduling), "other");
}

TEST(PodGroup, OfAQueueThatTheNamespaceMayNotUseIsNotMade) {
  Observed observed = grouped(small_job());
  observed.job.spec.scheduling->provider = api::GangProvider::Volcano;
  observed.job.spec.scheduling->volcano.emplace().queue = "night";
  offer(observed, GroupApi::Volcano);
  const auto refusal = [&](std::optional<VolcanoQueues> queues) {
    observed.config.volcano_queues = std::move(queues);
    const Plan made = plan(observed);
    const bool accepted = is_true(made.status, condition::kAccepted);
    EXPECT_EQ(count_of<CreateGroup>(made), accepted ? 1 : 0);
    EXPECT_EQ(count_of<CreatePod>(made), accepted ? 2 : 0);
    return accepted ? "" : message_of(made, condition::kAccepted);
  };
  EXPECT_EQ(refusal(std::nullopt), "");
  EXPECT_EQ(refusal(VolcanoQueues{{"train", {"day", "night"}}}), "");
  EXPECT_EQ(refusal(VolcanoQueues{{"train", {"day"}}, {"*", {"night"}}}), "");
  EXPECT_EQ(refusal(VolcanoQueues{{"train", {"*"}}}), "");
  EXPECT_EQ(
      refusal(VolcanoQueues{{"train", {"day"}}, {"*", {"shared"}}, {"other", {"night"}}}),
      "spec.scheduling.volcano.queue: jobs of namespace train may not use queue night; an "
      "administrator allows only: day, shared"
  );
  EXPECT_NE(refusal(VolcanoQueues()).find("allows none by name"), std::string::npos);
  observed.job.spec.scheduling->volcano->queue.reset();
  EXPECT_EQ(refusal(VolcanoQueues()), "");
}

TEST(PodGroup, WithoutOneInTheSpecNothingIsAskedOrSaid) {
  Observed observed = grouped(small_job());
  observed.job.spec.scheduling.reset();
  const Plan made = plan(observed);
  EXPECT_EQ(count_of<CreateGroup>(made), 0);
  EXPECT_FALSE(made.status.scheduling);
  EXPECT_FALSE(actions_of<CreatePod>(made).at(0).pod.spec.group);
}

TEST(PodGroup, ThatTheApiServerDropsIsToldAndRemoved) {
  Simulation simulation = grouped_simulation(small_job());
  simulation.drops_groups = true;
  (void)simulation.reconcile();
  EXPECT_EQ(simulation.live_groups(), 1);
  const Plan second = simulation.reconcile();
  EXPECT_EQ(std::ranges::count(event_reasons(second), kNoPodGroup), 1);
  EXPECT_TRUE(simulation.run_until_idle());
  EXPECT_EQ(simulation.live_groups(), 0);
  EXPECT_EQ(simulation.status().scheduling->provider, "None");
  EXPECT_NE(simulation.status().scheduling->message->find("GenericWorkload"), std::string::npos);
  EXPECT_EQ(simulation.pods_made(), 2);
  place_all(simulation);
  EXPECT_TRUE(simulation.run_until_idle());
  EXPECT_TRUE(is_true(simulation.status(), condition::kRunning));
}

TEST(PodGroup, HasTheNeededServersOnlyInAnAttemptThatFindsNoneRunning) {
  Simulation simulation = waiting_simulation(job_with_servers(2, 2));
  EXPECT_EQ(simulation.world().groups.at(0).spec.min_count, 3);
  EXPECT_EQ(group_of_pod(simulation, "arxiv-s0-0"), "arxiv-1");
  EXPECT_EQ(group_of_pod(simulation, "arxiv-s1-0"), "");  // one that the gang can do without
  place_all(simulation);
  EXPECT_TRUE(simulation.run_until_idle());
  // What is replaced later is placed alone.
  simulation.end_pod(index_of_pod(simulation, "arxiv-s0-0"), 70);
  EXPECT_TRUE(simulation.run_until_idle());
  EXPECT_EQ(group_of_pod(simulation, "arxiv-s0-1"), "");
  place_all(simulation);
  simulation.end_pod(index_of_pod(simulation, "arxiv-1-1"), 70);
  for (int round = 0; round < 4; ++round) {
    (void)simulation.run_until_idle();
    simulation.finish_leaving();
  }
  ASSERT_EQ(simulation.status().attempt, 2);
  ASSERT_EQ(simulation.live_groups(), 1);
  EXPECT_EQ(simulation.world().groups.back().metadata.name, "arxiv-2");
  EXPECT_EQ(simulation.world().groups.back().spec.min_count, 2);
  EXPECT_EQ(group_of_pod(simulation, "arxiv-2-0"), "arxiv-2");
}

TEST(PodGroup, HasNoServersOfAnotherPriority) {
  Observed observed = grouped(job_with_servers());
  observed.job.spec.servers->pod_template->priority_class_name = "low";
  const Plan made = plan(observed);
  EXPECT_EQ(actions_of<CreateGroup>(made).at(0).group.spec.min_count, 2);
  for (const CreatePod& create : actions_of<CreatePod>(made)) {
    const bool serves = create.pod.metadata.name.starts_with("arxiv-s");
    EXPECT_EQ(create.pod.spec.group.has_value(), !serves) << create.pod.metadata.name;
  }
}

// Otherwise it would wait for ever for pods that the next attempt does not have.
TEST(PodGroup, OfAnEarlierAttemptKeepsNoServerWaiting) {
  Simulation simulation = waiting_simulation(job_with_servers(2, 1));
  simulation.delete_pod(index_of_pod(simulation, "arxiv-1-0"));
  simulation.finish_leaving();
  for (int round = 0; round < 4; ++round) {
    (void)simulation.run_until_idle();
    simulation.finish_leaving();
  }
  ASSERT_EQ(simulation.status().attempt, 2);
  EXPECT_EQ(simulation.world().groups.at(0).metadata.name, "arxiv-2");
  EXPECT_NE(group_of_pod(simulation, "arxiv-s0-1"), "arxiv-1");
  place_all(simulation);
  EXPECT_TRUE(simulation.run_until_idle());
  EXPECT_TRUE(is_true(simulation.status(), condition::kServersReady));
}

TEST(PodGroup, IsNotReleasedWhileNoneOfItsPodsHasAPlace) {
  Simulation simulation = waiting_simulation(small_job());
  simulation.advance(100000);
  EXPECT_TRUE(simulation.run_until_idle());
  EXPECT_EQ(simulation.status().releases, 0);
  // Counted from the first pod that holds a place.
  simulation.schedule_pod(0);
  objects::Pod& placed = simulation.world().pods[0];
  placed.status.conditions.back().last_transition_time = simulation.world().now;
  EXPECT_TRUE(simulation.run_until_idle());
  EXPECT_EQ(simulation.status().releases, 0);
  simulation.advance(601);
  (void)simulation.reconcile();
  EXPECT_EQ(simulation.status().releases, 1);
}

// Pods that exist hold quota, also without a place.
TEST(PodGroup, IsReleasedIfSomeOfItsPodsAreRefused) {
  Simulation simulation = grouped_simulation(small_job());
  simulation.quota = true;
  for (int i = 0; i < 3; ++i) (void)simulation.reconcile();
  ASSERT_EQ(simulation.pods_made(), 1);
  simulation.advance(700);
  (void)simulation.reconcile();
  EXPECT_EQ(simulation.status().releases, 1);
}

// Whoever waits for it waits in vain.
TEST(PodGroup, ThatCannotStandIsNotWaitedForForEver) {
  const std::vector<std::pair<const char*, void (*)(Observed&)>> cases = {
      {"its API is served no more",
       [](Observed& world) {
         world.groups.clear();
         world.group_apis.clear();
       }},
      {"somebody deletes it, and its pods hold it",
       [](Observed& world) { world.groups[0].metadata.deletion_timestamp = world.now; }},
      {"somebody has deleted it and taken its name",
       [](Observed& world) { world.groups[0].metadata.owner_references.clear(); }},
      {"the same, unseen by a watch for the job's groups",
       [](Observed& world) {
         world.groups.clear();
         ApiRefusal& refusal = world.refusals.emplace_back();
         refusal.kind = ApiRefusal::Kind::NameTaken;
         refusal.object = "podgroup arxiv-1";
       }},
  };
  for (const auto& [what, happens] : cases) {
    SCOPED_TRACE(what);
    Simulation simulation = waiting_simulation(small_job());
    happens(simulation.world());
    EXPECT_EQ(count_of<DeletePod>(plan(simulation.world())), 0);
    simulation.advance(601);
    const Plan late = plan(simulation.world());
    EXPECT_EQ(reason_of(late, condition::kScheduled), reason::kReleased);
    EXPECT_EQ(late.status.releases, 1);
  }
}

TEST(PodGroup, IsNotMadeWhereItsApiIsServedNoMore) {
  Simulation simulation = waiting_simulation(small_job());
  simulation.world().groups.clear();
  simulation.world().group_apis.clear();
  EXPECT_EQ(count_of<CreateGroup>(simulation.reconcile()), 0);
  simulation.advance(601);
  EXPECT_TRUE(simulation.run_until_idle());
  simulation.advance(1000);
  EXPECT_TRUE(simulation.run_until_idle());
  EXPECT_EQ(simulation.status().attempt, 2);
  EXPECT_EQ(simulation.status().scheduling->provider, "None");
  place_all(simulation);
  EXPECT_TRUE(simulation.run_until_idle());
  EXPECT_TRUE(is_true(simulation.status(), condition::kRunning));
}

TEST(PodGroup, WaitsInTheSchedulersWords) {
  Simulation simulation = waiting_simulation(small_job());
  add_condition(simulation.world().pods[0], "PodScheduled", false, "Unschedulable", "of the pod");
  Plan made = simulation.reconcile();
  EXPECT_EQ(reason_of(made, condition::kScheduled), reason::kGangPending);
  EXPECT_EQ(
      message_of(made, condition::kScheduled), "2 of 2 nodes are not scheduled: node 0: of the pod"
  );
  simulation.world().groups[0].conditions = {
      {.type = "PodGroupInitiallyScheduled",
       .status = "False",
       .reason = "Unschedulable",
       .message = "of the group"}
  };
  made = simulation.reconcile();
  EXPECT_EQ(
      message_of(made, condition::kScheduled), "2 of 2 nodes are not scheduled: of the group"
  );
  // A pod that vanishes now was deleted: it was there.
  simulation.world().pods.pop_back();
  (void)simulation.reconcile();
  EXPECT_EQ(simulation.status().attempt, 2);
}

TEST(PodGroup, OfVolcanoIsQueuedUntilItsQueueAdmitsIt) {
  Observed observed = grouped(small_job());
  observed.job.spec.scheduling->provider = api::GangProvider::Volcano;
  observed.job.spec.scheduling->volcano.emplace().queue = "night";
  offer(observed, GroupApi::Volcano);
  const Plan first = plan(observed);
  observed.groups = {actions_of<CreateGroup>(first).at(0).group};
  EXPECT_EQ(observed.groups[0].spec.queue, "night");
  for (const CreatePod& create : actions_of<CreatePod>(first)) {
    EXPECT_EQ(create.pod.spec.scheduler_name, "volcano");
    observed.pods.push_back(create.pod);
    observed.pods.back().status.phase = "Pending";
  }
  observed.groups[0].phase = "Pending";
  Plan made = plan(next(observed, first));
  EXPECT_EQ(reason_of(made, condition::kScheduled), reason::kQueued);
  observed.groups[0].phase = "Inqueue";
  observed.groups[0].conditions = {
      {.type = "Unschedulable", .status = "True", .reason = "NotEnoughResources", .message = "full"}
  };
  made = plan(next(observed, first));
  EXPECT_EQ(reason_of(made, condition::kScheduled), reason::kGangPending);
  EXPECT_NE(message_of(made, condition::kScheduled).find("full"), std::string::npos);
}

TEST(PodGroup, GoesAfterThePodsOfItsAttempt) {
  Simulation simulation = waiting_simulation(small_job());
  place_all(simulation);
  EXPECT_TRUE(simulation.run_until_idle());
  simulation.end_pod(1, 70);
  EXPECT_TRUE(simulation.run_until_idle());  // node 0 stops
  EXPECT_EQ(simulation.live_groups(), 1);
  EXPECT_EQ(simulation.world().groups.at(0).metadata.name, "arxiv-1");
  simulation.finish_leaving();
  EXPECT_TRUE(simulation.run_until_idle());
  EXPECT_EQ(simulation.world().groups.at(0).metadata.name, "arxiv-2");
  place_all(simulation);
  EXPECT_TRUE(simulation.run_until_idle());
  // Suspended: the pods first.
  simulation.world().job.spec.suspend = true;
  EXPECT_TRUE(simulation.run_until_idle());
  EXPECT_EQ(simulation.live_groups(), 1);
  simulation.finish_leaving();
  EXPECT_TRUE(simulation.run_until_idle());
  EXPECT_EQ(simulation.live_groups(), 0);
  EXPECT_FALSE(simulation.status().scheduling);
  simulation.world().job.spec.suspend = false;
  EXPECT_TRUE(simulation.run_until_idle());
  EXPECT_EQ(simulation.world().groups.at(0).metadata.name, "arxiv-3");
  // Finished: once no pod is active.
  for (size_t i = 0; i < simulation.world().pods.size(); ++i) simulation.end_pod(i, 0);
  EXPECT_TRUE(simulation.run_until_idle());
  EXPECT_TRUE(is_true(simulation.status(), condition::kComplete));
  EXPECT_EQ(simulation.live_groups(), 0);
}

TEST(PodGroup, OfSomebodyElseIsNotAdopted) {
  Observed observed = grouped(small_job());
  objects::PodGroup foreign;
  foreign.metadata.name = "arxiv-1";
  observed.groups = {foreign};
  const Plan made = plan(observed);
  EXPECT_EQ(reason_of(made, condition::kScheduled), reason::kNameTaken);
  EXPECT_EQ(count_of<CreatePod>(made), 0);
}

}  // namespace
}  // namespace gnn::reconcile
