#include "controller/app/reconciler.h"

#include "common/contract.h"
#include "controller/reconcile/conditions.h"
#include "controller/reconcile/desired.h"
#include "tests/common/api/sample_job.h"
#include "tests/controller/reconcile/builders.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_transport.h"
#include "tests/support/must.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gnn::app {
namespace {

using gnn::testing::FakeClock;
using gnn::testing::FakeTransport;
using gnn::testing::must;
using objects::Json;
using namespace std::chrono_literals;

class ReconcilerTest : public ::testing::Test {
 protected:
  static api::GnnJob job() {
    api::GnnJob job = api::sample_job();
    job.metadata.uid = "job-uid";
    job.metadata.resource_version = "7";
    return job;
  }
  // A finished job with a pod that our finalizer still holds.
  void put_finished_job() {
    api::GnnJob finished = job();
    finished.status.state = reconcile::state::kComplete;
    finished.status.conditions.push_back(
        {.type = std::string(reconcile::condition::kComplete),
         .status = "True",
         .reason = std::string(reconcile::reason::kAllNodesDone),
         .message = {}}
    );
    caches_.jobs.upsert(std::make_shared<const api::GnnJob>(finished));
    objects::Pod pod;
    pod.metadata.name = "arxiv-1-0";
    pod.metadata.namespace_ = "train";
    pod.metadata.uid = "pod-uid";
    pod.metadata.labels = reconcile::identifying_labels(finished, {.attempt = 1, .node = 0});
    pod.metadata.finalizers = {std::string(contract::kPodFinalizer)};
    pod.metadata.owner_references.push_back(
        {.api_version = {}, .kind = {}, .name = {}, .uid = "job-uid", .controller = true}
    );
    pod.status.phase = "Succeeded";
    caches_.pods.upsert(std::make_shared<const objects::Pod>(pod));
  }
  // A new job whose Service, ConfigMap and NetworkPolicy exist already.
  void put_start() {
    caches_.jobs.upsert(std::make_shared<const api::GnnJob>(job()));
    caches_.services.upsert(
        std::make_shared<const objects::Service>(reconcile::desired_service(job()))
    );
    caches_.config_maps.upsert(
        std::make_shared<const objects::ConfigMap>(reconcile::desired_config_map(job()))
    );
    caches_.network_policies.upsert(
        std::make_shared<const objects::NetworkPolicy>(reconcile::desired_network_policy(job()))
    );
  }
  static api::Condition not_scheduled(std::string_view reason) {
    return {
        .type = std::string(reconcile::condition::kScheduled),
        .status = "False",
        .reason = std::string(reason),
        .message = {}
    };
  }
  // A gang that waits for its quota and is older than any other.
  void put_older_gang(const std::string& name_space, const std::string& name, int pods) {
    api::GnnJob gang = job();
    gang.metadata.namespace_ = name_space;
    gang.metadata.name = name;
    gang.metadata.uid = "uid-of-" + name_space + "-" + name;
    gang.metadata.creation_timestamp = clock_.now() - 1h;
    gang.status.attempt = 1;
    gang.status.conditions.push_back(not_scheduled(reconcile::reason::kQuotaExceeded));
    caches_.jobs.upsert(std::make_shared<const api::GnnJob>(gang));
    for (int node = 0; node < pods; ++node) {
      caches_.pods.upsert(std::make_shared<const objects::Pod>(
          reconcile::desired_pod(gang, {.attempt = 1, .node = node, .rounds_left = 0})
      ));
    }
  }
  void refuse(const std::string& message) {
    transport_.reply(
        403, Json{{"kind", "Status"}, {"reason", "Forbidden"}, {"message", message}}.dump()
    );
  }
  // A job of two nodes that runs. Its pods are not in the cache; returns what the API server has.
  std::vector<Json> put_running_job_without_pods() {
    reconcile::Observed running = reconcile::running();
    running.job.metadata.resource_version = "7";
    std::vector<Json> pods;
    for (const objects::Pod& pod : running.pods) {
      Json json = encode(pod);
      json["metadata"]["uid"] = pod.metadata.uid;
      json["status"] = {
          {"phase", "Running"},
          {"conditions",
           {{{"type", "PodScheduled"}, {"status", "True"}}, {{"type", "Ready"}, {"status", "True"}}}
          }
      };
      pods.push_back(json);
    }
    caches_.jobs.upsert(std::make_shared<const api::GnnJob>(running.job));
    caches_.services.upsert(std::make_shared<const objects::Service>(*running.service));
    caches_.config_maps.upsert(std::make_shared<const objects::ConfigMap>(*running.config_map));
    caches_.network_policies.upsert(
        std::make_shared<const objects::NetworkPolicy>(*running.network_policy)
    );
    return pods;
  }
  // How long the job waits for its next pass.
  Duration pause_after_pass() {
    const runtime::Outcome outcome = reconciler_.reconcile({"train", "arxiv"});
    const auto* later = std::get_if<runtime::RequeueAfter>(&outcome);
    if (later != nullptr) return later->delay;
    ADD_FAILURE() << "the next pass has no time of its own";
    return {};
  }
  // The body of the last request of that method. A write that met a conflict is followed by a read.
  std::string last_body(const std::string& method) {
    std::string body;
    for (const auto& request : transport_.requests()) {
      if (request.method == method) body = request.body;
    }
    return body;
  }
  size_t count(const std::string& method) {
    size_t found = 0;
    for (const auto& request : transport_.requests()) {
      if (request.method == method) ++found;
    }
    return found;
  }

