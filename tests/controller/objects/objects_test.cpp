#include "controller/objects/config_map.h"
#include "controller/objects/event.h"
#include "controller/objects/footprint.h"
#include "controller/objects/lease.h"
#include "controller/objects/network_policy.h"
#include "controller/objects/pod.h"
#include "controller/objects/pod_group.h"
#include "controller/objects/service.h"

#include <gtest/gtest.h>

namespace gnn::objects {
namespace {

TEST(Pod, ReadsWhatTheKubeletReports) {
  const Pod pod = decode_pod(Json::parse(R"({
    "metadata": {"name": "j-1-0", "namespace": "ns", "managedFields": [{"deep": {"er": {}}}]},
    "spec": {"nodeName": "n1", "containers": [{"name": "worker", "env": [{"name": "A"}]}]},
    "status": {
      "phase": "Failed", "podIP": "10.0.0.7", "startTime": "2026-01-02T03:04:05Z",
      "conditions": [{"type": "Ready", "status": "False", "reason": "PodFailed"}],
      "containerStatuses": [{"name": "worker", "ready": false, "restartCount": 0, "state": {
        "terminated": {"exitCode": 137, "signal": 9, "reason": "OOMKilled", "message": "m"}}}]
    }})"))
                      .value();
  EXPECT_EQ(pod.spec.node_name, "n1");
  EXPECT_TRUE(pod.spec.containers.empty());
  ASSERT_NE(find_condition(pod, "Ready"), nullptr);
  EXPECT_EQ(find_condition(pod, "Ready")->reason, "PodFailed");
  EXPECT_EQ(find_condition(pod, "Scheduled"), nullptr);
  EXPECT_EQ(pod.status.container_statuses.at(0).state.terminated->exit_code, 137);
  EXPECT_EQ(pod.status.container_statuses.at(0).state.terminated->reason, "OOMKilled");
}

TEST(Pod, NamesItsGroupAsEachApiWantsIt) {
  const std::vector<std::pair<GroupApi, std::string>> places = {
      {GroupApi::Native, "/spec/schedulingGroup/podGroupName"},
      {GroupApi::Coscheduling, "/metadata/labels/scheduling.x-k8s.io~1pod-group"},
      {GroupApi::Volcano, "/metadata/annotations/scheduling.k8s.io~1group-name"},
  };
  for (const auto& [api, place] : places) {
    Pod pod;
    pod.metadata.name = "j-1-0";
    pod.metadata.labels = {{"gnn.dev/job", "j"}};
    pod.spec.group = GroupMembership{.api = api, .group = "j-1"};
    const Json json = encode(pod);
    EXPECT_EQ(json[Json::json_pointer(place)], "j-1");
    const Pod read = decode_pod(json).value();
    EXPECT_EQ(read.spec.group, pod.spec.group);
    EXPECT_EQ(read.metadata.labels, pod.metadata.labels);
  }
  EXPECT_FALSE(decode_pod(Json::parse(R"({"metadata": {"name": "j-1-0"}})"))->spec.group);
}

TEST(PodGroup, IsWrittenAsEachApiHasIt) {
  PodGroup group;
  group.metadata.name = "j-1";
  group.spec = {
      .min_count = 4,
      .min_resources = {{"cpu", "1500m"}, {"nvidia.com/gpu", "8"}},
      .topology_key = "topology.kubernetes.io/rack",
      .disruption_mode = "all",
      .priority_class_name = "high",
      .queue = "night",
      .network_topology_mode = "hard",
      .network_topology_highest_tier = 1
  };
  const std::vector<std::pair<GroupApi, const char*>> wanted = {
      {GroupApi::Native, R"({"apiVersion": "scheduling.k8s.io/v1beta1", "spec": {
        "schedulingPolicy": {"gang": {"minCount": 4}}, "disruptionMode": {"all": {}},
        "schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/rack"}]},
        "priorityClassName": "high"}})"},
      {GroupApi::Coscheduling,
       R"({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "spec": {"minMember": 4}})"},
      {GroupApi::Volcano, R"({"apiVersion": "scheduling.volcano.sh/v1beta1", "spec": {
        "minMember": 4, "minResources": {"cpu": "1500m", "nvidia.com/gpu": "8"}, "queue": "night", "priorityClassName": "high",
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1}}})"},
  };
  for (const auto& [api, text] : wanted) {
    group.api = api;
    Json json = Json::parse(text);
    json["kind"] = "PodGroup";
    json["metadata"] = {{"name", "j-1"}};
    EXPECT_EQ(encode(group), json);
    EXPECT_EQ(decode_pod_group(json, api)->spec.min_count, 4);
  }
  group.api = GroupApi::Native;
  group.spec = {};
  EXPECT_EQ(encode(group)["spec"], Json::parse(R"({"schedulingPolicy": {"basic": {}}})"));
}

