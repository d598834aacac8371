#include "common/api/fields.h"
#include "controller/reconcile/gang.h"
#include "controller/reconcile/node_replacement.h"
#include "controller/reconcile/queue.h"
#include "controller/reconcile/scheduling.h"
#include "controller/reconcile/servers.h"
#include "tests/controller/reconcile/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <rapidcheck.h>
#include <set>
#include <string>
#include <vector>

namespace gnn::reconcile {
namespace {

constexpr std::array<int64_t, 8> kExitCodes = {0, 1, 64, 70, 75, 76, 77, 137};

// Number and restart of a server's pod; nothing for others.
std::optional<contract::ServerPodNumbers> server_of(const objects::ObjectMeta& meta) {
  return contract::numbers_of_server_pod("arxiv", meta.name);
}

int64_t known_restart(const api::GnnJobStatus& status, int64_t server) {
  if (!status.servers) return 0;
  for (const api::ServerRecord& each : status.servers->pods) {
    if (each.server == server) return each.restart;
  }
  return 0;
}

// What must hold whatever happens; checked after every step.
class Invariants {
 public:
  void check(Simulation& simulation) {
    const api::GnnJobStatus& status = simulation.status();
    RC_ASSERT(!(is_true(status, condition::kComplete) && is_true(status, condition::kFailed)));
    RC_ASSERT(status.attempt >= last_.attempt);
    RC_ASSERT(status.restarts >= last_.restarts);
    RC_ASSERT(status.failures.size() <= static_cast<size_t>(api::kMaxFailureRecords));
    RC_ASSERT(status.machines.size() <= static_cast<size_t>(api::kMaxMachines));
    RC_ASSERT(status.restarts <= simulation.world().job.spec.run_policy.max_restarts);
    RC_ASSERT(static_cast<int64_t>(status.replaced_nodes.size()) <= status.round);
    if (is_finished(last_)) {
      api::GnnJobStatus present = status;
      for (api::Condition& condition : present.conditions) {
        condition.observed_generation = find_condition(last_, condition.type)->observed_generation;
      }
      RC_ASSERT(present.conditions == last_.conditions);
      RC_ASSERT(status.attempt == last_.attempt);
    }
    const int64_t lost = last_.servers ? last_.servers->restarts : 0;
    RC_ASSERT(!status.servers || status.servers->restarts >= lost);
    RC_ASSERT(status.servers || !last_.servers);
    std::map<std::string, std::set<std::string>> pods_of_attempt;
    for (const objects::Pod& pod : simulation.world().pods) {
      if (!is_owned_by(pod.metadata, simulation.world().job)) continue;
      if (const auto numbers = server_of(pod.metadata)) {
        // The status knows every number before its pod exists.
        RC_ASSERT(numbers->restart <= known_restart(status, numbers->server));
        RC_ASSERT(!is_preparing(simulation.world().job));
        continue;
      }
      if (!pod.metadata.labels.contains(std::string(contract::kLabelNode))) {
        RC_ASSERT(simulation.world().job.spec.prepare.has_value());
        continue;
      }
      RC_ASSERT(!is_preparing(simulation.world().job));
      const std::string node = pod.metadata.labels.at(std::string(contract::kLabelNode));
      const std::string attempt = pod.metadata.labels.at(std::string(contract::kLabelAttempt));
      const auto label = pod.metadata.labels.find(std::string(contract::kLabelNodeRestart));
      const std::string restart = label == pod.metadata.labels.end() ? "0" : label->second;
      RC_ASSERT(pods_of_attempt[attempt].insert(node + "/" + restart).second);
      // The status knows every replacement before its pod exists.
      const int64_t known = std::stoll(attempt) == status.attempt
                                ? restart_of(status, std::stoll(node))
                                : std::numeric_limits<int64_t>::max();
      RC_ASSERT(std::stoll(restart) <= known);
      RC_ASSERT(node != "0" || restart == "0");
      RC_ASSERT(std::stoll(node) >= 0);
      RC_ASSERT(std::stoll(node) < simulation.world().job.spec.workers.nodes);
      RC_ASSERT(std::stoll(attempt) <= std::max<int64_t>(status.attempt, 1));
    }
    RC_ASSERT(simulation.live_groups() <= 1);
    RC_ASSERT(!simulation.gave_back_with_pods());
    RC_ASSERT(!simulation.made_pods_without_group());
    RC_ASSERT(!simulation.made_pods_without_key());
    check_data_keys(simulation.world());
    std::set<std::string> types;
    std::set<std::string> messages;
    for (const api::Condition& condition : status.conditions) {
      RC_ASSERT(types.insert(condition.type).second);
      RC_ASSERT(!condition.reason.empty());
      const bool refers = condition.message.starts_with("See ");
      RC_ASSERT(refers || condition.message.empty() || messages.insert(condition.message).second);
    }
    RC_ASSERT(!status.message.starts_with("See "));
    RC_ASSERT(status.state.empty() == status.conditions.empty());
    check_kstatus(status);
    last_ = status;
  }

