#include "controller/app/cache_reflectors.h"

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

}  // namespace
}  // namespace gnn::app