TEST(Pod, EachTermOfItsAffinityExcludesTheNodesToAvoid) {
  Pod pod;
  pod.spec.avoided_node_names = {"a", "b"};
  const Json::json_pointer terms(
      "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"
  );
  const Json excluded = Json::parse(R"([
    {"key": "metadata.name", "operator": "NotIn", "values": ["a"]},
    {"key": "metadata.name", "operator": "NotIn", "values": ["b"]}])");
  EXPECT_EQ(encode(pod)[terms], Json::array({Json{{"matchFields", excluded}}}));

  const api::NodeSelectorRequirement ssd{.key = "disk", .op = "In", .values = {"ssd"}};
  const api::NodeSelectorRequirement nvme{.key = "disk", .op = "In", .values = {"nvme"}};
  pod.spec.affinity = api::Affinity{
      .node_affinity =
          api::NodeAffinity{
              .required =
                  api::NodeSelector{{{.match_expressions = {ssd}}, {.match_expressions = {nvme}}}}
          }
  };
  const Json json = encode(pod)[terms];
  ASSERT_EQ(json.size(), 2U);
  for (const Json& term : json) {
    EXPECT_EQ(term["matchFields"], excluded);
    EXPECT_EQ(term["matchExpressions"].size(), 1U);
  }
}

// Whoever may delete a pod names its grace period.
TEST(Pod, IsReadWithCenturiesOfGrace) {
  const auto pod = decode_pod(
      Json::parse(R"({"metadata": {"name": "p", "deletionTimestamp": "2279-01-01T00:00:00Z"}})")
  );
  ASSERT_TRUE(pod) << pod.error().message;
  EXPECT_TRUE(pod->metadata.deletion_timestamp);
}

TEST(Pod, DecodeErrorsNameThePath) {
  const auto refused = decode_pod(Json::parse(R"({
    "metadata": {"name": "p"},
    "status": {"containerStatuses": [{"state": {"terminated": {"exitCode": "x"}}}]}})"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      refused.error().message,
      "status.containerStatuses[0].state.terminated.exitCode: expected an integer, found string"
  );
}

