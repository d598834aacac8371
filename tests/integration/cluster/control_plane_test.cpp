#include "tests/support/control_plane.h"

#include "tests/support/http.h"
#include "tests/support/must.h"
#include "tests/support/read_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <signal.h>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>

namespace gnn::testing {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

std::string config_maps(const std::string& name_space) {
  return "/api/v1/namespaces/" + name_space + "/configmaps";
}

// Creates a config map and returns its resourceVersion.
std::string create_config_map(
    const ControlPlane& cluster, const std::string& name_space, const std::string& name
) {
  const Json object = {{"metadata", {{"name", name}}}};
  const HttpReply reply =
      must(http_request(cluster.admin_endpoint(), "POST", config_maps(name_space), object.dump()));
  EXPECT_EQ(reply.status, 201) << reply.body;
  return Json::parse(reply.body).at("metadata").at("resourceVersion");
}

std::string watch_target(const std::string& name_space, const std::string& resource_version) {
  return config_maps(name_space) + "?watch=true&resourceVersion=" + resource_version;
}

// The next event's type and object name.
std::string next_event(HttpStream& watch) {
  const std::optional<std::string> line = must(watch.read_line(seconds(10)));
  if (!line) return "end";
  const Json event = Json::parse(*line);
  const Json object = event.at("object");
  if (event.at("type") == "ERROR") return "ERROR " + object.at("code").dump();
  return event.at("type").get<std::string>() + " " +
         object.at("metadata").at("name").get<std::string>();
}

// What a process has used of the processors so far.
double processor_seconds(int64_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  std::istringstream fields(stat.substr(stat.rfind(')') + 1));  // the name before may hold spaces
  std::string skipped;
  for (int i = 3; i < 14; ++i) fields >> skipped;
  int64_t user_ticks = 0;
  int64_t system_ticks = 0;
  fields >> user_ticks >> system_ticks;
  return static_cast<double>(user_ticks + system_ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

TEST(ControlPlane, IsUpInSeconds) {
  const auto before = std::chrono::steady_clock::now();
  const auto cluster = must(ControlPlane::start());
  const auto took = std::chrono::steady_clock::now() - before;
  RecordProperty("start_ms", static_cast<int>(took / milliseconds(1)));
  // Under 5 s on two idle cores. Other tests may share them, so what is held is the work it takes.
  const double used = processor_seconds(cluster->pid(ControlPlanePart::Etcd)) +
                      processor_seconds(cluster->pid(ControlPlanePart::ApiServer));
  EXPECT_GT(used, 0.0);
  EXPECT_LT(used, 10.0);
  EXPECT_EQ(must(http_request(cluster->admin_endpoint(), "GET", "/readyz")).body, "ok");
}

TEST(ControlPlane, AcceptsCertificateTokenAndKubeconfigAndRefusesStrangers) {
  ControlPlane& cluster = ControlPlane::shared();
  const CommandOutput who = must(cluster.kubectl({"auth", "whoami", "-o", "json"}));
  EXPECT_THAT(who.output, HasSubstr("system:masters"));

  const HttpEndpoint with_token{
      .url = cluster.server_url(),
      .ca_file = cluster.ca_file(),
      .bearer_token = read_file(cluster.token_file()),
  };
  EXPECT_EQ(must(http_request(with_token, "GET", "/api/v1/nodes")).status, 200);

  const HttpEndpoint nobody{.url = cluster.server_url(), .ca_file = cluster.ca_file()};
  EXPECT_EQ(must(http_request(nobody, "GET", "/api/v1/nodes")).status, 403);

  const std::string by_token =
      must(cluster.write_kubeconfig(cluster.server_url(), ControlPlane::KubeconfigUser::TokenFile));
  const CommandOutput as_account =
      must(cluster.kubectl({"--kubeconfig=" + by_token, "auth", "whoami", "-o", "json"}));
  EXPECT_THAT(as_account.output, HasSubstr("system:serviceaccount:kube-system:test-admin"));
}

TEST(ControlPlane, WatchIsCutByARestartAndTooOldAfterACompaction) {
  ControlPlane& cluster = ControlPlane::shared();
  const std::string ns = must(cluster.create_namespace("compact"));
  const std::string old_version = create_config_map(cluster, ns, "first");
  const auto watch =
      must(HttpStream::open(cluster.admin_endpoint(), watch_target(ns, old_version)));
  ASSERT_EQ(watch->status(), 200);
  create_config_map(cluster, ns, "second");
  EXPECT_EQ(next_event(*watch), "ADDED second");

  // The API server dies under the open watch, and history is gone when it is back.
  must(cluster.kill(ControlPlanePart::ApiServer));
  const auto broken = watch->read_line(seconds(10));
  ASSERT_TRUE(!broken || !*broken) << **broken;
  if (!broken) {
    EXPECT_EQ(broken.error().kind, ErrorKind::Network) << broken.error().message;
  }
  EXPECT_GE(must(cluster.compact_etcd()), std::stoll(old_version));
  must(cluster.start(ControlPlanePart::ApiServer));

  // Going on from the old version is refused: as a 410 reply or as an ERROR event.
  const auto resumed =
      must(HttpStream::open(cluster.admin_endpoint(), watch_target(ns, old_version)));
  if (resumed->status() == 200) {
    EXPECT_EQ(next_event(*resumed), "ERROR 410");
  } else {
    EXPECT_EQ(resumed->status(), 410);
  }

  // A list gives a version that can be watched from.
  const Json list =
      Json::parse(must(http_request(cluster.admin_endpoint(), "GET", config_maps(ns))).body);
  const auto fresh = must(HttpStream::open(
      cluster.admin_endpoint(), watch_target(ns, list.at("metadata").at("resourceVersion"))
  ));
  create_config_map(cluster, ns, "third");
  EXPECT_EQ(next_event(*fresh), "ADDED third");
}

TEST(ControlPlane, OpenWatchOutlivesACompactionItHasPassed) {
  ControlPlane& cluster = ControlPlane::shared();
  const std::string ns = must(cluster.create_namespace("passed"));
  const std::string version = create_config_map(cluster, ns, "first");
  const auto watch = must(HttpStream::open(cluster.admin_endpoint(), watch_target(ns, version)));
  must(cluster.compact_etcd());
  create_config_map(cluster, ns, "second");
  EXPECT_EQ(next_event(*watch), "ADDED second");
}

TEST(ControlPlane, WithoutWatchCacheACompactedVersionIsGoneAtOnce) {
  const auto cluster =
      must(ControlPlane::start({.controller_manager = false, .watch_cache = false}));
  const std::string ns = must(cluster->create_namespace("gone"));
  const std::string version = create_config_map(*cluster, ns, "first");
  create_config_map(*cluster, ns, "second");
  create_config_map(*cluster, ns, "third");  // the newest revision itself outlives a compaction
  must(cluster->compact_etcd());
  const auto watch = must(HttpStream::open(cluster->admin_endpoint(), watch_target(ns, version)));
  if (watch->status() == 200) {
    EXPECT_EQ(next_event(*watch), "ERROR 410");
  } else {
    EXPECT_EQ(watch->status(), 410);
  }
}

TEST(ControlPlane, PausedEtcdStallsWritesAndResumes) {
  ControlPlane& cluster = ControlPlane::shared();
  const std::string ns = must(cluster.create_namespace("paused"));
  must(cluster.pause(ControlPlanePart::Etcd));
  const auto stalled = http_request(
      cluster.admin_endpoint(),
      "POST",
      config_maps(ns),
      R"({"metadata": {"name": "late"}})",
      {},
      milliseconds(700)
  );
  EXPECT_FALSE(stalled);
  must(cluster.resume(ControlPlanePart::Etcd));
  create_config_map(cluster, ns, "after");
}

TEST(ControlPlane, KilledEtcdKeepsItsData) {
  ControlPlane& cluster = ControlPlane::shared();
  const std::string ns = must(cluster.create_namespace("kept"));
  create_config_map(cluster, ns, "kept");
  must(cluster.restart(ControlPlanePart::Etcd));
  const auto deadline = std::chrono::steady_clock::now() + seconds(30);
  int status = 0;
  while (status != 200 && std::chrono::steady_clock::now() < deadline) {
    const auto reply = http_request(cluster.admin_endpoint(), "GET", config_maps(ns) + "/kept");
    status = reply ? reply->status : 0;
  }
  EXPECT_EQ(status, 200);
}

TEST(ControlPlane, RevokedTokenIsRefusedAndTheNewOneServes) {
  ControlPlane& cluster = ControlPlane::shared();
  const std::string old_token = read_file(cluster.token_file());
  must(cluster.rotate_token(ControlPlane::OldToken::Revoke));
  const std::string new_token = read_file(cluster.token_file());
  EXPECT_NE(old_token, new_token);
  HttpEndpoint endpoint{
      .url = cluster.server_url(), .ca_file = cluster.ca_file(), .bearer_token = old_token
  };
  EXPECT_EQ(must(http_request(endpoint, "GET", "/api/v1/nodes")).status, 401);
  endpoint.bearer_token = new_token;
  EXPECT_EQ(must(http_request(endpoint, "GET", "/api/v1/nodes")).status, 200);
}

TEST(ControlPlane, RotatedCaIsNeededToTrustTheServer) {
  const auto cluster = must(ControlPlane::start({.controller_manager = false}));
  const std::string old_ca = (cluster->directory() / "old-ca.crt").string();
  std::ofstream(old_ca) << read_file(cluster->ca_file());
  must(cluster->rotate_server_ca());
  HttpEndpoint endpoint = cluster->admin_endpoint();
  EXPECT_EQ(must(http_request(endpoint, "GET", "/readyz")).status, 200);
  endpoint.ca_file = old_ca;
  const auto refused = http_request(endpoint, "GET", "/readyz");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("certificate verify failed"));
}

TEST(ControlPlane, AppliesCustomResourceDefinitionsAndWaitsForThem) {
  ControlPlane& cluster = ControlPlane::shared();
  must(cluster.apply("-", R"(
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.test.example}
spec:
  group: test.example
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
)"));
  const std::string ns = must(cluster.create_namespace("things"));
  const HttpReply reply = must(http_request(
      cluster.admin_endpoint(),
      "POST",
      "/apis/test.example/v1/namespaces/" + ns + "/things",
      R"({"apiVersion": "test.example/v1", "kind": "Thing", "metadata": {"name": "one"}})"
  ));
  EXPECT_EQ(reply.status, 201) << reply.body;
}

TEST(ControlPlane, FakeNodesRunPods) {
  const auto cluster = must(ControlPlane::start({.scheduler = true, .fake_nodes = 2}));
  const std::string ns = must(cluster->create_namespace("fake"));
  must(cluster->apply(
      "-",
      R"(
apiVersion: v1
kind: Pod
metadata: {name: pod, namespace: )" +
          ns + R"(}
spec:
  containers: [{name: main, image: none}]
)"
  ));
  const CommandOutput waited =
      must(cluster->kubectl({"wait", "-n", ns, "pod/pod", "--for=condition=Ready", "--timeout=30s"})
      );
  EXPECT_EQ(waited.exit_code, 0) << waited.errors;
  const CommandOutput address =
      must(cluster->kubectl({"get", "-n", ns, "pod/pod", "-o", "jsonpath={.status.podIP}"}));
  EXPECT_THAT(address.output, ::testing::StartsWith("127.64."));
}

TEST(ControlPlane, NothingOfItRemains) {
  std::string folder;
  int64_t etcd = 0;
  int64_t api_server = 0;
  {
    const auto cluster = must(ControlPlane::start({.controller_manager = false}));
    folder = cluster->directory().parent_path();
    etcd = cluster->pid(ControlPlanePart::Etcd);
    api_server = cluster->pid(ControlPlanePart::ApiServer);
    ASSERT_EQ(::kill(static_cast<pid_t>(etcd), 0), 0);
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_NE(::kill(static_cast<pid_t>(etcd), 0), 0);
  EXPECT_NE(::kill(static_cast<pid_t>(api_server), 0), 0);
}

TEST(ControlPlane, SaysWhyAPartDoesNotStart) {
  const auto refused = ControlPlane::start({.api_server_flags = {"--no-such-flag"}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("kube-apiserver ended at once"));
  EXPECT_THAT(refused.error().message, HasSubstr("no-such-flag"));
}

}  // namespace
}  // namespace gnn::testing