 private:
  // The workers of an attempt understand each other.
  static void check_data_keys(const Observed& world) {
    std::map<std::string, std::set<std::string>> keys_of_attempt;
    for (const objects::Pod& pod : world.pods) {
      const auto attempt = pod.metadata.labels.find(std::string(contract::kLabelAttempt));
      const auto key = pod.metadata.labels.find(std::string(contract::kLabelDataKey));
      if (attempt == pod.metadata.labels.end() || key == pod.metadata.labels.end()) continue;
      auto& keys = keys_of_attempt[attempt->second];
      keys.insert(key->second);
      RC_ASSERT(keys.size() == 1U);
    }
  }

  // What tools read that know no other conditions, and no state.
  static void check_kstatus(const api::GnnJobStatus& status) {
    const bool stalled = status.state == state::kFailed || status.state == state::kInvalid;
    const bool at_rest = status.state.empty() || status.state == state::kComplete ||
                         status.state == state::kSuspended;
    RC_ASSERT(is_true(status, condition::kStalled) == stalled);
    RC_ASSERT(is_true(status, condition::kReconciling) == (!stalled && !at_rest));
    for (const std::string_view type : {condition::kStalled, condition::kReconciling}) {
      RC_ASSERT(find_condition(status, type) == nullptr || is_true(status, type));
    }
  }

  api::GnnJobStatus last_;
};

// Pods of two attempts are never created beside each other. Only a pod that was replaced may still
// be there.
void check_plan(const Plan& made, const api::GnnJob& job) {
  const int64_t present = std::max<int64_t>(job.status.attempt, 1);
  const bool replaces = !made.status.replaced_nodes.empty();
  const std::vector<DeletePod> deletes = actions_of<DeletePod>(made);
  const auto deleted = std::count_if(deletes.begin(), deletes.end(), [](const DeletePod& each) {
    return !contract::numbers_of_server_pod("arxiv", each.name);
  });
  for (const CreatePod& action : actions_of<CreatePod>(made)) {
    const objects::ObjectMeta& meta = action.pod.metadata;
    if (const auto numbers = server_of(meta)) {
      RC_ASSERT(!is_preparing(job) && !job.spec.suspend && !is_finished(job.status));
      RC_ASSERT(numbers->restart == known_restart(job.status, numbers->server));
      RC_ASSERT(numbers->server < desired_servers(job));
      continue;
    }
    if (is_preparing(job)) {
      RC_ASSERT(meta.name == contract::prepare_pod_name(job.metadata.name, present));
      RC_ASSERT(deleted == 0);
      continue;
    }
    RC_ASSERT(std::stoll(meta.labels.at(std::string(contract::kLabelAttempt))) == present);
    RC_ASSERT(replaces || deleted == 0);
  }
}

// A job with a queue gets pods only while its Workload is admitted.
void check_queue(const Plan& made, const Observed& seen) {
  if (!seen.config.kueue || actions_of<CreatePod>(made).empty()) return;
  if (queue_of(seen.job, seen.config).empty()) return;
  const bool admitted = std::ranges::any_of(seen.workloads, [](const objects::Workload& each) {
    return objects::is_true(each, objects::kueue::kAdmitted) &&
           !objects::is_true(each, objects::kueue::kEvicted) && each.admission;
  });
  RC_ASSERT(admitted);
  for (const CreatePod& action : actions_of<CreatePod>(made)) {
    RC_ASSERT(action.pod.metadata.labels.contains(std::string(objects::kueue::kLabelPodSet)));
    RC_ASSERT(action.pod.spec.node_selector.contains("flavor"));
  }
}

void pass(Simulation& simulation, std::optional<size_t> stop_after = std::nullopt) {
  const Observed before = simulation.world();
  // As many servers as are admitted, whatever the spec says by now.
  const auto held = with_admitted_servers(before);
  const Plan made = simulation.reconcile(stop_after);
  check_plan(made, held ? held->job : before.job);
  check_queue(made, before);
  RC_ASSERT(simulation.world().job.spec.suspend == before.job.spec.suspend);
}

// What may happen in a history. Passes and pods that become ready are listed more than once: they
// happen more often.
enum class Event {
  Pass,
  PassAgain,
  PassOnceMore,
  CrashedPass,
  SchedulePod,
  ReadyPod,
  ReadyPodAgain,
  EndPod,
  DeletePod,
  FinishLeaving,
  EvictPod,
  AdvanceClock,
  ToggleSuspend,
  ReportProgress,
  ToggleQuota,
  OutOfMemory,
  RefusePod,
  SilencePod,
  AwaitNode,
  ToggleBusy,
  ScaleServers,
  TakeName,
  DropConfigMap,
  DeleteGroups,
  ToggleGroups,
  Admit,
  AdmitAgain,
  Evict,
  SetActive,
  DeleteWorkloads,
  ToggleQueue,
};
constexpr int kEvents = static_cast<int>(Event::ToggleQueue) + 1;

// One event and two free choices.
struct Step {
  Event event = Event::Pass;
  size_t which = 0;
  size_t how = 0;
};

// Any number below `end`, also in the first histories, which RapidCheck keeps small.
template <class T>
T any_below(T end) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<T>(0, end));
}

