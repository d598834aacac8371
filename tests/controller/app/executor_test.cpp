#include "controller/app/executor.h"

#include "common/api/codec.h"
#include "common/contract.h"
#include "common/log.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::app {
namespace {

using gnn::testing::FakeClock;
using gnn::testing::FakeTransport;
using objects::Json;

class ExecutorTest : public ::testing::Test {
 protected:
  ExecutorTest() {
    job_.metadata.name = "j";
    job_.metadata.namespace_ = "ns";
    job_.metadata.uid = "job-uid";
    job_.metadata.resource_version = "7";
  }

  static objects::Pod pod(int node) {
    objects::Pod pod;
    pod.metadata.name = "j-1-" + std::to_string(node);
    pod.metadata.namespace_ = "ns";
    return pod;
  }
  static std::string pod_owned_by(const std::string& uid) {
    return Json{{"metadata",
                 {{"name", "j-1-0"},
                  {"namespace", "ns"},
                  {"ownerReferences", {{{"uid", uid}, {"controller", true}}}}}}
    }.dump();
  }
  static std::string refusal(const std::string& reason, const std::string& message) {
    return Json{{"kind", "Status"}, {"reason", reason}, {"message", message}}.dump();
  }
  reconcile::Plan plan_of_pods(int count) {
    reconcile::Plan plan;
    for (int i = 0; i < count; ++i) plan.actions.push_back(reconcile::CreatePod{pod(i)});
    plan.status = job_.status;
    return plan;
  }