  FakeClock clock_{reconcile::at(60)};  // later than what the jobs are stamped with
  FakeTransport transport_;
  FakeTransport event_transport_;  // of its own, as events are sent while a pass runs
  MetricsRegistry metrics_;
  client::TokenSource tokens_{client::KubeConfig{}, clock_};
  client::ApiClient api_{transport_, tokens_, clock_, metrics_};
  client::ApiClient event_api_{event_transport_, tokens_, clock_, metrics_};
  Caches caches_;
  Parallel parallel_{1, 1};
  Executor executor_{api_, caches_, parallel_, clock_};
  runtime::EventRecorder events_{
      event_api_, {.correlator = {}, .controller = "c", .instance = "i"}, clock_, metrics_
  };
  JobMetrics job_metrics_{metrics_, clock_};
  Reconciler reconciler_{
      caches_,
      executor_,
      events_,
      job_metrics_,
      clock_,
      {},
      [](const objects::ObjectKey&, Duration) {}
  };
};

// The cache has no room for it.
TEST_F(ReconcilerTest, AJobThatIsLeftOutOfTheCacheIsReadAndSaysSo) {
  const objects::ObjectKey key{"train", "arxiv"};
  std::vector<runtime::MemoryBudget::Charge> full;
  while (auto charge = caches_.memory.admit("train", 4096, 0)) full.push_back(std::move(*charge));
  caches_.memory.leave_out("gnnjobs", key);
  const std::string body = api::encode(job()).dump();
  transport_.reply(200, body).reply(200, body);
  static_cast<void>(reconciler_.reconcile(key));
  EXPECT_EQ(transport_.requests().at(0).method, "GET");
  EXPECT_EQ(transport_.requests().at(1).method, "PUT");
  EXPECT_NE(transport_.requests().at(1).body.find("MemoryLimit"), std::string::npos);
  EXPECT_EQ(count("POST"), 0U);
  EXPECT_EQ(caches_.jobs.find(key), nullptr);

  full.clear();
  transport_.reply(200, body);
  static_cast<void>(reconciler_.reconcile(key));
  EXPECT_NE(caches_.jobs.find(key), nullptr) << "there is room again";
  EXPECT_EQ(caches_.memory.complaint("train"), "");
}

TEST_F(ReconcilerTest, AJobThatIsLeftOutOfTheCacheAndGoneIsForgotten) {
  const objects::ObjectKey key{"train", "arxiv"};
  caches_.memory.leave_out("gnnjobs", key);
  transport_.reply(404, "{}");
  EXPECT_TRUE(std::holds_alternative<runtime::Done>(reconciler_.reconcile(key)));
  EXPECT_FALSE(caches_.memory.is_left_out("gnnjobs", key));
}

TEST_F(ReconcilerTest, PacesRepeatedRefusals) {
  put_finished_job();
  refuse("a webhook says no");
  EXPECT_LE(pause_after_pass(), 10ms) << "the next pass reports it in the status";
  refuse("a webhook says no");
  EXPECT_GE(pause_after_pass(), 5s);
  // A message that differs with each refusal does not speed it up either.
  refuse("a webhook says no, request 17");
  EXPECT_GE(pause_after_pass(), 1s);
}

TEST_F(ReconcilerTest, LogsARefusalUntilItIsRepeated) {
  put_finished_job();
  const auto log_of_pass = [&](const std::string& message) {
    clock_.advance(1min);
    refuse(message);
    ::testing::internal::CaptureStderr();
    static_cast<void>(reconciler_.reconcile({"train", "arxiv"}));
    return ::testing::internal::GetCapturedStderr();
  };
  const std::string log = log_of_pass("a role is missing");
  EXPECT_NE(log.find("a role is missing"), std::string::npos) << log;
  EXPECT_NE(log.find("train/arxiv"), std::string::npos) << log;
  EXPECT_NE(log.find("pod arxiv-1-0"), std::string::npos) << log;
  EXPECT_EQ(log_of_pass("a role is missing"), "");
  EXPECT_NE(log_of_pass("another role is missing").find("another role"), std::string::npos);
}

TEST_F(ReconcilerTest, AsksForPodsThatMayHaveLostTheirLabel) {
  const std::vector<Json> pods = put_running_job_without_pods();
  for (const Json& pod : pods) {
    caches_.strays.add(must(objects::decode_pod(pod)).metadata);
    Json bare = pod;
    bare["metadata"].erase("labels");
    transport_.reply(200, bare.dump());
  }
  for (const Json& pod : pods) transport_.reply(200, pod.dump());
  static_cast<void>(reconciler_.reconcile({"train", "arxiv"}));
  EXPECT_EQ(count("GET"), 2U);
  ASSERT_EQ(count("PATCH"), 2U);
  EXPECT_EQ(transport_.requests().size(), 4U) << "nothing else is wrong";
  const Json patch = Json::parse(transport_.requests().back().body);
  EXPECT_EQ(patch["metadata"]["uid"], pods[1]["metadata"]["uid"]);
  EXPECT_EQ(patch["metadata"]["labels"][std::string(contract::kLabelNode)], "1");

  static_cast<void>(reconciler_.reconcile({"train", "arxiv"}));
  EXPECT_EQ(count("GET"), 2U) << "their labels are back";
  EXPECT_EQ(count("PATCH"), 2U);
}

TEST_F(ReconcilerTest, ReleasesThePodOfAGoneJobThatHasLostItsLabel) {
  Json pod = encode(reconcile::desired_pod(job(), {.attempt = 1, .node = 0}));
  pod["metadata"]["uid"] = "u";
  caches_.strays.add(must(objects::decode_pod(pod)).metadata);
  pod["metadata"].erase("labels");
  const std::string gone = Json{{"kind", "Status"}, {"reason", "NotFound"}}.dump();
  transport_.reply(200, pod.dump()).reply(404, gone).reply(200, pod.dump());
  EXPECT_TRUE(std::holds_alternative<runtime::Done>(reconciler_.reconcile({"train", "arxiv"})));
  ASSERT_EQ(count("PATCH"), 1U);
  EXPECT_NE(transport_.requests().back().body.find(contract::kPodFinalizer), std::string::npos);
  transport_.reply(404, gone);
  EXPECT_TRUE(std::holds_alternative<runtime::Done>(reconciler_.reconcile({"train", "arxiv"})));
  static_cast<void>(reconciler_.reconcile({"train", "arxiv"}));
  EXPECT_EQ(count("GET"), 3U) << "what is gone is forgotten";
}

TEST_F(ReconcilerTest, ReportsARefusedStart) {
  put_start();
  refuse("exceeded quota: q");
  EXPECT_LE(pause_after_pass(), 10ms);
  EXPECT_EQ(count("POST"), 1U) << "one pod, and no event about the gang";
  EXPECT_EQ(count("PUT"), 0U);
  EXPECT_EQ(metrics_.expose().find("gnnjob_condition"), std::string::npos);

  transport_.reply(409, Json{{"kind", "Status"}, {"reason", "Conflict"}}.dump());
  static_cast<void>(reconciler_.reconcile({"train", "arxiv"}));
  const Json written = Json::parse(last_body("PUT"));
  EXPECT_NE(written.dump().find("QuotaExceeded"), std::string::npos) << written;
}

TEST_F(ReconcilerTest, WritesNoNewsOfAStartWhileOtherJobsWait) {
  put_start();
  ReconcilerOptions options;
  options.busy = [](const std::string&) { return true; };
  Reconciler busy(
      caches_,
      executor_,
      events_,
      job_metrics_,
      clock_,
      options,
      [](const objects::ObjectKey&, Duration) {}
  );
  const auto pods = static_cast<size_t>(job().spec.workers.nodes);
  for (size_t i = 0; i < pods; ++i) transport_.reply(201, "{}");
  static_cast<void>(busy.reconcile({"train", "arxiv"}));
  EXPECT_EQ(count("POST"), pods);
  EXPECT_EQ(count("PUT"), 0U);
}

TEST_F(ReconcilerTest, BacksOffARefusedStart) {
  put_start();
  for (int second = 0; second < 60; ++second) {
    refuse("a webhook says no");
    static_cast<void>(reconciler_.reconcile({"train", "arxiv"}));
    clock_.advance(1s);
  }
  EXPECT_EQ(count("POST"), 3U) << "after 0, 10 and 30 s";
}

TEST_F(ReconcilerTest, AReleasedGangYieldsOnlyToAnOlderOneOfItsNamespaceThatHoldsPods) {
  put_start();
  api::GnnJob released = job();
  released.metadata.creation_timestamp = clock_.now();
  released.status.attempt = 2;
  released.status.next_attempt_time = clock_.now();
  released.status.conditions.push_back(not_scheduled(reconcile::reason::kReleased));
  caches_.jobs.upsert(std::make_shared<const api::GnnJob>(released));
  put_older_gang("another", "gang-with-pods", 1);
  put_older_gang("train", "gang-without-pods", 0);
  refuse("exceeded quota: q");
  static_cast<void>(reconciler_.reconcile({"train", "arxiv"}));
  EXPECT_EQ(count("POST"), 1U) << "it is created";

  put_older_gang("train", "gang-with-pods", 1);
  transport_.reply(409, Json{{"kind", "Status"}, {"reason", "Conflict"}}.dump());
  clock_.advance(10s);
  static_cast<void>(reconciler_.reconcile({"train", "arxiv"}));
  EXPECT_EQ(count("POST"), 1U) << "it waits";
  const std::string written = last_body("PUT");
  EXPECT_NE(written.find("the older GNNJob gang-with-pods "), std::string::npos) << written;
}

TEST_F(ReconcilerTest, DoesNotSendAgainWhatAnOlderCrdDrops) {
  const std::vector<Json> pods = put_running_job_without_pods();
  api::GnnJob kept = *caches_.jobs.find({"train", "arxiv"});
  kept.metadata.resource_version = "8";
  kept.status.nodes = {};
  caches_.jobs.upsert(std::make_shared<const api::GnnJob>(kept));
  for (const Json& pod : pods) transport_.reply(200, pod.dump());
  kept.metadata.resource_version = "9";
  transport_.reply(200, api::encode(kept).dump());
  static_cast<void>(reconciler_.reconcile({"train", "arxiv"}));
  ASSERT_EQ(count("PUT"), 1U);
  clock_.advance(1min);
  for (const Json& pod : pods) transport_.reply(200, pod.dump());
  EXPECT_TRUE(std::holds_alternative<runtime::Done>(reconciler_.reconcile({"train", "arxiv"})));
  EXPECT_EQ(count("PUT"), 1U);
}

TEST_F(ReconcilerTest, ReportsACreateThatKeepsFailing) {
  put_start();
  const std::string body =
      Json{{"kind", "Status"}, {"message", "failed calling webhook \"w\""}}.dump();
  transport_.reply(500, body).reply(500, body);
  EXPECT_TRUE(std::holds_alternative<runtime::Retry>(reconciler_.reconcile({"train", "arxiv"})));
  clock_.advance(5s);
  EXPECT_LE(pause_after_pass(), 10ms) << "the next pass reports it in the status";
  EXPECT_EQ(count("PUT"), 0U);
  transport_.reply(409, Json{{"kind", "Status"}, {"reason", "Conflict"}}.dump());
  static_cast<void>(reconciler_.reconcile({"train", "arxiv"}));
  EXPECT_EQ(count("POST"), 2U) << "it is not tried in a tight loop";
  const std::string written = last_body("PUT");
  EXPECT_NE(written.find("CreateFailed"), std::string::npos) << written;
  EXPECT_NE(written.find("failed calling webhook"), std::string::npos) << written;

  clock_.advance(10s);
  transport_.reply(500, body);
  EXPECT_GE(pause_after_pass(), 5s) << "it has been failing all the time";
  EXPECT_EQ(count("POST"), 3U);
}

TEST_F(ReconcilerTest, ACreateThatFailedOnceIsNotReported) {
  put_start();
  for (int i = 0; i < 3; ++i) {
    transport_.reply(500, "{}").reply(403, "{}");
    EXPECT_TRUE(std::holds_alternative<runtime::Retry>(reconciler_.reconcile({"train", "arxiv"})));
    clock_.advance(10s);
    // Refused, so it answers: what comes later has not failed for long.
    static_cast<void>(reconciler_.reconcile({"train", "arxiv"}));
    transport_.reply(409, "{}");
    static_cast<void>(reconciler_.reconcile({"train", "arxiv"}));
    clock_.advance(10s);
  }
}

// Jobs of one node that run, and what their pods answer.
class ReconcilerProgressTest : public ReconcilerTest {
 protected:
  void SetUp() override {
    for (const char* name : {"j1", "j2"}) put_running(name);
    for (const char* name : {"j1", "j2"}) static_cast<void>(reconcile(name));
    EXPECT_TRUE(transport_.requests().empty());
  }
  void put_running(const std::string& name) {
    reconcile::Observed running;
    running.job = reconcile::small_job(1);
    running.job.metadata.name = name;
    running.job.metadata.uid = "uid-" + name;
    running.job.metadata.resource_version = "7";
    running.now = clock_.now();
    running.pods = {reconcile::pod_of(running.job, 0)};
    reconcile::make_ready(running.pods[0]).status.pod_ip = name;
    running.service = reconcile::desired_service(running.job);
    running.config_map = reconcile::desired_config_map(running.job);
    running.network_policy = reconcile::desired_network_policy(running.job);
    running.job.status = reconcile::plan(running).status;
    jobs_[name] = running.job;
    caches_.jobs.upsert(std::make_shared<const api::GnnJob>(running.job));
    caches_.pods.upsert(std::make_shared<const objects::Pod>(running.pods[0]));
    caches_.services.upsert(std::make_shared<const objects::Service>(*running.service));
    caches_.config_maps.upsert(std::make_shared<const objects::ConfigMap>(*running.config_map));
    caches_.network_policies.upsert(
        std::make_shared<const objects::NetworkPolicy>(*running.network_policy)
    );
  }
  static Duration delay_of(const runtime::Outcome& outcome) {
    const auto* later = std::get_if<runtime::RequeueAfter>(&outcome);
    return later == nullptr ? Duration::zero() : later->delay;
  }
  runtime::Outcome reconcile(const std::string& name) {
    return reconciler_.reconcile({"train", name});
  }
  // Returns after which time the job is asked again.
  Duration poll(const std::string& name) {
    return delay_of(reconciler_.poll_progress({"train", name}, [&](const objects::ObjectKey& key) {
      changed_.push_back(key.name);
    }));
  }
  ReconcilerOptions options() {
    ReconcilerOptions options;
    options.fetch_progress = [this](const std::string& address) -> Result<std::string> {
      if (silent_) return fail(ErrorKind::Timeout, "no answer in time");
      return reconcile::result_message(jobs_.at(address), 1, 0, R"(, "epoch": 3, "epochs": 9)");
    };
    return options;
  }