Step any_step() {
  return {
      .event = static_cast<Event>(any_below(kEvents)),
      .which = any_below<size_t>(16),
      .how = any_below<size_t>(1000)
  };
}

// Node 0 says that it waits for another pod of a node, or only that it would.
void await_node(Simulation& simulation, int64_t round, int64_t node) {
  Observed& world = simulation.world();
  world.progress = api::decode_report(result_message(
      world.job,
      world.job.status.attempt,
      0,
      R"(, "restartsNodes": true, "round": )" + std::to_string(round) +
          (node == 0 ? "" : R"(, "awaitedNode": )" + std::to_string(node))
  ));
}

// Every failure may be answered by a new pod of the node alone.
void replace_nodes(api::GnnJob& job) {
  using Reason = api::FailureReason;
  job.spec.run_policy.failure_policy.rules.push_back(
      {.reasons =
           {Reason::OutOfMemory,
            Reason::Error,
            Reason::PeerLost,
            Reason::Preempted,
            Reason::Disrupted,
            Reason::PodDeleted,
            Reason::NodeLost},
       .action = api::FailureAction::RestartNode}
  );
}

// Rules about servers, the first of which matches 64, and the second 70.
void judge_servers_by_rules(api::GnnJob& job) {
  std::vector<api::FailureRule>& rules = job.spec.run_policy.failure_policy.rules;
  constexpr auto kServer = api::FailureRole::Server;
  rules.push_back({.role = kServer, .exit_codes = {64}, .action = api::FailureAction::Ignore});
  rules.push_back({.role = kServer, .exit_codes = {70}, .action = api::FailureAction::Fail});
}

// A pod of somebody else gets the name that the next pod of a server would have, or leaves.
void take_name(Simulation& simulation, const Step& step) {
  const api::GnnJob& job = simulation.world().job;
  if (step.how % 2 == 0 || !job.spec.servers) return simulation.delete_foreign_pods();
  const int64_t server = static_cast<int64_t>(step.which) % desired_servers(job);
  const int64_t restart =
      known_restart(job.status, server) + static_cast<int64_t>(step.how / 2 % 2);
  simulation.make_foreign_pod(contract::server_pod_name(job.metadata.name, server, restart));
}

// As many servers' pods as others, although these are more.
size_t any_pod(Simulation& simulation, const Step& step) {
  const auto& pods = simulation.world().pods;
  std::vector<size_t> servers;
  for (size_t i = 0; i < pods.size(); ++i) {
    if (server_of(pods[i].metadata)) servers.push_back(i);
  }
  return servers.empty() || step.how % 2 == 0 ? step.which : servers[step.which % servers.size()];
}

void set_queue(api::GnnJob& job, const std::string& queue) {
  if (queue.empty()) {
    job.metadata.labels.erase(std::string(objects::kueue::kLabelQueue));
  } else {
    job.metadata.labels[std::string(objects::kueue::kLabelQueue)] = queue;
  }
}

