#include "controller/reconcile/servers.h"

#include "controller/reconcile/scheduling.h"
#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace gnn::reconcile {
namespace {

using Names = std::vector<std::string>;

objects::Pod server_pod(
    const api::GnnJob& job, int64_t server, int64_t restart = 0, TimePoint born = at(0)
) {
  objects::Pod pod = desired_server_pod(job, {.server = server, .restart = restart});
  pod.metadata.uid = "uid-of-" + pod.metadata.name;
  pod.metadata.creation_timestamp = born;
  pod.status.phase = "Pending";
  return pod;
}

Names created(const Plan& plan) {
  Names names;
  for (const CreatePod& each : actions_of<CreatePod>(plan)) names.push_back(each.pod.metadata.name);
  return names;
}

Names deleted(const Plan& plan) {
  Names names;
  for (const DeletePod& each : actions_of<DeletePod>(plan)) names.push_back(each.name);
  return names;
}

api::ServerRecord record_in(const Plan& plan, size_t server) {
  return plan.status.servers->pods.at(server);
}

// A job of two nodes and two servers that runs, with the status that the controller wrote.
class Servers : public ::testing::Test {
 protected:
  Servers() { run(2); }

  void run(int64_t servers) {
    in_ = {};
    in_.job = job_with_servers(2, servers);
    in_.now = at(30);
    for (int64_t node = 0; node < 2; ++node) {
      objects::Pod pod = pod_of(in_.job, node);
      in_.pods.push_back(make_ready(pod));
    }
    for (int64_t server = 0; server < servers; ++server) {
      objects::Pod pod = server_pod(in_.job, server);
      in_.pods.push_back(make_ready(pod));
    }
    in_.service = desired_service(in_.job);
    in_.config_map = desired_config_map(in_.job);
    in_.network_policy = desired_network_policy(in_.job);
    in_.job.status = plan(in_).status;
  }

  objects::Pod& pod(const std::string& name) {
    return *std::ranges::find_if(in_.pods, [&](const objects::Pod& each) {
      return each.metadata.name == name;
    });
  }
  void remove(const std::string& name) {
    std::erase_if(in_.pods, [&](const objects::Pod& each) { return each.metadata.name == name; });
  }

  // Writes the status and looks again, after the pods were created and deleted if they had a machine
  // or not.
  Plan go_on(const Plan& before, int64_t wait_seconds = 1) {
    for (const CreatePod& each : actions_of<CreatePod>(before)) {
      objects::Pod made = each.pod;
      made.metadata.uid = "uid-of-" + made.metadata.name;
      made.metadata.creation_timestamp = in_.now;
      made.status.phase = "Pending";
      in_.pods.push_back(make_ready(made));
    }
    for (const DeletePod& each : actions_of<DeletePod>(before)) remove(each.name);
    in_ = next(in_, before, wait_seconds);
    return plan(in_);
  }