  bool silent_ = false;
  std::map<std::string, api::GnnJob> jobs_;  // by name, which is their pod's address
  std::vector<std::string> changed_;
  Reconciler reconciler_{
      caches_,
      executor_,
      events_,
      job_metrics_,
      clock_,
      options(),
      [](const objects::ObjectKey&, Duration) {}
  };
};

TEST_F(ReconcilerProgressTest, ProgressOfJobsIsWrittenOneAfterTheOtherAndShownAtOnce) {
  for (const char* name : {"j1", "j2"}) EXPECT_EQ(poll(name), 5s);
  EXPECT_EQ(changed_, (std::vector<std::string>{"j1", "j2"}));
  transport_.reply(200, "{}").reply(200, "{}");
  static_cast<void>(reconcile("j1"));
  EXPECT_EQ(count("PUT"), 1U);
  EXPECT_EQ(delay_of(reconcile("j2")), 200ms);
  EXPECT_EQ(count("PUT"), 1U);
  for (const char* name : {"j1", "j2"}) {
    const std::string series =
        std::string("gnnjob_epoch{job=\"") + name + "\",namespace=\"train\"} 3";
    EXPECT_NE(metrics_.expose().find(series), std::string::npos) << metrics_.expose();
  }
  clock_.advance(200ms);
  static_cast<void>(reconcile("j2"));
  ASSERT_EQ(count("PUT"), 2U);
  EXPECT_EQ(Json::parse(transport_.requests().back().body)["status"]["message"], "Epoch 3 of 9");
}

TEST_F(ReconcilerProgressTest, ASilentPodIsAskedLessAndLessOften) {
  silent_ = true;
  for (const Duration expected : {10s, 20s, 30s, 30s}) EXPECT_EQ(poll("j1"), expected);
  EXPECT_EQ(poll("j2"), 10s);
  silent_ = false;
  EXPECT_EQ(poll("j1"), 5s);
}

TEST_F(ReconcilerTest, AGangThatTheCacheDoesNotShowYetRunsOn) {
  for (const Json& pod : put_running_job_without_pods()) transport_.reply(200, pod.dump());
  static_cast<void>(reconciler_.reconcile({"train", "arxiv"}));
  EXPECT_EQ(count("GET"), 2U);
  EXPECT_EQ(transport_.requests().size(), 2U) << transport_.requests().back().body;
}

TEST_F(ReconcilerTest, APodAheadOfItsJobIsNoneOfItsPodsOnceTheJobHasBeenRead) {
  for (const Json& pod : put_running_job_without_pods()) {
    caches_.pods.upsert(std::make_shared<const objects::Pod>(must(objects::decode_pod(pod))));
  }
  const api::GnnJob job = *caches_.jobs.find({"train", "arxiv"});
  Json claims = encode(reconcile::desired_pod(job, {.attempt = 999, .node = 0}));
  claims["metadata"]["uid"] = "uid-of-the-other";
  claims["status"] = {{"phase", "Running"}};
  caches_.pods.upsert(std::make_shared<const objects::Pod>(must(objects::decode_pod(claims))));
  transport_.reply(200, api::encode(job).dump()).reply(200, "{}").reply(200, "{}");
  ::testing::internal::CaptureStderr();
  static_cast<void>(reconciler_.reconcile({"train", "arxiv"}));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("none of its pods"), std::string::npos) << log;
  EXPECT_NE(log.find("arxiv-999-0"), std::string::npos) << log;
  EXPECT_EQ(count("GET"), 1U);
  ASSERT_EQ(count("DELETE"), 1U);
  EXPECT_NE(last_body("DELETE").find("uid-of-the-other"), std::string::npos);
  transport_.reply(200, "{}").reply(200, "{}");
  static_cast<void>(reconciler_.reconcile({"train", "arxiv"}));
  EXPECT_EQ(count("GET"), 1U) << "it is known";
}