void play(Simulation& simulation, const Step& step) {
  Observed& world = simulation.world();
  const size_t pod = any_pod(simulation, step);
  switch (step.event) {
    case Event::Pass:
    case Event::PassAgain:
    case Event::PassOnceMore:
      return pass(simulation);
    case Event::CrashedPass:
      return pass(simulation, step.how % 6);
    case Event::SchedulePod:
      return simulation.schedule_pod(pod);
    case Event::ReadyPod:
    case Event::ReadyPodAgain:
      return simulation.ready_pod(pod);
    case Event::EndPod:
      return simulation.end_pod(pod, kExitCodes[step.how / 2 % kExitCodes.size()]);
    case Event::DeletePod:
      return simulation.delete_pod(pod);
    case Event::FinishLeaving:
      return simulation.finish_leaving();
    case Event::EvictPod:
      return simulation.evict_pod(pod);
    case Event::AdvanceClock:
      return simulation.advance(static_cast<int64_t>(step.how % 700));
    case Event::ToggleSuspend:
      world.job.spec.suspend = !world.job.spec.suspend;
      ++world.job.metadata.generation;
      return;
    case Event::ReportProgress:
      world.progress = api::decode_report(result_message(
          world.job,
          world.job.status.attempt,
          0,
          R"(, "round": )" + std::to_string(step.how % 6) + R"(, "epoch": )" +
              std::to_string(step.which)
      ));
      return;
    case Event::ToggleQuota:
      simulation.quota = !simulation.quota;
      return;
    case Event::OutOfMemory:
      return simulation.oom_pod(pod);
    case Event::RefusePod:
      return simulation.refuse_pod(pod);
    case Event::SilencePod:
      return simulation.silence_pod(pod);
    case Event::ToggleBusy:
      world.busy = !world.busy;
      return;
    case Event::ScaleServers:
      if (!world.job.spec.servers) return;
      world.job.spec.servers->nodes =
          world.job.spec.placement->partitions + static_cast<int64_t>(step.how % 3);
      ++world.job.metadata.generation;
      return;
    case Event::TakeName:
      return take_name(simulation, step);
    case Event::DropConfigMap:
      return world.config_map.reset();
    case Event::DeleteGroups:
      return simulation.delete_groups();
    case Event::ToggleGroups:
      // The API is served or not, and pods lose their group or not.
      if (step.how % 2 == 0) {
        simulation.drops_groups = !simulation.drops_groups;
      } else {
        world.group_apis =
            world.group_apis.empty() ? world.config.group_apis : std::vector<objects::GroupApi>();
      }
      return;
    case Event::Admit:
    case Event::AdmitAgain:
      return simulation.admit_workloads();
    case Event::Evict:
      return simulation.evict_workloads(step.how % 2 == 0 ? "Preempted" : "PodsReadyTimeout");
    case Event::SetActive:
      return simulation.set_workloads_active(step.how % 3 > 0);
    case Event::DeleteWorkloads:
      return simulation.delete_workloads();
    case Event::ToggleQueue:
      return set_queue(world.job, std::array{"", "first", "second"}[step.how % 3]);
    case Event::AwaitNode:
      return await_node(
          simulation,
          world.job.status.round + static_cast<int64_t>(step.how % 2),
          static_cast<int64_t>(step.which) % world.job.spec.workers.nodes
      );
  }
}

void succeed_all(Simulation& simulation) {
  for (size_t i = 0; i < simulation.world().pods.size(); ++i) simulation.end_pod(i, 0);
}

// A worker that has no place ends with nothing.
void succeed_running(Simulation& simulation) {
  for (size_t i = 0; i < simulation.world().pods.size(); ++i) {
    if (!simulation.world().pods[i].spec.node_name.empty()) simulation.end_pod(i, 0);
  }
}

// A few passes in which every pod gets a machine at once.
void run_all(Simulation& simulation) {
  for (int round = 0; round < 3; ++round) {
    pass(simulation);
    for (size_t i = 0; i < simulation.world().pods.size(); ++i) simulation.ready_pod(i);
  }
}

// From here on nothing stands in the job's way: every pod is scheduled, runs and succeeds.
bool cooperate_until_finished(Simulation& simulation, Invariants& invariants) {
  simulation.quota = false;
  simulation.delete_foreign_pods();
  simulation.world().job.spec.suspend = false;
  ++simulation.world().job.metadata.generation;
  // Once at last, when pods may wait with their group.
  const int groups_deleted = any_below<int>(6);
  for (int round = 0; round < 300; ++round) {
    simulation.set_workloads_active(true);
    simulation.admit_workloads();
    pass(simulation);
    invariants.check(simulation);
    if (is_finished(simulation.status())) return true;
    if (round == groups_deleted) simulation.delete_groups();
    simulation.finish_leaving();
    simulation.ready_all();
    pass(simulation);
    invariants.check(simulation);
    succeed_running(simulation);
    simulation.advance(30);
  }
  return false;
}

