#include "tests/bench/controller/release_floor.h"

#include "common/bounded_queue.h"
#include "common/clock.h"
#include "common/contract.h"
#include "common/metrics.h"
#include "common/random.h"
#include "controller/app/cache_reflectors.h"
#include "controller/app/caches.h"
#include "controller/client/api_client.h"
#include "controller/client/cpprest_transport.h"
#include "tests/bench/controller/measure.h"
#include "tests/support/must.h"

#include <cstddef>
#include <cstdio>

namespace gnn::app {
namespace {

using namespace std::chrono_literals;
using objects::Json;
using objects::ObjectKey;

constexpr size_t kMostJobs = size_t{1} << 20U;

void release(client::ApiClient& api, const objects::Pod& pod) {
  const Json patch = {
      {"metadata",
       {{"uid", pod.metadata.uid},
        {"$deleteFromPrimitiveList/finalizers", Json::array({contract::kPodFinalizer})}}}
  };
  static_cast<void>(api.patch(
      client::resource_of<objects::Pod>(),
      objects::key_of(pod.metadata),
      client::PatchKind::StrategicMergePatch,
      patch
  ));
}

}  // namespace

void run_release_floor(const std::string& kubeconfig) {
  SystemClock clock;
  SystemRandom random;
  MetricsRegistry metrics;
  const auto config = testing::must(client::load_kubeconfig(kubeconfig));
  const auto transport = testing::must(client::make_cpprest_transport(config));
  client::TokenSource tokens(config, clock);
  client::ApiClient api(*transport, tokens, clock, metrics);
  Caches caches;
  BoundedQueue<ObjectKey> deleted(kMostJobs);
  caches.jobs.on_change([&](const auto& before, const auto& after) {
    if (!after) testing::must(deleted.push({before->metadata.namespace_, before->metadata.name}));
  });
  CacheReflectors reflectors(caches, api, {}, 90s, clock, random, metrics);
  reflectors.start();
  wait_until([&] { return reflectors.waits_for().empty(); }, 60s, "the floor's caches");
  std::printf("synced\n");
  static_cast<void>(std::fflush(stdout));
  while (true) {
    for (const auto& pod : caches.pods.group(objects::to_string(*testing::must(deleted.pop())))) {
      release(api, *pod);
    }
  }
}

}  // namespace gnn::app