TEST_F(ReconcilerTest, PodsOfALaterAttemptAreTheJobsIfTheApiServerSaysSo) {
  static_cast<void>(put_running_job_without_pods());
  api::GnnJob job = *caches_.jobs.find({"train", "arxiv"});
  for (int64_t node = 0; node < 2; ++node) {
    objects::Pod pod = reconcile::desired_pod(job, {.attempt = 2, .node = node});
    pod.metadata.uid = "uid-of-" + pod.metadata.name;
    reconcile::make_ready(pod);
    caches_.pods.upsert(std::make_shared<const objects::Pod>(pod));
  }
  job.status.attempt = 2;
  job.metadata.resource_version = "8";
  transport_.reply(200, api::encode(job).dump());
  static_cast<void>(reconciler_.reconcile({"train", "arxiv"}));
  EXPECT_EQ(count("GET"), 1U);
  EXPECT_EQ(count("DELETE"), 0U);
  EXPECT_EQ(count("PATCH"), 0U);
}

TEST_F(ReconcilerTest, APodThatIsGoneEndsTheAttempt) {
  static_cast<void>(put_running_job_without_pods());
  transport_.reply(404, Json{{"kind", "Status"}, {"reason", "NotFound"}}.dump());
  transport_.reply(409, Json{{"kind", "Status"}, {"reason", "Conflict"}}.dump());
  static_cast<void>(reconciler_.reconcile({"train", "arxiv"}));
  EXPECT_EQ(count("GET"), 2U) << "one pod is enough; the other is of the job after the conflict";
  ASSERT_EQ(count("PUT"), 1U);
  EXPECT_EQ(Json::parse(last_body("PUT"))["status"]["attempt"], 2);
}

