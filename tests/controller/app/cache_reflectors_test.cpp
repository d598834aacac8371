#include "controller/app/cache_reflectors.h"

#include "tests/support/fake_clock.h"
#include "tests/support/fake_transport.h"
#include "tests/support/fixed_random.h"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace gnn::app