  FakeClock clock_;
  FakeTransport transport_;
  MetricsRegistry metrics_;
  client::TokenSource tokens_{client::KubeConfig{}, clock_};
  client::ApiClient api_{transport_, tokens_, clock_, metrics_};
  Caches caches_;
  Parallel parallel_{4, 3};
  Executor executor_{api_, caches_, parallel_, clock_};
  api::GnnJob job_;
};

TEST_F(ExecutorTest, CreatesAllPodsAndCachesThem) {
  for (int i = 0; i < 7; ++i) {
    transport_.reply(
        201, R"({"metadata":{"name":"j-1-)" + std::to_string(i) + R"(","namespace":"ns"}})"
    );
  }
  const Execution done = executor_.execute(plan_of_pods(7), job_);
  EXPECT_FALSE(done.error);
  EXPECT_EQ(transport_.requests().size(), 7U);
  EXPECT_FALSE(done.status_written) << "the status did not change";
}

TEST_F(ExecutorTest, AQuotaRefusalCostsFewCalls) {
  transport_.reply(403, refusal("Forbidden", "pods \"j-1-0\" is forbidden: exceeded quota: q"));
  const Execution done = executor_.execute(plan_of_pods(64), job_);
  EXPECT_EQ(transport_.requests().size(), 1U);
  ASSERT_EQ(done.refusals.size(), 1U);
  EXPECT_EQ(done.refusals[0].kind, reconcile::ApiRefusal::Kind::Quota);
  EXPECT_EQ(done.refusals[0].object, "pod j-1-0");
  EXPECT_EQ(done.refusals[0].message, "pods \"j-1-0\" is forbidden: exceeded quota: q");
  EXPECT_FALSE(done.error);
}

TEST_F(ExecutorTest, SkipsAStatusThatNeedsSuccessIfAnActionIsRefused) {
  transport_.reply(403, refusal("Forbidden", "exceeded quota: q"));
  reconcile::Plan plan = plan_of_pods(2);
  plan.status.attempt = 1;
  plan.status_needs_success = true;
  const Execution done = executor_.execute(plan, job_);
  EXPECT_FALSE(done.status_written);
  EXPECT_EQ(done.refusals.size(), 1U);
  EXPECT_EQ(transport_.requests().size(), 1U);
}

TEST_F(ExecutorTest, CreatesNoPodBesideAForeignService) {
  const std::string foreign =
      Json{{"metadata", {{"name", "j-gnn"}, {"namespace", "ns"}}}, {"spec", Json::object()}}.dump();
  transport_.reply(409, refusal("AlreadyExists", "exists")).reply(200, foreign);
  reconcile::Plan plan = plan_of_pods(2);
  reconcile::CreateService service;
  service.service.metadata.name = "j-gnn";
  service.service.metadata.namespace_ = "ns";
  plan.actions.insert(plan.actions.begin(), service);
  const Execution done = executor_.execute(plan, job_);
  EXPECT_FALSE(done.error);
  ASSERT_EQ(done.refusals.size(), 1U);
  EXPECT_EQ(done.refusals[0].kind, reconcile::ApiRefusal::Kind::NameTaken);
  EXPECT_EQ(transport_.requests().size(), 2U);
}

TEST_F(ExecutorTest, CreatesNoPodWithoutItsGroupAndTellsThatTheApiIsGone) {
  int told = 0;
  executor_.on_unserved_api([&] { ++told; });
  reconcile::Plan plan = plan_of_pods(2);
  reconcile::CreateGroup create;
  create.group.api = objects::GroupApi::Volcano;
  create.group.metadata.name = "j-1";
  create.group.metadata.namespace_ = "ns";
  plan.actions.insert(plan.actions.begin(), create);
  transport_.reply(403, refusal("Forbidden", "may not create podgroups"));
  const Execution refused = executor_.execute(plan, job_);
  ASSERT_EQ(refused.refusals.size(), 1U);
  EXPECT_EQ(refused.refusals[0].object, "podgroup j-1");
  EXPECT_EQ(told, 0);
  transport_.reply(404, refusal("NotFound", "the server could not find the requested resource"));
  EXPECT_TRUE(executor_.execute(plan, job_).error);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(transport_.requests().size(), 2U);
  EXPECT_EQ(
      transport_.requests().back().path,
      "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups"
  );
}

TEST_F(ExecutorTest, ReadsAllOfAFlavorAndTellsOneThatItMayNotRead) {
  transport_.reply(
      200, R"({"metadata": {"name": "spot"}, "spec": {
    "nodeLabels": {"cloud/spot": "true"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}})"
  );
  const auto flavor = executor_.read_flavor(objects::KueueVersion::V1Beta2, "spot");
  ASSERT_TRUE(flavor && *flavor);
  EXPECT_EQ((*flavor)->node_labels.at("cloud/spot"), "true");
  ASSERT_EQ((*flavor)->tolerations.size(), 1U);
  EXPECT_EQ((*flavor)->tolerations[0].key, "spot");
  EXPECT_EQ(transport_.requests().back().path, "/apis/kueue.x-k8s.io/v1beta2/resourceflavors/spot");
  transport_.reply(403, refusal("Forbidden", "may not get resourceflavors"));
  const auto forbidden = executor_.read_flavor(objects::KueueVersion::V1Beta2, "spot");
  EXPECT_TRUE(forbidden && !*forbidden);
}

TEST_F(ExecutorTest, TakesKueuesFinalizerOffAWorkloadAndNoOther) {
  objects::Workload workload;
  workload.metadata.name = "gnnjob-j-12345";
  workload.metadata.uid = "uid";
  workload.metadata.finalizers = {"other", std::string(objects::kueue::kFinalizer)};
  transport_.reply(200, "{}");
  const Execution done = executor_.execute({reconcile::ReleaseWorkload{workload}}, "ns");
  EXPECT_FALSE(done.error);
  const auto patch = objects::parse_json(transport_.requests().back().body).value();
  EXPECT_EQ(patch.at(2)["op"], "remove");
  EXPECT_EQ(patch.at(2)["path"], "/metadata/finalizers/1");
  EXPECT_EQ(patch.at(0)["value"], "uid");
}