TEST(Pod, EncodesForCreate) {
  Pod pod;
  pod.metadata.name = "j-1-0";
  pod.metadata.labels = {{"a", "b"}};
  pod.spec.hostname = "j-0";
  pod.spec.restart_policy = "Never";
  Container container;
  container.name = "worker";
  container.image = "image";
  container.env = {
      {.name = "A", .value = "1", .value_from = {}},
      {.name = "NODE", .value = {}, .value_from = api::EnvVarSource{{"spec.nodeName"}}},
  };
  container.resources.requests = {{"cpu", "1"}};
  container.readiness_probe = HttpProbe{.path = "/healthz", .port = "http"};
  pod.spec.containers = {container};
  api::Volume volume;
  volume.name = "tmp";
  volume.empty_dir = api::EmptyDirVolume{};
  pod.spec.volumes = {volume};

  const Json json = encode(pod);
  EXPECT_EQ(
      json["spec"]["containers"][0]["env"][1]["valueFrom"]["fieldRef"]["fieldPath"], "spec.nodeName"
  );
  EXPECT_EQ(json["spec"]["containers"][0]["env"][0]["value"], "1");
  EXPECT_EQ(json["spec"]["volumes"][0]["emptyDir"], Json::object());
  EXPECT_EQ(json["spec"]["automountServiceAccountToken"], false);
  EXPECT_EQ(json["spec"]["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
  EXPECT_EQ(
      json["spec"]["containers"][0]["securityContext"]["capabilities"]["drop"], Json::array({"ALL"})
  );
  EXPECT_FALSE(json.contains("status"));
  EXPECT_FALSE(json["metadata"].contains("resourceVersion"));
}

// As those of our children.
const std::vector<OwnerReference> kJobAsController = {
    {.api_version = "gnn.dev/v1alpha1",
     .kind = "GNNJob",
     .name = "j",
     .uid = "u",
     .controller = true}
};

TEST(Service, RoundTrips) {
  Service service;
  service.metadata.name = "j-gnn";
  service.metadata.owner_references = kJobAsController;
  service.spec = {
      .cluster_ip = "None",
      .publish_not_ready_addresses = true,
      .selector = {{"a", "b"}},
      .ports = {{.name = "store", .port = 29400}},
  };
  EXPECT_EQ(decode_service(encode(service)).value(), service);
}

TEST(ConfigMap, WritesItsDataAndReadsItsMetadata) {
  ConfigMap config_map;
  config_map.metadata.name = "j-gnn";
  config_map.data = {{"job.yaml", "task: {}\n"}};
  config_map.immutable = true;
  const Json written = encode(config_map);
  EXPECT_EQ(written["data"]["job.yaml"], "task: {}\n");
  EXPECT_EQ(written["immutable"], true);
  const ConfigMap read = decode_config_map(written).value();
  EXPECT_EQ(read.metadata, config_map.metadata);
  EXPECT_TRUE(read.data.empty());
}

// Else its size would be up to whoever writes it.
TEST(Service, KeepsNoSpecThatCannotBeOurs) {
  Service service;
  service.metadata.name = "j-gnn";
  service.spec.selector = {{"a", "b"}};
  EXPECT_EQ(decode_service(encode(service))->spec, ServiceSpec{.is_left_out = true})
      << "no job controls it";
  service.metadata.owner_references = kJobAsController;
  for (int i = 0; i < 1000; ++i) service.spec.selector[std::to_string(i)] = "x";
  const Service read = decode_service(encode(service)).value();
  EXPECT_EQ(read.spec, ServiceSpec{.is_left_out = true}) << "it is larger than ours ever are";
  EXPECT_LT(footprint_of(read), 2048);
}

TEST(NetworkPolicy, KeepsNoSpecThatCannotBeOurs) {
  NetworkPolicy policy;
  policy.metadata.name = "j-gnn";
  policy.spec.policy_types = {"Ingress"};
  NetworkPolicySpec left_out;
  left_out.has_unread = true;
  EXPECT_EQ(decode_network_policy(encode(policy))->spec, left_out) << "no job controls it";
  policy.metadata.owner_references = kJobAsController;
  for (int i = 0; i < 4000; ++i) policy.spec.pod_selector[std::to_string(i)] = "x";
  const NetworkPolicy read = decode_network_policy(encode(policy)).value();
  EXPECT_EQ(read.spec, left_out) << "it is far larger than ours";
  EXPECT_LT(footprint_of(read), 2048);
}

TEST(Pod, CutsTheTextsOfItsStatus) {
  const std::string text(1 << 20, 'x');
  const Json state = {{"terminated", {{"exitCode", 1}, {"reason", text}, {"message", text}}}};
  const Json json = {
      {"metadata", {{"name", "j-1-0"}}},
      {"status",
       {{"reason", text},
        {"message", text},
        {"conditions", {{{"type", "Ready"}, {"reason", text}, {"message", text}}}},
        {"containerStatuses", {{{"name", "worker"}, {"state", state}}}}}}
  };
  EXPECT_LT(footprint_of(decode_pod(json).value()), 128 << 10);
}

// A name of a megabyte is accepted by the API server.
TEST(ObjectMeta, KeepsNoOwnerWithTextsThatNoJobHas) {
  ConfigMap config_map;
  config_map.metadata.name = "j-gnn";
  config_map.metadata.owner_references = kJobAsController;
  EXPECT_TRUE(is_controlled_by_job(decode_config_map(encode(config_map))->metadata));
  config_map.metadata.owner_references.front().name = std::string(1 << 20, 'x');
  EXPECT_TRUE(decode_config_map(encode(config_map))->metadata.owner_references.empty());
}

TEST(NetworkPolicy, RoundTripsEmptyAndAbsentSelectors) {
  NetworkPolicy policy;
  policy.metadata.name = "j-gnn";
  policy.metadata.owner_references = kJobAsController;
  policy.spec.pod_selector = {{"gnn.dev/job", "j"}};
  policy.spec.policy_types = {"Ingress"};
  policy.spec.ingress = {
      {.peers = {{.pod_selector = MatchLabels{{"gnn.dev/job", "j"}}, .namespace_selector = {}}},
       .ports = {}},
      {.peers = {{.pod_selector = {}, .namespace_selector = MatchLabels{}}},
       .ports = {{.protocol = "TCP", .port = 9400}}},
  };
  policy.spec.egress = {
      {.peers =
           {{.pod_selector = {},
             .namespace_selector = {},
             .ip_block = IpBlock{.cidr = "10.0.0.0/8", .except = {"10.9.0.0/16"}}}},
       .ports = {}},
  };
  EXPECT_EQ(decode_network_policy(encode(policy)).value(), policy);
}

TEST(NetworkPolicy, NoticesWhatItDoesNotRead) {
  NetworkPolicy policy;
  policy.metadata.name = "j-gnn";
  policy.metadata.owner_references = kJobAsController;
  policy.spec.pod_selector = {{"gnn.dev/job", "j"}};
  policy.spec.ingress = {{.peers = {}, .ports = {{.protocol = "TCP", .port = 9400}}}};
  const Json ours = encode(policy)["spec"];
  const Json expressions = Json::parse(R"([{"key": "x", "operator": "Exists"}])");
  for (const auto& [pointer, value] : std::vector<std::pair<const char*, Json>>{
           {"/podSelector/matchExpressions", expressions},
           {"/ingress/0/ports/0/endPort", 9500},
           {"/ingress/0/ports/0/port", "metrics"},
           {"/ingress/0/from", {{{"podSelector", {{"matchExpressions", expressions}}}}}},
           {"/more", "of a later version"},
       }) {
    Json json = encode(policy);
    json["spec"][Json::json_pointer(pointer)] = value;
    const Result<NetworkPolicy> read = decode_network_policy(json);
    ASSERT_TRUE(read) << pointer;
    EXPECT_TRUE(read->spec.has_unread) << pointer;
    EXPECT_NE(read->spec, policy.spec) << pointer;
  }
}

TEST(Lease, KeepsWhatItDoesNotRead) {
  const Json read = Json::parse(R"({
    "metadata": {"name": "l", "namespace": "ns", "resourceVersion": "5", "annotations": {"k": "v"}},
    "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "strategy": "OldestEmulationVersion",
             "renewTime": "2026-01-02T03:04:05.000001Z", "leaseTransitions": 2}})");
  Lease lease = decode_lease(read).value();
  EXPECT_EQ(lease.holder_identity, "a");
  EXPECT_EQ(lease.lease_transitions, 2);
  lease.holder_identity = "b";
  const Json written = encode(lease);
  EXPECT_EQ(written["spec"]["strategy"], "OldestEmulationVersion");
  EXPECT_EQ(written["spec"]["holderIdentity"], "b");
  EXPECT_EQ(written["spec"]["renewTime"], "2026-01-02T03:04:05.000001Z");
  EXPECT_EQ(written["metadata"]["resourceVersion"], "5");
  EXPECT_EQ(written["metadata"]["annotations"]["k"], "v");
}

TEST(Event, RoundTripsWithItsSeries) {
  Event event;
  event.metadata.name = "j.1";
  event.event_time = TimePoint(std::chrono::seconds(1'767'323'045));
  event.type = "Normal";
  event.reason = "Running";
  event.regarding.name = "j";
  event.series = EventSeries{.count = 3, .last_observed_time = event.event_time};
  EXPECT_EQ(decode_event(encode(event)).value(), event);
}

}  // namespace
}  // namespace gnn::objects