TEST_F(ReconcilerTest, APodThatCannotBeReadIsNotTakenForGone) {
  static_cast<void>(put_running_job_without_pods());
  transport_.reply(200, R"({"metadata": {"name": "arxiv-1-0"}, "status": "of another version"})");
  const runtime::Outcome outcome = reconciler_.reconcile({"train", "arxiv"});
  const auto* retry = std::get_if<runtime::Retry>(&outcome);
  ASSERT_NE(retry, nullptr);
  EXPECT_NE(retry->error.find("arxiv-1-0 cannot be read"), std::string::npos) << retry->error;
  EXPECT_EQ(count("PUT"), 0U) << "no attempt ends";
}

TEST_F(ReconcilerTest, PodsOfAJobThatCannotBeReadKeepTheirFinalizers) {
  put_finished_job();
  caches_.jobs.erase({"train", "arxiv"}, "");
  transport_.reply(200, R"({"metadata": {"uid": "job-uid"}, "spec": "of another version"})");
  EXPECT_EQ(pause_after_pass(), 1min);
  EXPECT_EQ(count("PATCH"), 0U);

  // A later job of the same name does not hold them.
  transport_.reply(200, R"({"metadata": {"uid": "another-uid"}})").reply(200, "{}");
  static_cast<void>(reconciler_.reconcile({"train", "arxiv"}));
  EXPECT_EQ(count("PATCH"), 1U);
}

