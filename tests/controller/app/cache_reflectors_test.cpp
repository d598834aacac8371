#include "controller/app/cache_reflectors.h"

#include "controller/runtime/reflector.h"
#include "tests/common/api/sample_job.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_transport.h"
#include "tests/support/fixed_random.h"

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

namespace gnn::app {
namespace {

TEST(CacheReflectors, AskForNoDataOfConfigMaps) {
  gnn::testing::FakeClock clock;
  gnn::testing::FixedRandom random;
  gnn::testing::FakeTransport transport;
  MetricsRegistry metrics;
  client::TokenSource tokens{client::KubeConfig{}, clock};
  client::ApiClient api{transport, tokens, clock, metrics};
  Caches caches;
  constexpr size_t kKinds = 5;
  for (size_t i = 0; i < kKinds; ++i) {
    gnn::testing::ScriptedReply silence;
    silence.hangs = true;
    transport.reply(silence);
  }
  CacheReflectors reflectors(caches, api, {}, std::chrono::seconds(90), clock, random, metrics);
  reflectors.start();
  transport.await_requests(kKinds);
  reflectors.stop();
  for (const client::HttpRequest& request : transport.requests()) {
    const bool of_config_maps = request.path.starts_with("/api/v1/configmaps");
    const bool metadata_only = request.accept.find("PartialObjectMetadata") != std::string::npos;
    EXPECT_EQ(metadata_only, of_config_maps) << request.path;
  }
}

TEST(CacheReflectors, ReadNoNetworkPoliciesWhereJobsHaveNone) {
  gnn::testing::FakeClock clock;
  gnn::testing::FixedRandom random;
  gnn::testing::FakeTransport transport;
  MetricsRegistry metrics;
  client::TokenSource tokens{client::KubeConfig{}, clock};
  client::ApiClient api{transport, tokens, clock, metrics};
  Caches caches;
  constexpr size_t kKinds = 4;
  for (size_t i = 0; i < kKinds; ++i) {
    gnn::testing::ScriptedReply silence;
    silence.hangs = true;
    transport.reply(silence);
  }
  CacheReflectors reflectors(
      caches, api, {}, std::chrono::seconds(90), clock, random, metrics, {}, false, false
  );
  reflectors.start();
  transport.await_requests(kKinds);
  reflectors.stop();
  EXPECT_EQ(transport.requests().size(), kKinds);
  for (const client::HttpRequest& request : transport.requests()) {
    EXPECT_EQ(request.path.find("networkpolicies"), std::string::npos) << request.path;
  }
}

// The three APIs have the same plural.
TEST(CacheReflectors, CountTheGroupsOfEachApiForThemselvesAsLongAsItIsServed) {
  SystemClock clock;
  gnn::testing::FixedRandom random;
  gnn::testing::FakeTransport transport;
  MetricsRegistry metrics;
  client::TokenSource tokens{client::KubeConfig{}, clock};
  client::ApiClient api{transport, tokens, clock, metrics};
  Caches caches;
  const std::vector<objects::GroupApi> apis = {
      objects::GroupApi::Coscheduling, objects::GroupApi::Volcano
  };
  CacheReflectors reflectors(
      caches, api, {}, std::chrono::seconds(90), clock, random, metrics, apis
  );
  std::promise<void> unserved;
  reflectors.on_unserved_groups([&] { unserved.set_value(); });
  gnn::testing::ScriptedReply silence;
  silence.hangs = true;
  transport.reply(
      200, R"({"metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"j-1"}}]})"
  );
  transport.reply(silence);
  reflectors.start_groups(objects::GroupApi::Volcano);
  transport.await_requests(2);
  EXPECT_TRUE(reflectors.groups(objects::GroupApi::Volcano).runs);
  EXPECT_EQ(reflectors.groups(objects::GroupApi::Volcano).why_unknown, "");
  transport.reply(404, "{}");
  reflectors.start_groups(objects::GroupApi::Coscheduling);
  unserved.get_future().wait();
  EXPECT_FALSE(reflectors.groups(objects::GroupApi::Coscheduling).runs);
  const std::string page = metrics.expose();
  const std::string cached = "gnn_operator_cache_objects{resource=\"podgroups.scheduling.";
  EXPECT_NE(page.find(cached + "volcano.sh\"} 1\n"), std::string::npos) << page;
  EXPECT_NE(page.find(cached + "x-k8s.io\"} 0\n"), std::string::npos) << page;

  transport.reply(200, R"({"metadata":{"resourceVersion":"6"},"items":[]})").reply(silence);
  reflectors.start_groups(objects::GroupApi::Coscheduling);
  transport.await_requests(5);
  EXPECT_TRUE(reflectors.groups(objects::GroupApi::Coscheduling).runs);
  EXPECT_EQ(reflectors.groups(objects::GroupApi::Coscheduling).why_unknown, "");
  reflectors.stop();
}