// A job is grouped, in an API whose groups are held by their pods or in one whose groups are not.
Simulation any_simulation(api::GnnJob job) {
  const bool grouped = *rc::gen::arbitrary<bool>();
  if (grouped) job.spec.scheduling.emplace();
  const bool native = *rc::gen::arbitrary<bool>();
  if (grouped && !native) {
    job.spec.workers.pod_template->scheduler_name = "coscheduler";
    if (job.spec.servers) job.spec.servers->pod_template->scheduler_name = "coscheduler";
  }
  Simulation simulation(std::move(job));
  Observed& world = simulation.world();
  world.config.coscheduling_schedulers = {"coscheduler"};
  world.config.group_apis = {objects::GroupApi::Native, objects::GroupApi::Coscheduling};
  world.group_apis = world.config.group_apis;
  world.config.kueue = *rc::gen::arbitrary<bool>();
  if (!world.config.kueue) return simulation;
  world.kueue = objects::KueueVersion::V1Beta2;
  world.flavors["flavor"] = {.node_labels = {{"flavor", "spot"}}, .tolerations = {}};
  world.config.kueue_manages_all = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>()) set_queue(world.job, "first");
  return simulation;
}

api::GnnJob any_job() {
  const auto nodes = *rc::gen::inRange<int64_t>(1, 5);
  const bool prepares = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>()) return prepares ? job_with_prepare(nodes) : small_job(nodes);
  api::GnnJob job = job_with_servers(nodes, *rc::gen::inRange<int64_t>(1, 4));
  job.spec.placement->partitions = std::min(nodes, *job.spec.servers->nodes);
  if (*rc::gen::arbitrary<bool>()) judge_servers_by_rules(job);
  if (prepares) {
    job.spec.prepare = job_with_prepare().spec.prepare;
    job.spec.dataset = job_with_prepare().spec.dataset;
  }
  return job;
}

TEST(Properties, EveryHistoryKeepsTheRulesAndEnds) {
  const bool held = rc::check([] {
    api::GnnJob job = any_job();
    job.spec.run_policy.max_restarts = *rc::gen::inRange<int64_t>(0, 4);
    job.spec.run_policy.failure_policy.max_restarts_per_node = 0;
    if (*rc::gen::arbitrary<bool>()) replace_nodes(job);
    Simulation simulation = any_simulation(job);
    Invariants invariants;
    if (*rc::gen::arbitrary<bool>()) run_all(simulation);
    const size_t length = any_below<size_t>(120);
    for (size_t i = 0; i < length; ++i) {
      play(simulation, any_step());
      invariants.check(simulation);
    }
    RC_ASSERT(cooperate_until_finished(simulation, invariants));
    // Nothing holds the pods, and nothing is left to do.
    RC_ASSERT(simulation.run_until_idle());
    for (const objects::Pod& pod : simulation.world().pods) {
      RC_ASSERT(pod.metadata.finalizers.empty() || !is_owned_by(pod.metadata, job));
    }
    simulation.finish_leaving();
    simulation.advance(60);
    RC_ASSERT(simulation.run_until_idle());
    RC_ASSERT(simulation.live_groups() == 0);
    for (const objects::Workload& each : simulation.world().workloads) {
      RC_ASSERT(each.metadata.finalizers.empty());
    }
  });
  EXPECT_TRUE(held);
}

TEST(Properties, ACarriedOutPlanLeavesNothingToPlan) {
  const bool held = rc::check([] {
    api::GnnJob job = any_job();
    if (*rc::gen::arbitrary<bool>()) replace_nodes(job);
    Simulation simulation = any_simulation(job);
    const auto length = *rc::gen::inRange<size_t>(0, 60);
    for (size_t i = 0; i < length; ++i) {
      play(simulation, any_step());
    }
    simulation.quota = false;
    RC_ASSERT(simulation.run_until_idle());
  });
  EXPECT_TRUE(held);
}

// A job's whole life, in rounds: a pass or more, then pods start at once, and while the job runs or
// prepares its data `happen` says what becomes of them. Returns the number of rounds.
int live(
    Simulation& simulation,
    const std::function<void(int round)>& reconcile,
    const std::function<void()>& happen
) {
  int round = 0;
  for (; round < 200 && !is_finished(simulation.status()); ++round) {
    reconcile(round);
    simulation.finish_leaving();
    for (size_t i = 0; i < simulation.world().pods.size(); ++i) simulation.ready_pod(i);
    const api::GnnJobStatus& status = simulation.status();
    if (is_true(status, condition::kRunning) || status.state == state::kPreparing) happen();
    simulation.advance(5);
  }
  return round;
}