  Observed in_;
};

TEST_F(Servers, AreCreatedBeforeTheGangWhichDoesNotWaitForThem) {
  Observed fresh;
  fresh.job = job_with_servers();
  fresh.job.spec.placement->partitions = 2;
  fresh.now = at(1);
  const Plan made = plan(fresh);
  EXPECT_EQ(created(made), (Names{"arxiv-s0-0", "arxiv-s1-0", "arxiv-1-0", "arxiv-1-1"}));
  EXPECT_TRUE(std::holds_alternative<CreatePod>(made.actions.back()));
  EXPECT_EQ(count_of<CreateNetworkPolicy>(made), 1);
  EXPECT_EQ(made.status.servers->summary, "0/2");
  EXPECT_EQ(reason_of(made, condition::kServersReady), reason::kStarting);
}

TEST_F(Servers, ThatThePartitionsDoNotNeedComeAfterTheGangAndHoldUpNothing) {
  in_ = {};
  in_.job = job_with_servers(1, 3);
  in_.now = at(1);
  const auto quota_refuses = [&](const std::string& name) {
    in_.refusals = {
        {.kind = ApiRefusal::Kind::Quota,
         .object = "pod " + name,
         .message = "exceeded quota",
         .time = in_.now}
    };
    in_.refused_in_a_row = 1;
    return plan(in_);
  };
  EXPECT_EQ(created(quota_refuses("arxiv-s0-0")), Names{}) << "the gang could not run";
  EXPECT_EQ(reason_of(plan(in_), condition::kScheduled), reason::kQuotaExceeded);
  in_.refusals.clear();
  const Plan first = plan(in_);
  EXPECT_EQ(created(first), (Names{"arxiv-s0-0", "arxiv-1-0"})) << "the quota may not do for more";
  EXPECT_EQ(created(go_on(first)), (Names{"arxiv-s1-0", "arxiv-s2-0"}));
  in_.job.status = plan(in_).status;
  const Plan refused = quota_refuses("arxiv-s1-0");
  EXPECT_EQ(created(refused), Names{});
  EXPECT_EQ(reason_of(refused, condition::kServersReady), reason::kQuotaExceeded);
  EXPECT_TRUE(is_true(refused.status, condition::kScheduled));
  end_container(pod("arxiv-s0-0"), 70);
  in_.job.status = plan(in_).status;
  EXPECT_EQ(created(plan(in_)), Names{"arxiv-s0-1"}) << "it does not wait for the quota";
}

TEST_F(Servers, AForeignPodTakesTheNameOfOneServerAlone) {
  const auto take = [&](const std::string& name) {
    objects::Pod& foreign = in_.pods.emplace_back();
    foreign.metadata.name = name;
    foreign.metadata.labels = {{"gnn.dev/job", "arxiv"}, {"gnn.dev/server", "0"}};
  };
  take("arxiv-s1-1");
  end_container(pod("arxiv-s0-0"), 70);
  end_container(pod("arxiv-s1-0"), 70);
  const Plan replaced = go_on(plan(in_));
  EXPECT_EQ(created(replaced), Names{"arxiv-s0-1"});
  EXPECT_EQ(deleted(replaced), (Names{"arxiv-s0-0", "arxiv-s1-0"}));
  const Plan waits = go_on(replaced);
  EXPECT_EQ(
      message_of(waits, condition::kServersReady),
      "1 of 2 servers are ready: Pod arxiv-s1-1 already exists and is not owned by this GNNJob"
  );
  EXPECT_EQ(reason_of(waits, condition::kServersReady), reason::kNameTaken);
  EXPECT_TRUE(waits.requeue_after);
  in_ = next(in_, waits);
  remove("arxiv-s1-1");
  EXPECT_EQ(created(plan(in_)), Names{"arxiv-s1-1"});

  in_ = {};
  in_.job = job_with_servers(1, 2);
  take("arxiv-s1-0");
  EXPECT_EQ(created(plan(in_)), (Names{"arxiv-s0-0", "arxiv-1-0"})) << "the workers need none";
  take("arxiv-s0-0");
  EXPECT_EQ(created(plan(in_)), Names{});
  EXPECT_EQ(reason_of(plan(in_), condition::kScheduled), reason::kNameTaken);
  // That of an earlier job of this name leaves by itself.
  in_.pods = {server_pod(in_.job, 1)};
  in_.pods[0].metadata.owner_references[0].uid = "uid-of-an-earlier-arxiv";
  EXPECT_EQ(created(plan(in_)), Names{});
  EXPECT_EQ(reason_of(plan(in_), condition::kScheduled), reason::kCreating);
}

TEST_F(Servers, ALostPodIsReplacedAloneAndNothingIsCharged) {
  using Loss = std::function<void(objects::Pod&)>;
  const auto ended = [](int64_t code) {
    return Loss([code](objects::Pod& each) { end_container(each, code); });
  };
  const std::vector<std::pair<std::string, Loss>> losses = {
      {"Error", ended(70)},
      {"Error", ended(1)},
      {"PeerLost", ended(75)},
      {"Preempted", ended(76)},
      {"OutOfMemory", ended(77)},
      {"OutOfMemory", [](objects::Pod& each) { end_container(each, 137).reason = "OOMKilled"; }},
      {"Disrupted",
       [](objects::Pod& each) {
         each.status.phase = "Failed";
         each.status.reason = "Evicted";
       }},
      {"PodDeleted", [](objects::Pod& each) { mark_deleted(each, at(150)); }},
      {"NodeLost",
       [](objects::Pod& each) {
         each.status.container_statuses = {
             {.name = std::string(contract::kWorkerContainer), .ready = true, .state = {}}
         };
         add_condition(each, "Ready", false);
       }},
      {"PodDeleted", {}},  // by force: it is gone
  };
  for (const auto& [reason, loss] : losses) {
    SCOPED_TRACE(reason);
    run(2);
    if (loss) {
      loss(pod("arxiv-s1-0"));
    } else {
      remove("arxiv-s1-0");
    }
    const Plan noted = plan(in_);
    EXPECT_EQ(noted.status.servers->restarts, 1);
    EXPECT_EQ(created(noted), Names{}) << "the status knows of it first";
    EXPECT_EQ(reason_of(noted, condition::kServersReady), reason);
    EXPECT_EQ(event_reasons(noted), Names{"ServerReplaced"});
    EXPECT_EQ(noted.status.attempt, 1);
    EXPECT_EQ(noted.status.restarts, 0);
    EXPECT_TRUE(is_true(noted.status, condition::kRunning));
    in_ = next(in_, noted);
    const Plan replaced = plan(in_);
    EXPECT_EQ(created(replaced), Names{"arxiv-s1-1"});
    const bool to_delete = loss && !pod("arxiv-s1-0").metadata.deletion_timestamp;
    EXPECT_EQ(deleted(replaced), to_delete ? Names{"arxiv-s1-0"} : Names{});
    const Plan done = go_on(replaced);
    EXPECT_EQ(done.status.servers->summary, "2/2");
    EXPECT_EQ(done.status.servers->restarts, 1);
    EXPECT_EQ(count_of<CreatePod>(done), 0);
  }
  run(2);
  pod("arxiv-s1-0").metadata.labels.erase("gnn.dev/server");
  const Plan relabelled = plan(in_);
  ASSERT_EQ(count_of<RelabelPod>(relabelled), 1) << "a label is no loss";
  EXPECT_EQ(actions_of<RelabelPod>(relabelled)[0].labels.at("gnn.dev/server"), "1");
  EXPECT_EQ(relabelled.status.servers->restarts, 0);
}

TEST_F(Servers, OneThatKeepsFailingBacksOffUntilItHasRunWell) {
  std::vector<int64_t> waits;
  Plan made = plan(in_);
  for (int64_t restart = 0; restart < 4; ++restart) {
    end_container(pod("arxiv-s0-" + std::to_string(restart)), 70);
    made = plan(in_);
    const auto next_time = record_in(made, 0).next_time;
    waits.push_back(
        next_time ? std::chrono::duration_cast<std::chrono::seconds>(*next_time - in_.now).count()
                  : 0
    );
    const Plan early = go_on(made, 0);
    EXPECT_EQ(created(early).empty(), next_time.has_value());
    made = next_time ? go_on(early, waits.back()) : early;
    EXPECT_EQ(created(made), Names{"arxiv-s0-" + std::to_string(restart + 1)});
    made = go_on(made);
    EXPECT_FALSE(record_in(made, 1).next_time) << "the other server's is its own";
    in_ = next(in_, made);
  }
  EXPECT_EQ(waits, (std::vector<int64_t>{0, 10, 20, 40}));
  in_.now += std::chrono::seconds(600);
  end_container(pod("arxiv-s0-4"), 70);
  made = plan(in_);
  EXPECT_EQ(record_in(made, 0).failures, 1);
  EXPECT_FALSE(record_in(made, 0).next_time);
  EXPECT_EQ(made.status.servers->restarts, 5);
  EXPECT_EQ(made.status.backoff, api::GnnJobStatus{}.backoff) << "the gang's is its own, too";
}

TEST_F(Servers, CodesThatNoRetryHelpsEndTheJobUnlessARuleSaysIgnore) {
  using Action = api::FailureAction;
  const auto outcome = [&](int64_t code, std::vector<api::FailureRule> rules) {
    run(2);
    in_.job.spec.run_policy.failure_policy.rules = std::move(rules);
    end_container(pod("arxiv-s1-0"), code, "/data: no such folder");
    return plan(in_);
  };
  constexpr auto kServer = api::FailureRole::Server;
  const Plan failed = outcome(65, {});
  EXPECT_EQ(reason_of(failed, condition::kFailed), "Data");
  EXPECT_EQ(message_of(failed, condition::kFailed), "Server 1: /data: no such folder");
  EXPECT_EQ(failed.status.last_failure->exit_code, 65);
  EXPECT_EQ(reason_of(outcome(64, {}), condition::kFailed), "Configuration");
  const api::FailureRule of_workers{.exit_codes = {65, 70}, .action = Action::Restart};
  EXPECT_TRUE(is_true(outcome(65, {of_workers}).status, condition::kFailed));
  const api::FailureRule ignore{.role = kServer, .exit_codes = {65}, .action = Action::Ignore};
  const Plan ignored = outcome(65, {of_workers, ignore});
  EXPECT_FALSE(is_finished(ignored.status));
  EXPECT_EQ(ignored.status.servers->restarts, 1);
  EXPECT_NE(
      message_of(ignored, condition::kServersReady).find("(failurePolicy.rules[1])"),
      std::string::npos
  );
  const api::FailureRule fail{.role = kServer, .exit_codes = {70}, .action = Action::Fail};
  EXPECT_EQ(reason_of(outcome(70, {fail}), condition::kFailed), "Error");
  EXPECT_FALSE(is_finished(outcome(1, {fail}).status));
  // A worker's failure is none of a server's.
  run(2);
  in_.job.spec.run_policy.failure_policy.rules = {fail};
  end_container(pod("arxiv-1-1"), 70);
  EXPECT_EQ(plan(in_).status.attempt, 2);
}

TEST_F(Servers, OneThatEndsWithZeroIsReplacedOnlyIfTheWorkersAreNotDoneSoon) {
  end_container(pod("arxiv-s0-0"), 0);
  const Plan waits = plan(in_);
  EXPECT_EQ(waits.status.servers->restarts, 0);
  ASSERT_TRUE(waits.requeue_after);
  EXPECT_LE(*waits.requeue_after, std::chrono::seconds(30));
  in_ = next(in_, waits, 29);
  EXPECT_EQ(plan(in_).status.servers->restarts, 0);
  Observed done = in_;
  for (objects::Pod& each : done.pods) end_container(each, 0);
  EXPECT_TRUE(is_true(plan(done).status, condition::kComplete));
  in_.now += std::chrono::seconds(2);
  const Plan replaced = plan(in_);
  EXPECT_EQ(replaced.status.servers->restarts, 1);
  EXPECT_EQ(created(go_on(replaced)), Names{"arxiv-s0-1"});
}

TEST_F(Servers, ScalingDownTakesTheHighestNumbersAndScalingUpNewOnes) {
  run(1);
  in_.job.spec.servers->nodes = 3;
  Plan made = plan(in_);
  EXPECT_EQ(created(made), (Names{"arxiv-s1-0", "arxiv-s2-0"}));
  made = go_on(made);
  EXPECT_EQ(made.status.servers->summary, "3/3");
  in_ = next(in_, made);
  in_.job.spec.servers->nodes = 1;
  made = go_on(plan(in_));
  EXPECT_EQ(deleted(made), (Names{"arxiv-s1-0", "arxiv-s2-0"}));
  EXPECT_EQ(made.status.servers->summary, "1/1");
  EXPECT_TRUE(is_true(made.status, condition::kServersReady));
  in_ = next(in_, made);  // they still stop
  in_.job.spec.servers->nodes = 3;
  made = plan(in_);
  EXPECT_EQ(created(made), (Names{"arxiv-s1-1", "arxiv-s2-1"}));
  made = go_on(made);
  EXPECT_EQ(made.status.servers->restarts, 0) << "nothing was lost";
  EXPECT_EQ(made.status.attempt, 1);
}

TEST_F(Servers, SuspendingStopsThemAfterTheWorkersAndResumingMakesNewOnes) {
  in_.job.status.servers->restarts = 7;
  in_.job.spec.suspend = true;
  Plan made = go_on(plan(in_));
  EXPECT_EQ(deleted(made), (Names{"arxiv-1-0", "arxiv-1-1"}));
  made = go_on(made);
  EXPECT_EQ(deleted(made), Names{}) << "the status gives their numbers up first";
  made = go_on(made);
  EXPECT_EQ(deleted(made), (Names{"arxiv-s0-0", "arxiv-s1-0"}));
  EXPECT_FALSE(is_true(made.status, condition::kSuspended));
  made = go_on(made);
  EXPECT_TRUE(is_true(made.status, condition::kSuspended));
  EXPECT_EQ(reason_of(made, condition::kServersReady), reason::kSuspendedByUser);
  EXPECT_EQ(made.status.servers->restarts, 7);
  in_ = next(in_, made);
  in_.job.spec.suspend = false;
  made = go_on(plan(in_));
  EXPECT_EQ(created(made), (Names{"arxiv-s0-1", "arxiv-2-0", "arxiv-2-1"}));
  EXPECT_EQ(created(go_on(made)), Names{"arxiv-s1-1"});
}

TEST_F(Servers, EndWithACompleteJobOrAreStoppedAWhileLater) {
  for (const auto policy : {api::CleanPodPolicy::Running, api::CleanPodPolicy::None}) {
    run(2);
    in_.job.spec.run_policy.clean_pod_policy = policy;
    end_container(pod("arxiv-1-0"), 0);
    end_container(pod("arxiv-1-1"), 0);
    const Plan complete = plan(in_);
    EXPECT_TRUE(is_true(complete.status, condition::kComplete));
    EXPECT_EQ(reason_of(complete, condition::kServersReady), reason::kFinished);
    Plan later = go_on(complete);
    EXPECT_EQ(deleted(later), Names{});
    end_container(pod("arxiv-s0-0"), 0);  // the other one hangs
    in_ = next(in_, later, 30);
    later = plan(in_);
    const bool deletes = policy == api::CleanPodPolicy::Running;
    EXPECT_EQ(deleted(later), deletes ? Names{"arxiv-s1-0"} : Names{});
    EXPECT_EQ(count_of<StopPod>(later), deletes ? 0 : 1);
  }
  run(2);
  end_container(pod("arxiv-1-0"), 64);
  const Plan failed = go_on(plan(in_));
  EXPECT_EQ(deleted(failed), (Names{"arxiv-1-1", "arxiv-s0-0", "arxiv-s1-0"})) << "at once";
  run(2);
  in_.job.spec.run_policy.active_deadline_seconds = 1;
  in_.now += std::chrono::seconds(1);
  const Plan late = go_on(plan(in_));
  EXPECT_EQ(reason_of(late, condition::kFailed), reason::kDeadlineExceeded);
  EXPECT_EQ(deleted(late), (Names{"arxiv-1-0", "arxiv-1-1", "arxiv-s0-0", "arxiv-s1-0"}));
}

TEST_F(Servers, StayUpWhileTheGangRestartsAndAreReplacedMeanwhile) {
  in_.job.status.backoff.charged = 3;  // so that the next attempt waits
  end_container(pod("arxiv-1-1"), 70);
  Plan made = plan(in_);
  EXPECT_EQ(made.status.attempt, 2);
  in_ = next(in_, made);
  end_container(pod("arxiv-s0-0"), 70);
  made = plan(in_);
  EXPECT_EQ(deleted(made), (Names{"arxiv-1-0", "arxiv-1-1"})) << "and no server that runs";
  made = go_on(made);
  EXPECT_EQ(reason_of(made, condition::kScheduled), reason::kBackOff);
  EXPECT_EQ(created(made), Names{"arxiv-s0-1"});
  EXPECT_EQ(made.status.servers->ready, 1);
}

TEST_F(Servers, APartitionWithoutAPlaceGivesAllMachinesBackAndAFurtherServerNone) {
  const auto unschedulable = [&](const std::string& name) {
    objects::Pod& waits = pod(name);
    waits.spec.node_name.clear();
    waits.status.phase = "Pending";
    waits.status.conditions.clear();
    add_condition(waits, "PodScheduled", false, "Unschedulable", "0/2 nodes are available");
  };
  unschedulable("arxiv-s1-0");
  in_.now = at(700);
  const Plan runs = plan(in_);
  EXPECT_EQ(runs.status.releases, 0);
  EXPECT_EQ(reason_of(runs, condition::kServersReady), reason::kUnschedulable);
  EXPECT_EQ(
      message_of(runs, condition::kServersReady),
      "1 of 2 servers are ready: server 1: 0/2 nodes are available"
  );
  in_.job.status = runs.status;
  EXPECT_FALSE(is_in_placement(in_.job)) << "younger gangs would wait for what may never come";
  unschedulable("arxiv-s0-0");
  in_.now = at(500);
  in_.job.status = plan(in_).status;
  EXPECT_TRUE(is_in_placement(in_.job));
  in_.now = at(700);
  Plan released = plan(in_);
  EXPECT_EQ(released.status.releases, 1);
  EXPECT_EQ(released.status.restarts, 0);
  EXPECT_EQ(reason_of(released, condition::kScheduled), reason::kReleased);
  EXPECT_NE(
      message_of(released, condition::kScheduled).find("0/2 nodes are available"), std::string::npos
  );
  in_ = next(in_, released);
  released = plan(in_);
  EXPECT_EQ(deleted(released), (Names{"arxiv-1-0", "arxiv-1-1"}));
  released = go_on(released);
  EXPECT_EQ(deleted(released), (Names{"arxiv-s0-0", "arxiv-s1-0"}));
  released = go_on(released);
  EXPECT_EQ(created(released), Names{});
  in_ = next(in_, released, 60);
  released = plan(in_);
  EXPECT_EQ(created(released), (Names{"arxiv-s0-1", "arxiv-2-0", "arxiv-2-1"}));
  EXPECT_EQ(created(go_on(released)), Names{"arxiv-s1-1"});
}

TEST_F(Servers, WorkersThatGiveUpWhileAPartitionHasNoPlaceAreNotCharged) {
  run(1);
  objects::Pod& waits = pod("arxiv-s0-0");
  waits.spec.node_name.clear();
  waits.status.phase = "Pending";
  waits.status.conditions.clear();
  for (const char* node : {"arxiv-1-0", "arxiv-1-1"}) end_container(pod(node), 75);
  const Plan released = plan(in_);
  EXPECT_EQ(released.status.releases, 1);
  EXPECT_EQ(released.status.restarts, 0);
  schedule(pod("arxiv-s0-0"));
  EXPECT_EQ(plan(in_).status.restarts, 1) << "it has a place, but serves nobody";
}

TEST_F(Servers, ThatBecomeReadyOneByOneAreWrittenAtMostOnceASecond) {
  run(3);
  for (const char* name : {"arxiv-s0-0", "arxiv-s1-0", "arxiv-s2-0"}) {
    add_condition(pod(name), "Ready", false, "ContainersNotReady");
  }
  in_.job.status = plan(in_).status;
  add_condition(pod("arxiv-s1-0"), "Ready", true);
  in_.status_written = in_.now;
  in_.counts_written = in_.now;
  EXPECT_EQ(plan(in_).status, in_.job.status);
  in_.now += std::chrono::seconds(1);
  EXPECT_EQ(plan(in_).status.servers->ready, 1);
  // What was lost is told at once.
  in_.status_written = in_.counts_written = in_.now;
  end_container(pod("arxiv-s2-0"), 70);
  EXPECT_EQ(plan(in_).status.servers->restarts, 1);
}

TEST_F(Servers, AreNotMadeBeforeTheDataAre) {
  Observed fresh;
  fresh.job = job_with_servers();
  fresh.job.spec.prepare = api::sample_prepare_partitions_job().spec.prepare;
  fresh.job.spec.prepare->partition->parts = 1;
  fresh.now = at(1);
  const Plan made = plan(fresh);
  EXPECT_EQ(created(made), Names{"arxiv-prepare-1"});
  EXPECT_EQ(reason_of(made, condition::kServersReady), reason::kNotPlaced);
}

TEST_F(Servers, AStatusThatAnOlderCrdCutsIsSentOnce) {
  const api::GnnJobStatus kept = [&] {
    api::GnnJobStatus without = in_.job.status;
    without.servers.reset();
    return without;
  }();
  in_.job.status = kept;
  const Plan sent = plan(in_);
  ASSERT_TRUE(sent.status.servers);
  in_.cut_status = CutStatus{.sent = sent.status, .kept = kept};
  EXPECT_EQ(plan(in_).status, kept);
  // Where the CRD has dropped spec.servers, too, nothing is said of servers.
  in_.cut_status.reset();
  in_.job.spec.servers.reset();
  EXPECT_EQ(plan(in_).status.servers, std::nullopt);
  EXPECT_EQ(deleted(plan(in_)), (Names{"arxiv-s0-0", "arxiv-s1-0"}));
  in_.pods.push_back(server_pod(job_with_servers(), 0, 1));
  EXPECT_EQ(deleted(plan(in_)).size(), 3U) << "a number that the status does not know any more";
}

TEST_F(Servers, NothingIsDoneByAStatusThatIsBehindItsPods) {
  objects::Pod newer = server_pod(in_.job, 1, 1);
  in_.pods.push_back(make_ready(newer));
  end_container(pod("arxiv-s0-0"), 70);
  const Plan made = plan(in_);
  EXPECT_TRUE(made.actions.empty());
  EXPECT_EQ(made.status, in_.job.status);
  EXPECT_EQ(vanished_server_pods(in_), Names{});
  remove("arxiv-s1-1");
  remove("arxiv-s1-0");
  EXPECT_EQ(vanished_server_pods(in_), Names{"arxiv-s1-0"});
}

TEST_F(Servers, WithAnOldDataKeyAreReplacedOnceNoWorkerHasIt) {
  const std::string renewed = "fedcba9876543210fedcba9876543210";
  in_.job.status.data_key_secret = contract::data_key_name("arxiv", renewed);
  EXPECT_EQ(plan(in_).status.servers->restarts, 0) << "the workers have it, too";
  for (const char* worker : {"arxiv-1-0", "arxiv-1-1"}) {
    pod(worker).metadata.labels[std::string(contract::kLabelDataKey)] = renewed;
  }
  EXPECT_EQ(plan(in_).status.servers->restarts, 2);
}

TEST_F(Servers, OneThatDoesNotStartInTimeIsReplaced) {
  objects::Pod& stuck = pod("arxiv-s0-0");
  stuck.status.phase = "Pending";
  stuck.status.conditions.clear();
  schedule(stuck);
  in_.now = at(899);
  const Plan waits = plan(in_);
  EXPECT_EQ(waits.status.servers->restarts, 0);
  EXPECT_EQ(waits.requeue_after, std::chrono::seconds(1));
  in_.now = at(900);
  const Plan replaced = plan(in_);
  EXPECT_EQ(replaced.status.servers->restarts, 1);
  EXPECT_EQ(reason_of(replaced, condition::kServersReady), reason::kNotStarted);
}

TEST_F(Servers, ThatTheOperatorStopsAreNoneThatWereLost) {
  in_.job.spec.run_policy.failure_policy.rules = {
      {.role = api::FailureRole::Server,
       .reasons = {api::FailureReason::PodDeleted, api::FailureReason::Preempted},
       .action = api::FailureAction::Fail}
  };
  // Each way to stop a server, and to take that back before its pod is gone.
  const auto scale_down = [](api::GnnJob& job, bool stops) {
    job.spec.servers->nodes = stops ? 1 : 2;
  };
  const auto suspend = [](api::GnnJob& job, bool stops) { job.spec.suspend = stops; };
  for (const std::function<void(api::GnnJob&, bool)>& ask : {
           std::function<void(api::GnnJob&, bool)>(scale_down),
           std::function<void(api::GnnJob&, bool)>(suspend),
       }) {
    // However many passes the stop had, and whether the status of the last one was written.
    for (int passes = 1; passes < 6; ++passes) {
      for (const bool crashes : {false, true}) {
        run(2);
        ask(in_.job, true);
        for (int pass = 0; pass < passes; ++pass) {
          const Plan made = plan(in_);
          for (const DeletePod& each : actions_of<DeletePod>(made)) {
            mark_deleted(pod(each.name), at(500));
            pod(each.name).metadata.finalizers.clear();
          }
          if (!crashes || pass + 1 < passes) in_ = next(in_, made);
          // The workers leave first; only then do servers that are suspended.
          if (pass == 2)
            std::erase_if(in_.pods, [&](const objects::Pod& each) {
              return each.metadata.deletion_timestamp &&
                     each.metadata.labels.contains("gnn.dev/attempt");
            });
        }
        ask(in_.job, false);
        for (int pass = 0; pass < 4; ++pass) {
          const Plan made = plan(in_);
          ASSERT_FALSE(is_true(made.status, condition::kFailed)) << passes << " " << crashes;
          EXPECT_EQ(made.status.servers->restarts, 0) << passes << " " << crashes;
          in_ = next(in_, made);
        }
      }
    }
  }
}

TEST_F(Servers, ThatEndAtOnceDoNotFollowEachOtherAtFullSpeedWhateverTheJobSays) {
  in_.job.spec.run_policy.failure_policy.backoff = {
      .initial_seconds = 1, .max_seconds = 1, .healthy_seconds = 1
  };
  std::vector<int64_t> waits;
  for (int64_t restart = 0; restart < 6; ++restart) {
    in_.now += std::chrono::seconds(2);
    const std::string name = contract::server_pod_name(in_.job.metadata.name, 0, restart);
    end_container(pod(name), 70);
    const Plan lost = plan(in_);
    const auto next_time = record_in(lost, 0).next_time.value_or(in_.now);
    waits.push_back(std::chrono::duration_cast<std::chrono::seconds>(next_time - in_.now).count());
    in_ = next(in_, lost);
    in_.now = std::max(in_.now, next_time);
    remove(name);
    objects::Pod fresh = server_pod(in_.job, 0, restart + 1, in_.now);
    in_.pods.push_back(make_ready(fresh));
    in_.job.status = plan(in_).status;
  }
  EXPECT_EQ(waits, (std::vector<int64_t>{0, 0, 10, 10, 10, 10}));
}

TEST_F(Servers, ThatAreScaledDownGiveTheirNumberUpBeforeTheyAreDeleted) {
  in_.job.spec.servers->nodes = 1;
  const Plan gives_up = plan(in_);
  EXPECT_EQ(deleted(gives_up), Names{});
  EXPECT_EQ(record_in(gives_up, 1).restart, 1);
  EXPECT_EQ(gives_up.requeue_after, Duration::zero());
  in_ = next(in_, gives_up);
  EXPECT_EQ(deleted(plan(in_)), Names{"arxiv-s1-0"});
}

}  // namespace
}  // namespace gnn::reconcile