TEST_F(ExecutorTest, AWorkloadThatHasChangedSinceIsLookedAtAgain) {
  objects::Workload workload;
  workload.metadata.name = "gnnjob-j-12345";
  workload.metadata.uid = "uid";
  workload.metadata.resource_version = "7";
  transport_.reply(409, refusal("Conflict", "the object has been modified"));
  const Execution done = executor_.execute({reconcile::UpdateWorkloadStatus{workload}}, "ns");
  EXPECT_TRUE(done.error);
  const client::HttpRequest request = transport_.requests().back();
  EXPECT_EQ(
      request.path, "/apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads/gnnjob-j-12345/status"
  );
  EXPECT_NE(request.body.find(R"("resourceVersion":"7")"), std::string::npos);
}

// Its creation had no answer, and no watch has shown the pod yet.
TEST_F(ExecutorTest, KeepsTheQuotaOfAPodThatMayHaveBeenMade) {
  reconcile::Plan plan = plan_of_pods(1);
  objects::Pod& made = std::get<reconcile::CreatePod>(plan.actions[0]).pod;
  made.metadata.annotations[std::string(objects::kueue::kAnnotationWorkload)] = "gnnjob-j-12345";
  objects::Workload workload;
  workload.metadata.name = "gnnjob-j-12345";
  workload.metadata.uid = "uid";
  workload.metadata.finalizers = {std::string(objects::kueue::kFinalizer)};
  const std::vector<reconcile::Action> gives_back = {
      reconcile::UpdateWorkloadStatus{workload},
      reconcile::ReleaseWorkload{workload},
      reconcile::DeleteWorkload{workload},
  };
  for (const reconcile::Action& action : gives_back) {
    transport_.reply(500, refusal("InternalError", "lost"));
    EXPECT_TRUE(executor_.execute(plan, job_).error);
    reconcile::Plan next;
    next.actions.push_back(action);
    next.status = job_.status;
    const size_t before = transport_.requests().size();
    transport_.reply(404, refusal("NotFound", "")).reply(200, "{}");
    EXPECT_FALSE(executor_.execute(next, job_).error) << "it was not made";
    EXPECT_EQ(transport_.requests().size(), before + 2);
    transport_.reply(500, refusal("InternalError", "lost"));
    EXPECT_TRUE(executor_.execute(plan, job_).error);
    transport_.reply(200, pod_owned_by("earlier-uid")).reply(200, "{}");
    EXPECT_FALSE(executor_.execute(next, job_).error) << "another job's pod has the name";
    EXPECT_EQ(caches_.pods.find({"ns", "j-1-0"}), nullptr);
    transport_.reply(500, refusal("InternalError", "lost"));
    EXPECT_TRUE(executor_.execute(plan, job_).error);
    transport_.reply(200, R"({"metadata": 3})");
    EXPECT_TRUE(executor_.execute(next, job_).error) << "one that cannot be read is not gone";
    EXPECT_EQ(transport_.requests().back().method, "GET");
    Json labelled = objects::parse_json(pod_owned_by("job-uid")).value();
    labelled["metadata"]["labels"][std::string(contract::kLabelJob)] = "j";
    transport_.reply(200, labelled.dump());
    const Execution seen = executor_.execute(next, job_);
    EXPECT_TRUE(seen.error && seen.error->kind == client::ApiErrorKind::Conflict);
    EXPECT_EQ(transport_.requests().back().method, "GET") << "nothing is given back";
    EXPECT_NE(caches_.pods.find({"ns", "j-1-0"}), nullptr);
    caches_.pods.erase({"ns", "j-1-0"}, "9");
  }
}

TEST_F(ExecutorTest, AnExistingObjectOfTheJobIsSuccess) {
  transport_.reply(409, refusal("AlreadyExists", "")).reply(200, pod_owned_by("job-uid"));
  const Execution done = executor_.execute(plan_of_pods(1), job_);
  EXPECT_FALSE(done.error);
  EXPECT_TRUE(done.refusals.empty());
  EXPECT_NE(caches_.pods.find({"ns", "j-1-0"}), nullptr);
}

reconcile::CreateDataKey create_data_key() {
  reconcile::CreateDataKey create;
  create.secret.metadata.name = "j-key-" + std::string(32, 'a');
  create.secret.metadata.namespace_ = "ns";
  return create;
}