TEST_F(ReconcilerTest, StartsAGangWithOneStatusWrite) {
  put_start();
  const auto made = [&](int node) {
    const std::string name = contract::pod_name("arxiv", 1, node);
    transport_.reply(
        201,
        Json{{"metadata",
              {{"name", name},
               {"namespace", "train"},
               {"uid", "uid-of-" + name},
               {"labels", reconcile::identifying_labels(job(), {.attempt = 1, .node = node})},
               {"ownerReferences", {{{"uid", "job-uid"}, {"controller", true}}}}}}
        }.dump()
    );
  };
  made(0);
  made(1);
  transport_.reply(409, Json{{"kind", "Status"}, {"reason", "Conflict"}}.dump());
  const runtime::Outcome first = reconciler_.reconcile({"train", "arxiv"});
  EXPECT_TRUE(std::holds_alternative<runtime::Retry>(first)) << "the status met a conflict";
  EXPECT_EQ(count("POST"), 2U);
  EXPECT_EQ(count("PUT"), 1U);

  // Everything exists now, so the second pass only writes the status.
  transport_.reply(409, Json{{"kind", "Status"}, {"reason", "Conflict"}}.dump());
  static_cast<void>(reconciler_.reconcile({"train", "arxiv"}));
  EXPECT_EQ(count("POST"), 2U);
  EXPECT_EQ(count("PUT"), 2U);
  const Json written = Json::parse(last_body("PUT"));
  EXPECT_EQ(written["status"]["attempt"], 1);
  EXPECT_EQ(written["metadata"]["resourceVersion"], "7");
}