// The same with the controller killed after its k-th write. Returns the number of writes.
size_t live_with_crash(
    Simulation& simulation, std::optional<size_t> crash_at, const std::function<void()>& happen
) {
  Invariants invariants;
  size_t writes = 0;
  const auto reconcile = [&](int) {
    const size_t planned = plan(simulation.world()).actions.size() + 1;
    const bool crash = crash_at && *crash_at >= writes && *crash_at < writes + planned;
    (void)simulation.reconcile(crash ? std::optional(*crash_at - writes) : std::nullopt);
    invariants.check(simulation);
    writes += planned;
  };
  (void)live(simulation, reconcile, happen);
  return writes;
}

TEST(Properties, ACrashAfterAnyWriteChangesNoResult) {
  const auto live_once = [](std::optional<size_t> crash_at) {
    Simulation simulation(small_job(3));
    bool failed_once = false;
    const size_t writes = live_with_crash(simulation, crash_at, [&] {
      if (!failed_once) {
        simulation.end_pod(1, 70);
        failed_once = true;
      } else if (simulation.status().attempt > 1) {
        succeed_all(simulation);
      }
    });
    return std::pair(simulation.status(), writes);
  };
  const auto [undisturbed, writes] = live_once(std::nullopt);
  ASSERT_TRUE(is_true(undisturbed, condition::kComplete));
  EXPECT_EQ(undisturbed.attempt, 2);
  EXPECT_EQ(undisturbed.restarts, 1);
  for (size_t k = 0; k < writes; ++k) {
    const api::GnnJobStatus crashed = live_once(k).first;
    EXPECT_TRUE(is_true(crashed, condition::kComplete)) << k;
    EXPECT_EQ(crashed.attempt, 2) << k;
    EXPECT_EQ(crashed.restarts, 1) << k;
  }
}

// One pass, after the k-th round, still sees the status from before it.
TEST(Properties, APassWithAStatusThatIsBehindChangesNoResult) {
  const auto live_once = [](std::optional<int> behind_at) {
    Simulation simulation(small_job(3));
    Invariants invariants;
    const auto reconcile = [&](int round) {
      const api::GnnJobStatus before = simulation.status();
      (void)simulation.reconcile();
      if (behind_at == round) (void)simulation.reconcile(std::nullopt, before);
      invariants.check(simulation);
    };
    const int rounds = live(simulation, reconcile, [&] {
      if (simulation.status().attempt == 1) {
        simulation.end_pod(1, 70);
      } else {
        succeed_all(simulation);
      }
    });
    return std::pair(simulation.status(), rounds);
  };
  const auto [undisturbed, rounds] = live_once(std::nullopt);
  ASSERT_TRUE(is_true(undisturbed, condition::kComplete));
  for (int k = 0; k < rounds; ++k) {
    const api::GnnJobStatus found = live_once(k).first;
    EXPECT_TRUE(is_true(found, condition::kComplete)) << k;
    EXPECT_EQ(found.attempt, 2) << k;
    EXPECT_EQ(found.restarts, 1) << k;
  }
}

// What the pods of a job with `prepare` do: the first that prepares the data fails, the second
// succeeds, and so do the workers.
void fail_once_then_succeed(Simulation& simulation) {
  if (simulation.status().attempt == 1) {
    simulation.end_pod(0, 70);
  } else {
    succeed_all(simulation);
  }
}

// The controller is killed after its k-th write, or a pass after the k-th round still sees the status
// from before it.
TEST(Properties, NoCrashAndNoStatusThatIsBehindPreparesTheDataTwice) {
  const auto check = [](const Simulation& simulation, const std::string& where) {
    const api::GnnJobStatus& status = simulation.status();
    EXPECT_TRUE(is_true(status, condition::kComplete)) << where;
    EXPECT_TRUE(is_true(status, condition::kPrepared)) << where;
    EXPECT_EQ(status.attempt, 2) << where;
    EXPECT_EQ(status.restarts, 1) << where;
    // Two that prepared, and the gang's two.
    EXPECT_EQ(simulation.pods_made(), 4) << where;
  };
  const auto crashed_at = [&](std::optional<size_t> k) {
    Simulation simulation(job_with_prepare());
    const size_t writes =
        live_with_crash(simulation, k, [&] { fail_once_then_succeed(simulation); });
    check(simulation, k ? "killed after write " + std::to_string(*k) : "undisturbed");
    return writes;
  };
  const auto behind_at = [&](int k) {
    Simulation simulation(job_with_prepare());
    const auto reconcile = [&](int round) {
      const api::GnnJobStatus before = simulation.status();
      (void)simulation.reconcile();
      if (round == k) (void)simulation.reconcile(std::nullopt, before);
    };
    const int rounds = live(simulation, reconcile, [&] { fail_once_then_succeed(simulation); });
    check(simulation, "behind in round " + std::to_string(k));
    return rounds;
  };
  const size_t writes = crashed_at(std::nullopt);
  for (size_t k = 0; k < writes; ++k) (void)crashed_at(k);
  const int rounds = behind_at(-1);
  for (int k = 0; k < rounds; ++k) (void)behind_at(k);
}

