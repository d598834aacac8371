#include "controller/objects/workload.h"

#include <gtest/gtest.h>

#include <string>

namespace gnn::objects {
namespace {

TimePoint second(int64_t number) {
  return TimePoint(std::chrono::seconds(1'800'000'000 + number));
}

Workload any_workload(KueueVersion version) {
  Workload workload;
  workload.version = version;
  workload.metadata.name = "gnnjob-j-12345";
  workload.metadata.uid = "uid";
  workload.metadata.resource_version = "7";
  workload.queue = "queue";
  PodSet& workers = workload.pod_sets.emplace_back();
  workers.name = "workers";
  workers.count = 2;
  workers.pod_template = {{"spec", {{"containers", Json::array()}}}};
  workers.topology.emplace().required = "rack";
  workload.priority_class = {.of_pods = false, .name = "high"};
  workload.priority = 100;
  return workload;
}

WorkloadCondition not_ready(const std::string& why) {
  WorkloadCondition condition;
  condition.type = "PodsReady";
  condition.status = "False";
  condition.reason = why;
  return condition;
}

// Made with sha1sum from the text that Kueue's jobframework.GetWorkloadNameForOwnerWithGVK hashes.
TEST(Workload, HasTheNameThatKueueWouldGive) {
  EXPECT_EQ(workload_name("arxiv", "uid-of-arxiv"), "gnnjob-arxiv-51550");
  EXPECT_NE(
      workload_name("arxiv", "uid-of-arxiv", "prepare"), workload_name("arxiv", "uid-of-arxiv")
  );
  EXPECT_EQ(workload_name(std::string(300, 'a'), "uid").size(), 253U);
}

TEST(Workload, SaysInTheWordsOfEachVersionWhatIsAskedFor) {
  const Json newer = encode(any_workload(KueueVersion::V1Beta2));
  EXPECT_EQ(newer["apiVersion"], "kueue.x-k8s.io/v1beta2");
  EXPECT_EQ(newer["spec"]["priorityClassRef"]["kind"], "WorkloadPriorityClass");
  EXPECT_EQ(newer["spec"]["priorityClassRef"]["group"], "kueue.x-k8s.io");
  EXPECT_EQ(newer["spec"]["podSets"][0]["topologyRequest"]["required"], "rack");
  const Json older = encode(any_workload(KueueVersion::V1Beta1));
  EXPECT_EQ(older["apiVersion"], "kueue.x-k8s.io/v1beta1");
  EXPECT_EQ(older["spec"]["priorityClassName"], "high");
  EXPECT_EQ(older["spec"]["priorityClassSource"], "kueue.x-k8s.io/workloadpriorityclass");
  for (const KueueVersion version : kKueueVersions) {
    Workload workload = any_workload(version);
    const Workload read = decode_workload(encode(workload), version).value();
    EXPECT_EQ(read.priority_class, workload.priority_class);
    EXPECT_EQ(read.priority, 100);
    workload.priority_class = {};
    // A merge patch takes away what there was.
    const Json spec = spec_patch(workload)["spec"];
    const char* member =
        version == KueueVersion::V1Beta2 ? "priorityClassRef" : "priorityClassName";
    EXPECT_TRUE(spec.contains(member) && spec[member].is_null());
  }
}

// A tenant may have written it.
TEST(Workload, IsReadWithWhatItsPodsRequestInAll) {
  const auto requests = [](const char* pod_template) {
    const Json json = {
        {"metadata", {{"name", "w"}}},
        {"spec",
         {{"podSets", {{{"name", "workers"}, {"count", 2}, {"template", Json::parse(pod_template)}}}
         }}}
    };
    const auto read = decode_workload(json, KueueVersion::V1Beta2);
    return read ? read->pod_sets.at(0).requests
                : api::ResourceList{{"error", read.error().message}};
  };
  EXPECT_EQ(
      requests(R"({"spec": {"containers": [
        {"resources": {"requests": {"cpu": "1500m"}, "limits": {"cpu": "3", "nvidia.com/gpu": 2}}},
        {"resources": {"requests": {"cpu": 0.5}}}]}})"),
      (api::ResourceList{{"cpu", "2"}, {"nvidia.com/gpu", "2"}})
  );
  for (const char* odd :
       {"{}",
        R"({"spec": []})",
        R"({"spec": {"containers": {}}})",
        R"({"spec": {"containers": [7, {"resources": null}, {"resources": {"requests": []}}]}})",
        R"({"spec": {"containers": [{"resources": {"requests": {"cpu": {"x": 1}, "y": "many"}}}]}})"
       }) {
    EXPECT_EQ(requests(odd), api::ResourceList{}) << odd;
  }
  Json huge = Json::parse(R"({"spec": {"containers": [{}]}})");
  for (int i = 0; i < 1000; ++i) {
    huge["spec"]["containers"][0]["resources"]["limits"]["r" + std::to_string(i)] = "1";
  }
  EXPECT_LE(requests(huge.dump().c_str()).size(), 48U);
}

TEST(Workload, SaysWhatItAsksForInsteadOfSomethingElse) {
  const PodSet wanted{
      .name = "workers",
      .count = 2,
      .pod_template = {},
      .requests = {{"cpu", "1500m"}, {"nvidia.com/gpu", "2"}},
      .topology = {}
  };
  PodSet given = wanted;
  const auto exactly = [&] { return mismatch({given}, {wanted}, Asked::Exactly); };
  const auto at_least = [&] { return mismatch({given}, {wanted}, Asked::AtLeast); };
  given.requests = {{"cpu", "1.5"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "2"}};
  EXPECT_EQ(exactly(), "") << "defaults of the cluster, and another way to write it";
  given.requests["cpu"] = "2";
  EXPECT_EQ(exactly(), "workers: cpu 2 instead of 1500m");
  EXPECT_EQ(at_least(), "");
  given.requests["cpu"] = "1";
  EXPECT_EQ(at_least(), "workers: cpu 1 instead of 1500m");
  given.requests = {{"cpu", "2"}};
  EXPECT_EQ(at_least(), "workers: nvidia.com/gpu 0 instead of 2");
  given = wanted;
  given.count = 3;
  EXPECT_EQ(exactly(), "workers: count 3 instead of 2");
  EXPECT_EQ(at_least(), "");
  given.count = 1;
  EXPECT_EQ(at_least(), "workers: count 1 instead of 2");
  given.name = "servers";
  EXPECT_EQ(at_least(), "servers instead of workers");
  EXPECT_EQ(mismatch({}, {wanted}, Asked::AtLeast), "0 instead of 1");
}

TEST(Workload, IsReadWithWhatKueueAssigned) {
  const Workload read = decode_workload(
                            Json::parse(R"({
    "metadata": {"name": "w", "generation": 3, "finalizers": ["other", "kueue.x-k8s.io/resource-in-use"],
                 "annotations": {"gnn.dev/suspended": "true", "gnn.dev/pod-sets": "77"}},
    "spec": {"queueName": "q", "active": false, "podSets": [{"name": "workers", "count": 2}]},
    "status": {
      "conditions": [{"type": "Admitted", "status": "True", "reason": "Admitted", "message": "m",
                      "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": 2}],
      "admission": {"clusterQueue": "cq", "podSetAssignments": [
        {"name": "workers", "count": 2, "flavors": {"cpu": "spot", "memory": "spot", "gpu": "a100"},
         "topologyAssignment": {"levels": ["kubernetes.io/hostname"]}}]},
      "admissionChecks": [{"name": "check", "state": "Ready", "podSetUpdates": [
        {"name": "workers", "nodeSelector": {"zone": "a"}, "tolerations": [{"key": "spot"}]}]}]}})"
                            ),
                            KueueVersion::V1Beta2
  )
                            .value();
  EXPECT_FALSE(read.active);
  EXPECT_TRUE(read.suspended_with_job);
  EXPECT_EQ(read.pod_sets_digest, "77");
  EXPECT_TRUE(is_true(read, kueue::kAdmitted));
  ASSERT_TRUE(read.admission);
  EXPECT_EQ(read.admission->cluster_queue, "cq");
  EXPECT_EQ(read.admission->pod_sets.at(0).flavors, (std::vector<std::string>{"a100", "spot"}));
  EXPECT_TRUE(read.admission->pod_sets.at(0).has_topology);
  EXPECT_EQ(read.checks.at(0).updates.at(0).node_selector.at("zone"), "a");
  EXPECT_EQ(read.checks.at(0).updates.at(0).tolerations.at(0).key, "spot");
  // Its templates were not read, and must not be taken away.
  EXPECT_FALSE(spec_patch(read)["spec"].contains("podSets"));
}

TEST(Workload, ItsStatusIsWrittenWithTheConditionsOfOthersAndOnlyOverWhatWasSeen) {
  Workload workload = any_workload(KueueVersion::V1Beta2);
  workload.conditions = {
      {.type = "Evicted",
       .status = "True",
       .reason = "Preempted",
       .message = "m",
       .last_transition_time = second(1),
       .observed_generation = 4}
  };
  set_condition(workload, not_ready("A"), second(2));
  set_condition(workload, not_ready("B"), second(3));
  const Json patch = status_patch(workload);
  EXPECT_EQ(patch["metadata"], (Json{{"uid", "uid"}, {"resourceVersion", "7"}}));
  ASSERT_EQ(patch["status"]["conditions"].size(), 2U);
  EXPECT_EQ(patch["status"]["conditions"][0]["observedGeneration"], 4);
  EXPECT_EQ(patch["status"]["conditions"][1]["reason"], "B");
  // Its status did not change.
  EXPECT_EQ(workload.conditions[1].last_transition_time, second(2));
  EXPECT_TRUE(patch["status"]["admission"].is_null());
  workload.admission.emplace();
  EXPECT_FALSE(status_patch(workload)["status"].contains("admission"));
}

}  // namespace
}  // namespace gnn::objects