TEST_F(ExecutorTest, DrawsADataKeyForANewSecretAndTellsNobody) {
  std::string logged;
  const ScopedLogOutput output([&](std::string_view line) { logged += line; });
  init_logging({.level = LogLevel::Debug});
  std::set<std::string> keys;
  for (int i = 0; i < 2; ++i) {
    transport_.reply(201, "{}");
    const Execution done = executor_.execute({create_data_key()}, "ns");
    EXPECT_FALSE(done.error);
    EXPECT_TRUE(done.data_key_made);
    EXPECT_EQ(transport_.requests().back().path, "/api/v1/namespaces/ns/secrets");
    const Json sent = Json::parse(transport_.requests().back().body);
    EXPECT_EQ(sent["type"], "Opaque");
    EXPECT_EQ(sent["immutable"], true);
    const auto key = sent["stringData"]["data.key"].get<std::string>();
    EXPECT_EQ(sent["stringData"].size(), 1U);
    EXPECT_EQ(key.size(), 64U);
    EXPECT_EQ(key.find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_EQ(logged.find(key), std::string::npos);
    keys.insert(key);
  }
  init_logging({.level = LogLevel::Warning});
  EXPECT_EQ(keys.size(), 2U);

  Executor blind(api_, caches_, parallel_, clock_, []() -> Result<std::string> {
    return fail(ErrorKind::Internal, "no random numbers");
  });
  EXPECT_TRUE(blind.execute({create_data_key()}, "ns").error) << "no Secret without a key";
}

TEST_F(ExecutorTest, TakesNoSecretForItsOwnThatItFinds) {
  reconcile::Plan plan;
  plan.actions = {create_data_key()};
  plan.status.data_key_secret = create_data_key().secret.metadata.name;
  transport_.reply(409, refusal("AlreadyExists", "exists"));
  const Execution done = executor_.execute(plan, job_);
  EXPECT_TRUE(done.error) << "the next pass draws another name";
  EXPECT_FALSE(done.data_key_made);
  EXPECT_FALSE(done.status_written);
  EXPECT_EQ(transport_.requests().size(), 1U) << "it is not even read";
}

TEST_F(ExecutorTest, MakesNoSecretWhilePodsCannotStart) {
  reconcile::CreateService service;
  service.service.metadata.name = "j-gnn";
  service.service.metadata.namespace_ = "ns";
  transport_.reply(403, refusal("Forbidden", "may not create services"));
  const Execution done = executor_.execute({service, create_data_key()}, "ns");
  EXPECT_EQ(done.refusals.size(), 1U);
  EXPECT_FALSE(done.data_key_made);
  EXPECT_EQ(transport_.requests().size(), 1U);
}

TEST_F(ExecutorTest, NeverAdoptsAForeignObject) {
  for (const std::string& body :
       {pod_owned_by("other"), std::string(R"({"metadata":{"name":"j-1-0"}})")}) {
    transport_.reply(409, refusal("AlreadyExists", "")).reply(200, body);
    const Execution done = executor_.execute(plan_of_pods(1), job_);
    ASSERT_EQ(done.refusals.size(), 1U);
    EXPECT_EQ(done.refusals[0].kind, reconcile::ApiRefusal::Kind::NameTaken);
    EXPECT_EQ(caches_.pods.find({"ns", "j-1-0"}), nullptr) << "no watch would report its deletion";
  }
  for (const auto& request : transport_.requests()) {
    EXPECT_TRUE(request.method == "POST" || request.method == "GET") << request.method;
  }
}

TEST_F(ExecutorTest, StopsAtTheFirstRetryableErrorAndWritesNoStatus) {
  reconcile::Plan plan = plan_of_pods(1);
  plan.actions.push_back(reconcile::DeletePod{.name = "x", .uid = "u", .grace_period_seconds = {}});
  plan.status.attempt = 5;
  transport_.reply(500, "{}");
  const Execution done = executor_.execute(plan, job_);
  ASSERT_TRUE(done.error);
  EXPECT_EQ(transport_.requests().size(), 1U);
  EXPECT_FALSE(done.status_written);
}

TEST_F(ExecutorTest, WritesTheStatusWithTheObservedVersion) {
  reconcile::Plan plan;
  plan.status = job_.status;
  plan.status.attempt = 1;
  transport_.reply(200, "{}");
  const Execution done = executor_.execute(plan, job_);
  EXPECT_TRUE(done.status_written);
  const client::HttpRequest request = transport_.requests().at(0);
  EXPECT_EQ(request.method, "PUT");
  EXPECT_EQ(request.path, "/apis/gnn.dev/v1alpha1/namespaces/ns/gnnjobs/j/status");
  const Json body = Json::parse(request.body);
  EXPECT_EQ(body["metadata"]["resourceVersion"], "7");
  EXPECT_EQ(body["metadata"]["uid"], "job-uid");
  EXPECT_EQ(body["status"]["attempt"], 1);
}

TEST_F(ExecutorTest, AStatusConflictIsAnErrorToRetry) {
  reconcile::Plan plan;
  plan.status = job_.status;
  plan.status.attempt = 1;
  transport_.reply(409, refusal("Conflict", "the object has been modified"));
  const Execution done = executor_.execute(plan, job_);
  ASSERT_TRUE(done.error);
  EXPECT_EQ(done.error->kind, client::ApiErrorKind::Conflict);
}

// A group, a Workload, a pod and the job itself, each with this UID and version.
std::vector<reconcile::Action> deletions(const std::string& uid, const std::string& version) {
  objects::Workload workload;
  workload.version = objects::KueueVersion::V1Beta2;
  workload.metadata.name = "w";
  workload.metadata.uid = uid;
  workload.metadata.resource_version = version;
  return {
      reconcile::DeletePod{"p", uid, 0, version},
      reconcile::DeleteGroup{objects::GroupApi::Volcano, "g", uid, version},
      reconcile::DeleteWorkload{workload},
      reconcile::DeleteJob{uid, version},
  };
}

TEST_F(ExecutorTest, DeletesByUidAndVersionAndAcceptsNotFound) {
  reconcile::Plan plan;
  plan.status = job_.status;
  plan.actions = deletions("u1", "7");
  transport_.reply(200, "{}").reply(404, refusal("NotFound", "")).reply(200, "{}").reply(200, "{}");
  EXPECT_FALSE(executor_.execute(plan, job_).error);
  const auto requests = transport_.requests();
  ASSERT_EQ(requests.size(), 4U);
  for (const client::HttpRequest& each : requests) {
    const Json expected = {{"uid", "u1"}, {"resourceVersion", "7"}};
    EXPECT_EQ(each.method, "DELETE");
    EXPECT_EQ(Json::parse(each.body)["preconditions"], expected) << each.path;
  }
  EXPECT_EQ(Json::parse(requests[0].body)["gracePeriodSeconds"], 0);
  EXPECT_FALSE(Json::parse(requests[3].body).contains("gracePeriodSeconds"));
  EXPECT_EQ(requests[3].path, "/apis/gnn.dev/v1alpha1/namespaces/ns/gnnjobs/j");
}

TEST_F(ExecutorTest, ADeletionOfWhatHasChangedIsAnErrorToRetryAndOfAnotherNone) {
  const std::string conflict = refusal("Conflict", "a precondition failed");
  // Read as each of the kinds.
  Json found = api::encode(job_);
  found["metadata"] = {{"name", "j"}, {"namespace", "ns"}, {"resourceVersion", "8"}};
  for (const reconcile::Action& each : deletions("u1", "7")) {
    found["metadata"]["uid"] = "u1";
    transport_.reply(409, conflict).reply(200, found.dump());
    const Execution changed = executor_.execute({each}, "ns");
    ASSERT_TRUE(changed.error) << each.index();
    EXPECT_EQ(changed.error->kind, client::ApiErrorKind::Conflict);
    found["metadata"]["uid"] = "u2";
    transport_.reply(409, conflict).reply(200, found.dump());
    EXPECT_FALSE(executor_.execute({each}, "ns").error);
    transport_.reply(409, conflict).reply(404, refusal("NotFound", ""));
    EXPECT_FALSE(executor_.execute({each}, "ns").error);
  }
}

TEST_F(ExecutorTest, APodThatHasChangedIsCachedAsItIsNow) {
  objects::Pod cached = pod(0);
  cached.metadata.uid = "u1";
  cached.metadata.resource_version = "7";
  caches_.pods.upsert(std::make_shared<const objects::Pod>(cached));
  transport_.reply(409, refusal("Conflict", ""))
      .reply(
          200,
          R"({"metadata":{"name":"j-1-0","namespace":"ns","uid":"u1","resourceVersion":"8"},"status":{"phase":"Running"}})"
      );
  EXPECT_TRUE(executor_.execute({reconcile::delete_pod(cached.metadata)}, "ns").error);
  const auto now = caches_.pods.find({"ns", "j-1-0"});
  ASSERT_NE(now, nullptr);
  EXPECT_EQ(now->status.phase, "Running");
}

// A watch says of a pod that has lost its label what it says of one that is gone, and then no more.
TEST_F(ExecutorTest, APodThatHasLostOurLabelIsNotCached) {
  const objects::ObjectKey key{"ns", "j-1-0"};
  const std::string bare =
      R"({"metadata":{"name":"j-1-0","namespace":"ns","uid":"u1","resourceVersion":"9"}})";
  objects::Pod cached = pod(0);
  cached.metadata.uid = "u1";
  cached.metadata.resource_version = "7";
  cached.metadata.labels[std::string(contract::kLabelJob)] = "j";
  const auto put = [&] { caches_.pods.upsert(std::make_shared<const objects::Pod>(cached)); };
  const auto stays_cached = [&] {
    caches_.pods.erase(key, "8");  // when it lost its label
    return caches_.pods.find(key) != nullptr;
  };

  put();
  transport_.reply(409, refusal("Conflict", "")).reply(200, bare);
  EXPECT_TRUE(executor_.execute({reconcile::delete_pod(cached.metadata)}, "ns").error);
  EXPECT_FALSE(stays_cached()) << "what was read";

  put();
  transport_.reply(200, bare);
  EXPECT_FALSE(executor_.execute({reconcile::StopPod{"j-1-0", "u1"}}, "ns").error);
  EXPECT_FALSE(stays_cached()) << "what was changed";

  transport_.reply(200, bare);
  EXPECT_FALSE(executor_.execute({reconcile::StopPod{"j-1-0", "u1"}}, "ns").error);
  EXPECT_EQ(caches_.pods.find(key), nullptr) << "what no watch has shown";
}

// Changes of objects with this UID that name no version.
std::vector<reconcile::Action> changes(const std::string& uid) {
  reconcile::UpdateService service;
  service.service.metadata.name = "s";
  service.service.metadata.uid = uid;
  reconcile::UpdateNetworkPolicy policy;
  policy.network_policy.metadata.name = "n";
  policy.network_policy.metadata.uid = uid;
  reconcile::ReleaseWorkload workload;
  workload.workload.metadata.name = "w";
  workload.workload.metadata.uid = uid;
  workload.workload.metadata.finalizers = {std::string(objects::kueue::kFinalizer)};
  return {
      reconcile::ReleasePod{"p", uid},
      reconcile::RelabelPod{.name = "p", .uid = uid, .labels = {}},
      reconcile::StopPod{"p", uid},
      service,
      policy,
      workload,
  };
}

// The API server gives up a patch, too, if others change the object all the time.
TEST_F(ExecutorTest, AChangeThatMeetsAConflictIsAnErrorToRetryUnlessTheObjectIsAnother) {
  const std::string conflict = refusal("Conflict", "the object has been modified");
  Json found = {{"metadata", {{"name", "x"}, {"namespace", "ns"}, {"resourceVersion", "8"}}}};
  for (const reconcile::Action& each : changes("u1")) {
    found["metadata"]["uid"] = "u1";
    transport_.reply(409, conflict).reply(200, found.dump());
    const Execution changed = executor_.execute({each}, "ns");
    ASSERT_TRUE(changed.error) << each.index();
    EXPECT_EQ(changed.error->kind, client::ApiErrorKind::Conflict);
    found["metadata"]["uid"] = "u2";
    transport_.reply(409, conflict).reply(200, found.dump());
    EXPECT_FALSE(executor_.execute({each}, "ns").error) << each.index();
    transport_.reply(404, refusal("NotFound", ""));
    EXPECT_FALSE(executor_.execute({each}, "ns").error) << each.index();
  }
}

TEST_F(ExecutorTest, LabelsOnlyThePodThatWasSeen) {
  transport_.reply(200, pod_owned_by("job-uid"));
  reconcile::Plan plan;
  plan.actions.push_back(reconcile::RelabelPod{"j-1-0", "u", "7", {{"gnn.dev/job", "j"}}});
  plan.status = job_.status;
  EXPECT_FALSE(executor_.execute(plan, job_).error);
  const Json sent = objects::parse_json(transport_.requests().at(0).body).value();
  EXPECT_EQ(sent["metadata"]["resourceVersion"], "7");
  EXPECT_EQ(sent["metadata"]["uid"], "u");
}

TEST_F(ExecutorTest, RepairsTheWholeOfADriftedSpecByUid) {
  reconcile::UpdateService update;
  update.service.metadata.name = "j-gnn";
  update.service.metadata.namespace_ = "ns";
  update.service.metadata.uid = "service-uid";
  update.service.metadata.labels = {{"gnn.dev/job", "j"}};
  update.service.spec.cluster_ip = "None";
  update.service.spec.publish_not_ready_addresses = true;
  update.service.spec.selector = {{"gnn.dev/job-uid", "job-uid"}};
  transport_.reply(200, "{}");
  EXPECT_FALSE(executor_.execute({update}, "ns").error);
  const client::HttpRequest request = transport_.requests().at(0);
  EXPECT_EQ(request.content_type, "application/json-patch+json");
  // Played on an object with more than it should have.
  const Json drifted = Json::parse(R"({
    "metadata": {"uid": "service-uid", "labels": {"a": "b"}},
    "spec": {"clusterIP": "None", "clusterIPs": ["None"], "publishNotReadyAddresses": false,
             "selector": {"gnn.dev/job-uid": "job-uid", "added": "by hand"}}})");
  EXPECT_EQ(drifted.patch(Json::parse(request.body)), Json::parse(R"({
    "metadata": {"uid": "service-uid", "labels": {"gnn.dev/job": "j"}},
    "spec": {"clusterIP": "None", "clusterIPs": ["None"], "publishNotReadyAddresses": true,
             "selector": {"gnn.dev/job-uid": "job-uid"}}})"));
}