// A node is lost and replaced, with the controller killed after its k-th write, for every k.
TEST(Properties, ACrashAfterAnyWriteLosesNoReplacementAndMakesNoSecond) {
  const auto live_once = [](std::optional<size_t> crash_at) {
    api::GnnJob job = small_job(3);
    replace_nodes(job);
    Simulation simulation(job);
    bool lost_once = false;
    const size_t writes = live_with_crash(simulation, crash_at, [&] {
      if (!lost_once) {
        simulation.end_pod(1, 137);
        await_node(simulation, 1, 1);
        lost_once = true;
      } else if (simulation.status().round > 0) {
        await_node(simulation, 1, 0);
        succeed_all(simulation);
      }
    });
    return std::pair(simulation.status(), writes);
  };
  const auto [undisturbed, writes] = live_once(std::nullopt);
  for (size_t k = 0; k <= writes; ++k) {
    const api::GnnJobStatus status = k == writes ? undisturbed : live_once(k).first;
    EXPECT_TRUE(is_true(status, condition::kComplete)) << k;
    EXPECT_EQ(status.attempt, 1) << k;
    EXPECT_EQ(status.restarts, 1) << k;
    EXPECT_EQ(status.replaced_nodes, std::vector<int64_t>{1}) << k;
  }
}

size_t index_of(Simulation& simulation, std::string_view prefix) {
  const auto& pods = simulation.world().pods;
  const auto found = std::find_if(pods.begin(), pods.end(), [&](const objects::Pod& pod) {
    return pod.metadata.name.starts_with(prefix);
  });
  return static_cast<size_t>(found - pods.begin());
}

// A server is lost, with the controller killed after its k-th write, for every k.
TEST(Properties, ACrashAfterAnyWriteReplacesALostServerOnce) {
  const auto live_once = [](std::optional<size_t> crash_at) {
    Simulation simulation(job_with_servers());
    bool lost_once = false;
    const size_t writes = live_with_crash(simulation, crash_at, [&] {
      const auto& servers = simulation.status().servers;
      if (!lost_once) {
        simulation.end_pod(index_of(simulation, "arxiv-s1-"), 70);
        lost_once = true;
      } else if (servers && servers->restarts > 0 && servers->ready == 2) {
        succeed_all(simulation);
      }
    });
    EXPECT_EQ(simulation.pods_made(), 5);
    return std::pair(simulation.status(), writes);
  };
  const auto [undisturbed, writes] = live_once(std::nullopt);
  for (size_t k = 0; k <= writes; ++k) {
    const api::GnnJobStatus status = k == writes ? undisturbed : live_once(k).first;
    EXPECT_TRUE(is_true(status, condition::kComplete)) << k;
    EXPECT_EQ(status.attempt, 1) << k;
    EXPECT_EQ(status.restarts, 0) << k;
    EXPECT_EQ(status.servers->restarts, 1) << k;
  }
}