// What the API server has of a job that the cache has in an earlier version.
std::string with_run_policy(const api::GnnJob& job, const std::string& field, const Json& value) {
  Json json = api::encode(job);
  json["metadata"]["resourceVersion"] = "8";
  json["spec"]["runPolicy"][field] = value;
  return json.dump();
}

// The watch of GNNJobs is open and silent.
class SilentWatch : public ReconcilerTest {
 protected:
  void put(const api::GnnJob& job) {
    caches_.jobs.upsert(std::make_shared<const api::GnnJob>(job));
  }
  void conflict_and_read(const std::string& body) {
    transport_
        .reply(409, Json{{"kind", "Status"}, {"reason", "Conflict"}, {"message", "changed"}}.dump())
        .reply(200, body);
  }
  [[nodiscard]] bool retries() {
    return std::holds_alternative<runtime::Retry>(reconciler_.reconcile({"train", "arxiv"}));
  }
};

TEST_F(SilentWatch, AJobWhoseTimeToLiveWasRaisedStays) {
  api::GnnJob finished = job();
  finished.status.attempt = 1;
  finished.status.state = reconcile::state::kComplete;
  finished.status.completion_time = clock_.now() - 61s;
  finished.status.conditions.push_back(
      {.type = std::string(reconcile::condition::kComplete),
       .status = "True",
       .reason = std::string(reconcile::reason::kAllNodesDone),
       .message = {}}
  );
  finished.spec.run_policy.ttl_seconds_after_finished = 60;
  put(finished);
  conflict_and_read(with_run_policy(finished, "ttlSecondsAfterFinished", 86400));
  EXPECT_TRUE(retries()) << "with back-off";
  EXPECT_EQ(count("DELETE"), 1U);
  transport_.reply(200, with_run_policy(finished, "ttlSecondsAfterFinished", 86400));
  EXPECT_GE(pause_after_pass(), 23h);
  EXPECT_EQ(count("DELETE"), 1U);
}

