#include "controller/reconcile/gang.h"
#include "tests/controller/reconcile/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <rapidcheck.h>
#include <set>
#include <string>

namespace gnn::reconcile {
namespace {

constexpr std::array<std::int64_t, 8> kExitCodes = {0, 1, 64, 70, 75, 76, 77, 137};

/// What must hold whatever happens; looked at after every step.
class Invariants {
 public:
  void check(Simulation& simulation) {
    const api::GnnJobStatus& status = simulation.status();
    RC_ASSERT(!(is_true(status, condition::kComplete) && is_true(status, condition::kFailed)));
    RC_ASSERT(status.attempt >= last_.attempt);
    RC_ASSERT(status.restarts >= last_.restarts);
    RC_ASSERT(status.restarts <= simulation.world().job.spec.run_policy.max_restarts);
    if (is_finished(last_)) {
      api::GnnJobStatus present = status;
      for (api::Condition& condition : present.conditions) {
        condition.observed_generation = find_condition(last_, condition.type)->observed_generation;
      }
      RC_ASSERT(present.conditions == last_.conditions);
      RC_ASSERT(status.attempt == last_.attempt);
    }
    std::map<std::string, std::set<std::string>> nodes_of_attempt;
    for (const objects::Pod& pod : simulation.world().pods) {
      const std::string node = pod.metadata.labels.at(std::string(contract::kLabelNode));
      const std::string attempt = pod.metadata.labels.at(std::string(contract::kLabelAttempt));
      RC_ASSERT(nodes_of_attempt[attempt].insert(node).second);
      RC_ASSERT(std::stoll(node) >= 0);
      RC_ASSERT(std::stoll(node) < simulation.world().job.spec.workers.nodes);
      RC_ASSERT(std::stoll(attempt) <= std::max<std::int64_t>(status.attempt, 1));
    }
    std::set<std::string> types;
    for (const api::Condition& condition : status.conditions) {
      RC_ASSERT(types.insert(condition.type).second);
      RC_ASSERT(!condition.reason.empty());
    }
    RC_ASSERT(status.state.empty() == status.conditions.empty());
    last_ = status;
  }