// What may befall a server, in any order, with passes that are cut off anywhere.
TEST(Properties, NoFaultOfAServerTouchesAWorkerAndAllServersRunAgain) {
  const bool held = rc::check([] {
    Simulation simulation(job_with_servers(2, *rc::gen::inRange<int64_t>(1, 4)));
    Invariants invariants;
    const auto ready_all = [&] {
      for (size_t i = 0; i < simulation.world().pods.size(); ++i) simulation.ready_pod(i);
    };
    const auto workers = [&] {
      std::set<std::string> uids;
      for (const objects::Pod& pod : simulation.world().pods) {
        if (!server_of(pod.metadata) && !pod.metadata.deletion_timestamp) {
          uids.insert(pod.metadata.uid);
        }
      }
      return uids;
    };
    pass(simulation);
    ready_all();
    pass(simulation);
    const std::set<std::string> at_first = workers();
    RC_ASSERT(at_first.size() == 2U);
    const auto length = *rc::gen::inRange<size_t>(0, 60);
    for (size_t i = 0; i < length; ++i) {
      Step step = any_step();
      auto& pods = simulation.world().pods;
      step.which %= pods.size();
      const bool of_server = server_of(pods[step.which].metadata).has_value();
      switch (step.event) {
        case Event::EndPod:
          if (of_server)
            simulation.end_pod(step.which, std::array{0, 1, 70, 76, 137}[step.how % 5]);
          break;
        case Event::DeletePod:
        case Event::EvictPod:
        case Event::OutOfMemory:
        case Event::RefusePod:
        case Event::SilencePod:
          step.how -= step.how % 2;
          if (of_server) play(simulation, step);
          break;
        case Event::AdvanceClock:
          simulation.advance(static_cast<int64_t>(step.how % 60));
          break;
        case Event::FinishLeaving:
        case Event::CrashedPass:
        case Event::ToggleBusy:
        case Event::ScaleServers:
        case Event::TakeName:
        case Event::DropConfigMap:
          play(simulation, step);
          break;
        default:
          pass(simulation);
          ready_all();
      }
      invariants.check(simulation);
      RC_ASSERT(simulation.status().attempt == 1);
      RC_ASSERT(simulation.status().restarts == 0);
      RC_ASSERT(!is_finished(simulation.status()));
      RC_ASSERT(workers() == at_first);
    }
    simulation.delete_foreign_pods();
    for (int round = 0; round < 20; ++round) {
      pass(simulation);
      simulation.finish_leaving();
      ready_all();
      simulation.advance(400);
    }
    pass(simulation);
    RC_ASSERT(is_true(simulation.status(), condition::kServersReady));
    RC_ASSERT(simulation.status().attempt == 1);
    RC_ASSERT(
        simulation.world().pods.size() ==
        2U + static_cast<size_t>(desired_servers(simulation.world().job))
    );
  });
  EXPECT_TRUE(held);
}

// Two gangs of two nodes on three machines, or of a node and a server on two, of one namespace or two:
// neither deadlock nor livelock.
TEST(Properties, TwoHalfScheduledGangsBothRunInTheEnd) {
  const bool held = rc::check([] {
    const bool serve = *rc::gen::arbitrary<bool>();
    const auto job = serve ? job_with_servers(1, 1) : small_job();
    const int machines = serve ? 2 : 3;
    const auto first_pod = *rc::gen::inRange<size_t>(0, 2);
    const auto runs_whole = [&](const api::GnnJobStatus& status) {
      return is_true(status, condition::kRunning) &&
             (!serve || is_true(status, condition::kServersReady));
    };
    std::array<Simulation, 2> gangs = {Simulation(job), Simulation(job)};
    gangs[1].world().job.metadata.uid = "uid-" + std::to_string(*rc::gen::inRange(0, 1000));
    gangs[1].world().job.metadata.creation_timestamp = at(1);
    if (*rc::gen::arbitrary<bool>()) gangs[1].world().job.metadata.namespace_ = "another";
    for (Simulation& gang : gangs) gang.world().job.spec.run_policy.scheduling_timeout_seconds = 20;
    std::array<int64_t, 2> done_at = {0, 0};
    const auto all_done = [&] { return done_at[0] > 0 && done_at[1] > 0; };
    for (int64_t second = 0; second < 2000 && !all_done(); ++second) {
      int used = 0;
      for (Simulation& gang : gangs) {
        for (const objects::Pod& pod : gang.world().pods)
          used += pod.spec.node_name.empty() ? 0 : 1;
      }
      // At first each gets one machine; then whoever asks first gets what is free.
      for (Simulation& gang : gangs) {
        for (size_t i = 0; i < gang.world().pods.size(); ++i) {
          const bool first_grab = second > 5 || i == first_pod;
          if (gang.world().pods[i].spec.node_name.empty() && used < machines && first_grab) {
            gang.ready_pod(i);
            ++used;
          }
        }
      }
      for (size_t g = 0; g < gangs.size(); ++g) {
        Simulation& gang = gangs[g];
        gang.world().older_gang.reset();
        const Observed& other = gangs[1 - g].world();
        if (!other.pods.empty() && is_older_gang_in_placement(other.job, gang.world().job)) {
          gang.world().older_gang = "other";
        }
        pass(gang);
        gang.finish_leaving();
        if (runs_whole(gang.status())) {
          for (size_t i = 0; i < 2; ++i) gang.end_pod(i, 0);
        }
        if (done_at[g] == 0 && is_true(gang.status(), condition::kComplete)) done_at[g] = second;
        gang.advance(1);
      }
      // Machines of finished jobs are free again.
      for (Simulation& gang : gangs) {
        if (is_finished(gang.status())) gang.world().pods.clear();
      }
    }
    RC_ASSERT(all_done());
  });
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace gnn::reconcile