TEST_F(SilentWatch, AJobWhoseDeadlineWasRaisedOrRemovedDoesNotFail) {
  for (const Json& deadline : {Json(86400), Json()}) {
    caches_.jobs.erase({"train", "arxiv"}, "");
    put_running_job_without_pods();
    api::GnnJob running = *caches_.jobs.find({"train", "arxiv"});
    running.spec.run_policy.active_deadline_seconds = 60;
    running.status.start_time = clock_.now() - 61s;
    caches_.jobs.erase({"train", "arxiv"}, "");
    put(running);
    const reconcile::Observed observed = reconcile::running();
    for (const objects::Pod& pod : observed.pods) {
      caches_.pods.upsert(std::make_shared<const objects::Pod>(pod));
    }
    conflict_and_read(with_run_policy(running, "activeDeadlineSeconds", deadline));
    EXPECT_TRUE(retries());
    EXPECT_NE(transport_.requests().at(0).body.find("DeadlineExceeded"), std::string::npos);
    EXPECT_EQ(count("DELETE"), 0U);
    const auto now = caches_.jobs.find({"train", "arxiv"});
    EXPECT_EQ(now->metadata.resource_version, "8");
    EXPECT_NE(now->spec.run_policy.active_deadline_seconds, 60);
  }
}

// The job is gone. Its pod is on a machine that is silent: whether for long enough, the clock must tell.
TEST_F(ReconcilerTest, QuotaOfAGoneJobIsKeptWhileTheTimeIsDoubtful) {
  put_finished_job();
  caches_.jobs.erase({"train", "arxiv"}, "");
  objects::Pod pod = *caches_.pods.find({"train", "arxiv-1-0"});
  pod.status.phase = "Running";
  pod.metadata.finalizers.clear();
  pod.metadata.deletion_timestamp = clock_.now();
  caches_.pods.upsert(std::make_shared<const objects::Pod>(pod));
  objects::Workload workload;
  workload.version = objects::KueueVersion::V1Beta1;
  workload.metadata = pod.metadata;
  workload.metadata.name = "w";
  workload.metadata.uid = "uid-of-workload";
  workload.metadata.deletion_timestamp.reset();
  workload.metadata.finalizers = {std::string(objects::kueue::kFinalizer)};
  with_workloads(caches_, workload.version, [&]<class T>(runtime::Store<T>& store) {
    store.upsert(std::make_shared<const T>(T(workload)));
  });
  Duration doubt = 1h;
  ReconcilerOptions options;
  options.optional_apis = [&] {
    OptionalApis apis;
    apis.kueue = workload.version;
    return apis;
  };
  options.time = [&] {
    const TimePoint now = clock_.now() + 1h;
    return client::ServerClock::Reading{.now = now, .earliest = now - doubt, .latest = now};
  };
  Reconciler reconciler(
      caches_, executor_, events_, job_metrics_, clock_, options, [](const auto&, Duration) {}
  );
  const std::string gone = Json{{"kind", "Status"}, {"reason", "NotFound"}}.dump();
  transport_.reply(404, gone);  // says what time it is
  const runtime::Outcome waits = reconciler.reconcile({"train", "arxiv"});
  ASSERT_TRUE(std::holds_alternative<runtime::RequeueAfter>(waits));
  EXPECT_EQ(std::get<runtime::RequeueAfter>(waits).delay, 5s);
  EXPECT_EQ(count("PATCH"), 0U);
  doubt = 0s;
  transport_.reply(404, gone).reply(200, "{}");
  static_cast<void>(reconciler.reconcile({"train", "arxiv"}));
  EXPECT_EQ(count("PATCH"), 1U);
}

TEST_F(ReconcilerTest, ATimeThatIsDoubtfulIsAskedForAndEndsNothing) {
  ReconcilerOptions options;
  options.time = [&] {
    const TimePoint now = clock_.now();
    return client::ServerClock::Reading{.now = now + 1h, .earliest = now, .latest = now + 1h};
  };
  Reconciler doubtful(
      caches_, executor_, events_, job_metrics_, clock_, options, [](const auto&, Duration) {}
  );
  put_finished_job();
  transport_.reply(200, "{}");  // says what time it is
  transport_.reply(200, "{}");  // releases the pod
  (void)doubtful.reconcile({"train", "arxiv"});
  (void)doubtful.reconcile({"train", "arxiv"});
  EXPECT_EQ(count("GET"), 1U) << "not before each pass";
}

}  // namespace
}  // namespace gnn::app
