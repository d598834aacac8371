#include "controller/reconcile/prepare.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace gnn::reconcile {
namespace {

std::vector<std::string> created_pods(const Plan& plan) {
  std::vector<std::string> names;
  for (const CreatePod& action : actions_of<CreatePod>(plan)) {
    names.push_back(action.pod.metadata.name);
  }
  return names;
}

objects::Pod prepare_pod(const api::GnnJob& job, int64_t attempt = 1) {
  objects::Pod pod = desired_prepare_pod(job, attempt);
  pod.metadata.uid = "uid-of-" + pod.metadata.name;
  pod.metadata.creation_timestamp = at(0);
  pod.status.phase = "Pending";
  return pod;
}

// A job whose data are being prepared, with the status that the controller wrote.
Observed preparing() {
  Observed observed;
  observed.job = job_with_prepare();
  observed.now = at(30);
  objects::Pod pod = prepare_pod(observed.job);
  observed.pods.push_back(make_ready(pod));
  observed.job.status = plan(observed).status;
  return observed;
}

api::ProgressReport report_of(const Observed& observed, const std::string& doing, int64_t percent) {
  api::ProgressReport report;
  report.job_uid = observed.job.metadata.uid;
  report.attempt = observed.job.status.attempt;
  report.phase = contract::kPhasePrepare;
  report.doing = doing;
  report.percent = percent;
  return report;
}

TEST(Prepare, RunsAloneBeforeTheGangSaysHowFarItIsAndItsWordsStay) {
  Observed observed;
  observed.job = job_with_prepare();
  observed.job.spec.workers.gpus_per_process = 1;
  observed.job.spec.prepare->resources.emplace().limits = {{"memory", "64Gi"}};
  observed.now = at(1);
  const Plan first = plan(observed);
  ASSERT_EQ(created_pods(first), std::vector<std::string>{"arxiv-prepare-1"});
  const objects::Pod made = actions_of<CreatePod>(first)[0].pod;
  EXPECT_EQ(count_of<CreateConfigMap>(first) + count_of<CreateNetworkPolicy>(first), 2);
  EXPECT_EQ(made.metadata.labels.at("app.kubernetes.io/component"), "prepare");
  EXPECT_FALSE(made.metadata.labels.contains(std::string(contract::kLabelAttempt)));
  EXPECT_FALSE(made.metadata.labels.contains(std::string(contract::kLabelNode)));
  EXPECT_EQ(made.spec.containers[0].command.back(), "prepare");
  EXPECT_EQ(
      made.spec.containers[0].resources.limits,
      (std::map<std::string, std::string>{{"memory", "64Gi"}})
  );
  EXPECT_EQ(made.spec.security, desired_pod(observed.job, {}).spec.security);

  Observed under_way = preparing();
  EXPECT_EQ(under_way.job.status.state, state::kPreparing);
  EXPECT_EQ(under_way.job.status.nodes.summary, "0/2");
  EXPECT_EQ(progress_pod(under_way.job), "arxiv-prepare-1");
  EXPECT_TRUE(progress_address(under_way.job, under_way.pods[0]));
  under_way.progress = report_of(under_way, "reading edges", 43);
  const Plan said = plan(under_way);
  EXPECT_EQ(message_of(said, condition::kPrepared), "Preparing the data: reading edges, 43 %");
  EXPECT_EQ(said.status.message, message_of(said, condition::kPrepared));
  EXPECT_FALSE(is_true(said.status, condition::kRunning));

  // A worker's report of the same attempt is none of the pod's.
  under_way.progress->phase = "Train";
  EXPECT_EQ(message_of(plan(under_way), condition::kPrepared), "The data are being prepared");

  Observed done = next(observed, first);
  objects::Pod pod = prepare_pod(done.job);
  end_container(
      pod, 0, result_message(done.job, 1, 0, R"(, "message": "/data/x: 6 nodes, 16 edges")")
  );
  done.pods = {pod};
  const Plan ready = plan(done);
  EXPECT_TRUE(is_true(ready.status, condition::kPrepared));
  EXPECT_EQ(message_of(ready, condition::kPrepared), "/data/x: 6 nodes, 16 edges");
  EXPECT_EQ(event_reasons(ready), (std::vector<std::string>{"Creating", "Prepared"}));
  // The pods of the gang prove that the condition was written.
  EXPECT_EQ(created_pods(ready), std::vector<std::string>{});
  EXPECT_EQ(count_of<ReleasePod>(ready), 0);

  const Plan begun = plan(next(done, ready));
  EXPECT_EQ(created_pods(begun), (std::vector<std::string>{"arxiv-1-0", "arxiv-1-1"}));
  ASSERT_EQ(count_of<ReleasePod>(begun), 1);
  EXPECT_EQ(actions_of<ReleasePod>(begun)[0].name, "arxiv-prepare-1");
  EXPECT_EQ(count_of<DeletePod>(begun), 0) << "its log stays";
}

TEST(Prepare, AFailureOfTheDataIsFinalInTheProgramsWordsAndOthersAreChargedRestarts) {
  Observed observed = preparing();
  observed.job.spec.run_policy.max_restarts = 1;
  Observed bad = observed;
  const std::string words = R"(, "message": "/data/raw/edge.csv, line 3: expected 2 numbers")";
  end_container(bad.pods[0], 65, result_message(bad.job, 1, 0, words));
  const Plan failed = plan(bad);
  EXPECT_EQ(reason_of(failed, condition::kFailed), reason::kData);
  EXPECT_EQ(reason_of(failed, condition::kPrepared), reason::kData);
  EXPECT_EQ(
      failed.status.message, "Attempt 1, prepare: /data/raw/edge.csv, line 3: expected 2 numbers"
  );

  end_container(observed.pods[0], 70);
  const Plan again = plan(observed);
  EXPECT_TRUE(is_true(again.status, condition::kRestarting));
  EXPECT_EQ(again.status.restarts, 1);
  EXPECT_EQ(reason_of(again, condition::kPrepared), reason::kError);
  const Plan cleared = plan(next(observed, again));
  EXPECT_EQ(created_pods(cleared), std::vector<std::string>{}) << "while the old pod is left";
  Observed second = next(observed, again);
  second.pods.clear();
  EXPECT_EQ(created_pods(plan(second)), std::vector<std::string>{"arxiv-prepare-2"});
  objects::Pod pod = prepare_pod(second.job, 2);
  end_container(pod, 70);
  second.pods = {pod};
  EXPECT_EQ(reason_of(plan(second), condition::kFailed), reason::kMaxRestartsExceeded);
}

TEST(Prepare, StopsWhenSuspendedOrLateAndStartsAgainWhenResumed) {
  Observed observed = preparing();
  observed.job.spec.suspend = true;
  observed = next(observed, plan(observed));
  const Plan stopping = plan(observed);
  ASSERT_EQ(count_of<DeletePod>(stopping), 1);
  EXPECT_EQ(actions_of<DeletePod>(stopping)[0].name, "arxiv-prepare-1");
  Observed gone = next(observed, stopping);
  gone.pods.clear();
  const Plan suspended = plan(gone);
  EXPECT_TRUE(is_true(suspended.status, condition::kSuspended));
  EXPECT_EQ(reason_of(suspended, condition::kPrepared), reason::kSuspendedByUser);
  Observed resumed = next(gone, suspended);
  resumed.job.spec.suspend = false;
  const Plan begins = plan(resumed);
  EXPECT_EQ(created_pods(plan(next(resumed, begins))), std::vector<std::string>{"arxiv-prepare-2"});

  // A job that is suspended once its data are ready does not prepare them again.
  Observed done = preparing();
  end_container(done.pods[0], 0);
  done.job.spec.suspend = true;
  const Plan ready = plan(done);
  EXPECT_TRUE(is_true(ready.status, condition::kPrepared));
  done = next(done, ready);
  done = next(done, plan(done));
  const Plan stopped = plan(done);
  EXPECT_EQ(count_of<DeletePod>(stopped), 1) << "a suspended job has no pods";

  // One that takes longer than the job may stops as well.
  Observed late = preparing();
  late.job.spec.run_policy.active_deadline_seconds = 60;
  late.now = at(100);
  const Plan failed = plan(late);
  EXPECT_EQ(reason_of(failed, condition::kFailed), reason::kDeadlineExceeded);
  EXPECT_EQ(reason_of(failed, condition::kPrepared), reason::kDeadlineExceeded);
  const Plan ended = plan(next(late, failed));
  EXPECT_EQ(count_of<DeletePod>(ended), 1);

  // So does one that does not start in time.
  Observed starting;
  starting.job = job_with_prepare();
  starting.now = at(1);
  objects::Pod pod = prepare_pod(starting.job);
  starting.pods.push_back(schedule(pod));
  Observed waits = next(starting, plan(starting));
  EXPECT_EQ(reason_of(plan(waits), condition::kPrepared), reason::kStarting);
  waits.now += std::chrono::seconds(waits.job.spec.run_policy.startup_deadline_seconds);
  EXPECT_EQ(reason_of(plan(waits), condition::kRestarting), reason::kNotStarted);
}

}  // namespace
}  // namespace gnn::reconcile