TEST_F(ExecutorTest, RepairsANetworkPolicyThatAllowsMore) {
  reconcile::UpdateNetworkPolicy update;
  update.network_policy.metadata.uid = "policy-uid";
  update.network_policy.spec.pod_selector = {{"gnn.dev/job-uid", "job-uid"}};
  update.network_policy.spec.policy_types = {"Ingress"};
  transport_.reply(200, "{}");
  EXPECT_FALSE(executor_.execute({update}, "ns").error);
  const Json drifted = Json::parse(R"({
    "metadata": {"uid": "policy-uid"},
    "spec": {"podSelector": {"matchLabels": {"gnn.dev/job-uid": "job-uid", "x": "y"}},
             "policyTypes": ["Ingress"], "egress": [{}]}})");
  const Json repaired = drifted.patch(Json::parse(transport_.requests().at(0).body));
  EXPECT_EQ(repaired["spec"], Json::parse(R"({
    "podSelector": {"matchLabels": {"gnn.dev/job-uid": "job-uid"}},
    "policyTypes": ["Ingress"]})"));
}

TEST_F(ExecutorTest, StopsAPodByUidThroughItsDeadline) {
  transport_.reply(200, "{}");
  const Execution done = executor_.execute({reconcile::StopPod{.name = "a", .uid = "u1"}}, "ns");
  EXPECT_FALSE(done.error);
  const client::HttpRequest request = transport_.requests().at(0);
  EXPECT_EQ(request.method, "PATCH");
  EXPECT_EQ(request.path, "/api/v1/namespaces/ns/pods/a");
  const Json body = Json::parse(request.body);
  EXPECT_EQ(body["metadata"]["uid"], "u1");
  EXPECT_EQ(body["spec"]["activeDeadlineSeconds"], 1);
}