 private:
  api::GnnJobStatus last_;
};

/// Pods of two attempts are never made beside each other.
void check_plan(const Plan& made, std::int64_t present) {
  for (const CreatePod& action : actions_of<CreatePod>(made)) {
    const auto& labels = action.pod.metadata.labels;
    RC_ASSERT(
        std::stoll(labels.at(std::string(contract::kLabelAttempt))) ==
        std::max<std::int64_t>(present, 1)
    );
    RC_ASSERT(count_of<DeletePod>(made) == 0);
  }
}

void pass(Simulation& simulation, std::optional<std::size_t> stop_after = std::nullopt) {
  const std::int64_t present = simulation.status().attempt;
  check_plan(simulation.reconcile(stop_after), present);
}

/// One thing that happens: number and two choices.
struct Step {
  int what = 0;
  std::size_t which = 0;
  std::size_t how = 0;
};

void play(Simulation& simulation, const Step& step) {
  Observed& world = simulation.world();
  switch (step.what) {
    case 0:
    case 1:
    case 2:
      pass(simulation);
      break;
    case 3:
      pass(simulation, step.how % 6);
      break;
    case 4:
      simulation.schedule_pod(step.which);
      break;
    case 5:
    case 6:
      simulation.ready_pod(step.which);
      break;
    case 7:
      simulation.end_pod(step.which, kExitCodes[step.how % kExitCodes.size()]);
      break;
    case 8:
      simulation.delete_pod(step.which);
      break;
    case 9:
      simulation.finish_leaving();
      break;
    case 10:
      simulation.evict_pod(step.which);
      break;
    case 11:
      simulation.advance(static_cast<std::int64_t>(step.how % 700));
      break;
    case 12:
      world.job.spec.suspend = !world.job.spec.suspend;
      ++world.job.metadata.generation;
      break;
    case 13:
      world.progress = parse_report(result_message(
          world.job,
          world.job.status.attempt,
          0,
          R"(, "round": )" + std::to_string(step.how % 6) + R"(, "epoch": )" +
              std::to_string(step.which)
      ));
      break;
    case 14:
      simulation.quota = !simulation.quota;
      break;
    case 15:
      simulation.oom_pod(step.which);
      break;
    default:
      break;
  }
}

constexpr int kStepKinds = 16;

/// The world lets the job go on: everything gets a place, runs and ends well.
bool cooperate_until_finished(Simulation& simulation, Invariants& invariants) {
  simulation.quota = false;
  simulation.world().job.spec.suspend = false;
  ++simulation.world().job.metadata.generation;
  for (int round = 0; round < 300; ++round) {
    pass(simulation);
    invariants.check(simulation);
    if (is_finished(simulation.status())) return true;
    simulation.finish_leaving();
    for (std::size_t i = 0; i < simulation.world().pods.size(); ++i) simulation.ready_pod(i);
    pass(simulation);
    invariants.check(simulation);
    for (std::size_t i = 0; i < simulation.world().pods.size(); ++i) simulation.end_pod(i, 0);
    simulation.advance(30);
  }
  return false;
}

TEST(Properties, EveryHistoryKeepsTheRulesAndEnds) {
  const bool held = rc::check([] {
    api::GnnJob job = small_job(*rc::gen::inRange<std::int64_t>(1, 5));
    job.spec.run_policy.max_restarts = *rc::gen::inRange<std::int64_t>(0, 4);
    Simulation simulation(job);
    Invariants invariants;
    const auto length = *rc::gen::inRange<std::size_t>(0, 120);
    for (std::size_t i = 0; i < length; ++i) {
      play(
          simulation,
          {.what = *rc::gen::inRange(0, kStepKinds),
           .which = *rc::gen::inRange<std::size_t>(0, 16),
           .how = *rc::gen::inRange<std::size_t>(0, 1000)}
      );
      invariants.check(simulation);
    }
    RC_ASSERT(cooperate_until_finished(simulation, invariants));
    // Nothing holds the pods any more, and nothing is left to do.
    RC_ASSERT(simulation.settle());
    for (const objects::Pod& pod : simulation.world().pods) {
      RC_ASSERT(pod.metadata.finalizers.empty() || !is_owned_by(pod.metadata, job));
    }
  });
  EXPECT_TRUE(held);
}

TEST(Properties, APlanThatIsCarriedOutLeavesNothingToPlan) {
  const bool held = rc::check([] {
    Simulation simulation(small_job(*rc::gen::inRange<std::int64_t>(1, 5)));
    const auto length = *rc::gen::inRange<std::size_t>(0, 60);
    for (std::size_t i = 0; i < length; ++i) {
      play(
          simulation,
          {.what = *rc::gen::inRange(0, kStepKinds),
           .which = *rc::gen::inRange<std::size_t>(0, 16),
           .how = *rc::gen::inRange<std::size_t>(0, 1000)}
      );
    }
    simulation.quota = false;
    RC_ASSERT(simulation.settle());
  });
  EXPECT_TRUE(held);
}

/// A job's whole life with the controller killed after its k-th write, for every k.
TEST(Properties, ACrashAfterAnyWriteChangesNothingOfTheEnd) {
  const auto live = [](std::optional<std::size_t> crash_at) {
    Simulation simulation(small_job(3));
    Invariants invariants;
    std::size_t writes = 0;
    bool failed_once = false;
    for (int round = 0; round < 200 && !is_finished(simulation.status()); ++round) {
      const std::size_t planned = plan(simulation.world()).actions.size() + 1;
      const bool crash = crash_at && *crash_at >= writes && *crash_at < writes + planned;
      (void)simulation.reconcile(crash ? std::optional(*crash_at - writes) : std::nullopt);
      writes += planned;
      simulation.finish_leaving();
      for (std::size_t i = 0; i < simulation.world().pods.size(); ++i) simulation.ready_pod(i);
      if (is_true(simulation.status(), condition::kRunning)) {
        if (!failed_once) {
          simulation.end_pod(1, 70);
          failed_once = true;
        } else if (simulation.status().attempt > 1) {
          for (std::size_t i = 0; i < simulation.world().pods.size(); ++i) simulation.end_pod(i, 0);
        }
      }
      simulation.advance(5);
    }
    return std::pair(simulation.status(), writes);
  };
  const auto [undisturbed, writes] = live(std::nullopt);
  ASSERT_TRUE(is_true(undisturbed, condition::kComplete));
  EXPECT_EQ(undisturbed.attempt, 2);
  EXPECT_EQ(undisturbed.restarts, 1);
  for (std::size_t k = 0; k < writes; ++k) {
    const api::GnnJobStatus crashed = live(k).first;
    EXPECT_TRUE(is_true(crashed, condition::kComplete)) << k;
    EXPECT_EQ(crashed.attempt, 2) << k;
    EXPECT_EQ(crashed.restarts, 1) << k;
  }
}

/// Two gangs of two on three places: neither deadlock nor livelock, and the older one comes first.
TEST(Properties, TwoHalfPlacedGangsBothRunInTheEnd) {
  const bool held = rc::check([] {
    std::array<Simulation, 2> gangs = {Simulation(small_job()), Simulation(small_job())};
    gangs[1].world().job.metadata.uid = "uid-" + std::to_string(*rc::gen::inRange(0, 1000));
    gangs[1].world().job.metadata.creation_timestamp = at(1);
    for (Simulation& gang : gangs) gang.world().job.spec.run_policy.scheduling_timeout_seconds = 20;
    std::array<std::int64_t, 2> done_at = {0, 0};
    for (std::int64_t second = 0; second < 2000; ++second) {
      int used = 0;
      for (Simulation& gang : gangs) {
        for (const objects::Pod& pod : gang.world().pods)
          used += pod.spec.node_name.empty() ? 0 : 1;
      }
      // At first each gets one place; then whoever asks first gets what is free.
      for (Simulation& gang : gangs) {
        for (std::size_t i = 0; i < gang.world().pods.size(); ++i) {
          const bool first_grab = second > 5 || i == 0;
          if (gang.world().pods[i].spec.node_name.empty() && used < 3 && first_grab) {
            gang.ready_pod(i);
            ++used;
          }
        }
      }
      for (std::size_t g = 0; g < gangs.size(); ++g) {
        Simulation& gang = gangs[g];
        gang.world().older_gang.reset();
        if (is_older_gang_in_placement(gangs[1 - g].world().job, gang.world().job)) {
          gang.world().older_gang = "train/other";
        }
        pass(gang);
        gang.finish_leaving();
        if (is_true(gang.status(), condition::kRunning)) {
          for (std::size_t i = 0; i < 2; ++i) gang.end_pod(i, 0);
        }
        if (done_at[g] == 0 && is_true(gang.status(), condition::kComplete)) done_at[g] = second;
        gang.advance(1);
      }
      // Places of what has ended are free again.
      for (Simulation& gang : gangs) {
        if (is_finished(gang.status())) gang.world().pods.clear();
      }
    }
    RC_ASSERT(done_at[0] > 0);
    RC_ASSERT(done_at[1] > 0);
  });
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace gnn::reconcile
