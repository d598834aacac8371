#include "controller/app/cache_reflectors.h"

#include "common/contract.h"
#include "controller/runtime/reflector.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace gnn::app {
namespace {

// How long an API's objects count as known although lists or watches of them fail.
constexpr Duration kTroublePatience = std::chrono::seconds(30);
constexpr int64_t kMaxSmallChild = int64_t{256} << 10;  // bytes of JSON
// So that no list of others' takes long, either: a thousand megabytes of short keys would take minutes.
constexpr int64_t kMaxSmallChildValues = 2'000;

}  // namespace

CacheReflectors::CacheReflectors(
    Caches& caches,
    client::ApiClient& api,
    const std::vector<std::string>& namespaces,
    Duration idle_timeout,
    Clock& clock,
    RandomSource& random,
    MetricsRegistry& metrics,
    const std::vector<objects::GroupApi>& group_apis,
    bool kueue,
    bool network_policies
)
    : clock_(clock) {
  const auto add = [&]<class T>(
                       runtime::Store<T>& store,
                       runtime::ReflectorOptions options,
                       const std::string& optional_api = {}
                   ) {
    options.idle_timeout = idle_timeout;
    options.budget = &caches.memory;
    const auto runs = std::make_shared<std::atomic<bool>>(false);
    if (!optional_api.empty()) {
      options.on_unserved = [this, runs] {
        *runs = false;
        on_unserved_groups_();
      };
    }
    const std::string where = options.namespace_;
    auto reflector = std::make_shared<runtime::Reflector<T>>(
        api, store, std::move(options), clock, random, metrics
    );
    reflectors_.push_back(
        {.start = [reflector] { reflector->start(); },
         .stop = [reflector] { reflector->stop(); },
         .synced = [&store, where] { return store.synced(where); },
         .list_again = [reflector] { reflector->list_again(); },
         .fresh = [reflector] { return reflector->fresh(); },
         .resource = client::resource_of<T>().label,
         .plural = client::resource_of<T>().plural,
         .stands_still = [reflector] { return reflector->stands_still(); },
         .trouble = [reflector] { return reflector->trouble(); },
         .optional_api = optional_api,
         .runs = runs}
    );
  };
  const std::vector<std::string> all = {""};
  for (const std::string& where : namespaces.empty() ? all : namespaces) {
    const runtime::ReflectorOptions children{
        .namespace_ = where, .label_selector = std::string(contract::kLabelJob)
    };
    // Whoever may write a ConfigMap may label it as a job's child and fill it.
    runtime::ReflectorOptions names = children;
    names.content = client::Content::Metadata;
    // Their whole spec is cached, and ours are far smaller.
    runtime::ReflectorOptions small = children;
    small.object_limits.max_bytes = kMaxSmallChild;
    small.object_limits.max_values = kMaxSmallChildValues;
    add(caches.jobs, {.namespace_ = where});
    add(caches.pods, children);
    add(caches.config_maps, names);
    add(caches.services, small);
    if (network_policies) add(caches.network_policies, small);
    for (const objects::GroupApi each : group_apis) {
      with_groups(caches, each, [&](auto& store) {
        add(store, small, objects::api_version_of(each));
      });
    }
    if (!kueue) continue;
    for (const objects::KueueVersion each : objects::kKueueVersions) {
      // They repeat the pods' templates.
      with_workloads(caches, each, [&](auto& store) {
        add(store, children, objects::api_version_of(each));
      });
    }
  }
}

void CacheReflectors::start() {
  for (const Reflector& each : reflectors_) {
    if (each.optional_api.empty() && !each.runs->exchange(true)) each.start();
  }
}

void CacheReflectors::start_groups(objects::GroupApi api) {
  start_api(objects::api_version_of(api));
}

void CacheReflectors::start_workloads(objects::KueueVersion version) {
  start_api(objects::api_version_of(version));
}

void CacheReflectors::start_api(const std::string& api) {
  for (const Reflector& each : reflectors_) {
    if (each.optional_api == api && !each.runs->exchange(true)) each.start();
  }
}

void CacheReflectors::stop() {
  for (const Reflector& each : reflectors_) each.stop();
}

std::string CacheReflectors::standing_still() const {
  for (const Reflector& each : reflectors_) {
    if (each.stands_still()) return each.resource;
  }
  return {};
}

void CacheReflectors::list_again() {
  for (const Reflector& each : reflectors_) each.list_again();
}

bool CacheReflectors::fresh() const {
  return std::ranges::all_of(reflectors_, [](const Reflector& each) {
    return !each.optional_api.empty() || each.fresh();
  });
}

std::string CacheReflectors::waits_for() const {
  for (const Reflector& each : reflectors_) {
    if (!each.optional_api.empty() || each.synced()) continue;
    const auto trouble = each.trouble();
    return trouble ? each.resource + " cannot be listed: " + trouble->text
                   : each.resource + " have not been listed yet";
  }
  return {};
}

OptionalCache CacheReflectors::groups(objects::GroupApi api) const {
  return optional_cache(objects::api_version_of(api));
}

OptionalCache CacheReflectors::workloads(objects::KueueVersion version) const {
  return optional_cache(objects::api_version_of(version));
}

OptionalCache CacheReflectors::optional_cache(const std::string& api) const {
  OptionalCache found{.runs = true};
  for (const Reflector& each : reflectors_) {
    if (each.optional_api != api) continue;
    if (!*each.runs) return {};
    const auto trouble = each.trouble();
    const bool stale = trouble && clock_.monotonic() - trouble->since >= kTroublePatience;
    if (each.synced() && each.fresh() && !stale) continue;
    found.why_unknown = "the " + each.plural + " of " + api +
                        (trouble ? " cannot be read: " + trouble->text : " are not known yet");
  }
  return found;
}

}  // namespace gnn::app