TEST_F(ExecutorTest, ReleasesAPodByUidAndKeepsOtherFinalizers) {
  transport_.reply(200, "{}");
  const Execution done = executor_.execute({reconcile::ReleasePod{.name = "a", .uid = "u1"}}, "ns");
  EXPECT_FALSE(done.error);
  const client::HttpRequest request = transport_.requests().at(0);
  EXPECT_EQ(request.content_type, "application/strategic-merge-patch+json");
  const Json body = Json::parse(request.body);
  EXPECT_EQ(body["metadata"]["uid"], "u1");
  EXPECT_EQ(
      body["metadata"]["$deleteFromPrimitiveList/finalizers"], Json::array({"gnn.dev/result"})
  );
}

// If it loses its label then, the watch ends for it as if it were gone.
TEST_F(ExecutorTest, APodWhoseReleaseFailedMayStillBecomeAStray) {
  on_job_change(caches_, [](const objects::ObjectKey&) {});
  objects::Pod held = pod(0);
  held.metadata.uid = "u1";
  held.metadata.finalizers = {std::string(contract::kPodFinalizer)};
  held.metadata.labels[std::string(contract::kLabelJob)] = "j";
  caches_.pods.upsert(std::make_shared<const objects::Pod>(held));
  transport_.reply(500, refusal("InternalError", "no"));
  EXPECT_TRUE(executor_.execute({reconcile::ReleasePod{.name = "j-1-0", .uid = "u1"}}, "ns").error);
  caches_.pods.erase({"ns", "j-1-0"}, "");
  EXPECT_EQ(caches_.strays.of("ns/j").size(), 1U);
}