// One namespace fills the cache of each kind in turn: another one's object is there all the same.
class FilledCache : public ::testing::Test {
 protected:
  static constexpr int kObjects = 600;
  static constexpr int64_t kMemory = int64_t{256} << 10;

  // What the list of a kind has: many objects of one namespace, and one of another.
  static std::string page(const objects::Json& object) {
    objects::Json list = {
        {"metadata", {{"resourceVersion", "5"}}}, {"items", objects::Json::array()}
    };
    for (int i = 0; i < kObjects; ++i) {
      list["items"].push_back(object);
      objects::Json& meta = list["items"].back()["metadata"];
      meta["name"] = "x" + std::to_string(i);
      meta["namespace"] = "filled";
      meta["resourceVersion"] = "3";
      meta["labels"]["gnn.dev/job"] = "j" + std::to_string(i);
    }
    list["items"].push_back(object);
    list["items"].back()["metadata"]["name"] = "one";
    list["items"].back()["metadata"]["namespace"] = "other";
    return list.dump();
  }

  template <class T>
  void expect_room_for_others(runtime::Store<T> Caches::*store, const objects::Json& object) {
    SCOPED_TRACE(client::resource_of<T>().label);
    SystemClock clock;
    gnn::testing::FixedRandom random;
    gnn::testing::FakeTransport transport;
    MetricsRegistry metrics;
    client::TokenSource tokens{client::KubeConfig{}, clock};
    client::ApiClient api{transport, tokens, clock, metrics};
    Caches caches(kMemory);
    gnn::testing::ScriptedReply silence;
    silence.hangs = true;
    transport.reply(200, page(object)).reply(silence);
    runtime::ReflectorOptions options;
    options.budget = &caches.memory;
    runtime::Reflector<T> reflector(api, caches.*store, options, clock, random, metrics);
    reflector.start();
    transport.await_requests(2);
    reflector.stop();
    EXPECT_TRUE((caches.*store).find({"other", "one"}));
    EXPECT_LE(caches.memory.used_by("filled"), kMemory / 4 * 3);
    EXPECT_GT(caches.memory.used_by("filled"), kMemory / 2);
    EXPECT_LT((caches.*store).size(), size_t{kObjects});
    EXPECT_NE(caches.memory.complaint("filled"), "");
    EXPECT_EQ(caches.memory.complaint("other"), "");
  }
};

TEST_F(FilledCache, LeavesRoomForOtherNamespacesInEveryKind) {
  const objects::Json bare = {{"metadata", {{"name", "x"}}}};
  expect_room_for_others(&Caches::services, bare);
  expect_room_for_others(&Caches::config_maps, bare);
  expect_room_for_others(&Caches::network_policies, bare);
  expect_room_for_others(&Caches::native_groups, bare);
  expect_room_for_others(&Caches::coscheduling_groups, bare);
  expect_room_for_others(&Caches::volcano_groups, bare);
  objects::Json pod = bare;
  pod["status"]["message"] = std::string(1000, 'x');
  expect_room_for_others(&Caches::pods, pod);
  objects::Json workload = bare;
  for (int i = 0; i < 20; ++i) {
    workload["metadata"]["finalizers"].push_back("f.example.com/" + std::to_string(i));
    workload["spec"]["podSets"].push_back({{"name", "p" + std::to_string(i)}, {"count", 1}});
  }
  expect_room_for_others(&Caches::workloads_v1beta2, workload);
  expect_room_for_others(&Caches::workloads_v1beta1, workload);
  expect_room_for_others(&Caches::jobs, api::encode(api::sample_job()));
}

}  // namespace
}  // namespace gnn::app