TEST_F(ExecutorTest, ReadsWhatTheLastWarningSaysOfAPodThatDoesNotStart) {
  const auto event = [](const std::string& reason, const std::string& note, const std::string& last
                     ) {
    return Json{
        {"metadata", {{"name", "e"}, {"namespace", "ns"}}},
        {"eventTime", nullptr},
        {"reason", reason},
        {"note", note},
        {"deprecatedLastTimestamp", last},
    };
  };
  const Json list = {
      {"metadata", {{"resourceVersion", "1"}, {"continue", "there are more"}}},
      {"items",
       {event("FailedMount", "older", "2026-01-02T03:04:05Z"),
        event("FailedAttachVolume", "Multi-Attach error", "2026-01-02T03:05:05Z"),
        event("Unhealthy", "of another time", "2026-01-02T03:06:05Z")}},
  };
  objects::ObjectMeta pod;
  pod.name = "j-1-0";
  pod.namespace_ = "ns";
  pod.uid = "u";
  transport_.reply(200, list.dump());
  EXPECT_EQ(executor_.read_start_trouble(pod), "FailedAttachVolume: Multi-Attach error");
  ASSERT_EQ(transport_.requests().size(), 1U) << "one page";
  const std::string path = transport_.requests()[0].path;
  EXPECT_NE(path.find("/apis/events.k8s.io/v1/namespaces/ns/events?"), std::string::npos) << path;
  EXPECT_NE(path.find("regarding.name%3Dj-1-0%2Cregarding.uid%3Du"), std::string::npos) << path;
  transport_.reply(403, refusal("Forbidden", "events may not be listed"));
  EXPECT_EQ(executor_.read_start_trouble(pod), "") << "it is only a word more";
}

}  // namespace
}  // namespace gnn::app
