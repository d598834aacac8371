#include "controller/app/optional_apis.h"

#include <algorithm>

namespace gnn::app {

bool OptionalApis::knows_the_same_as(const OptionalApis& other) const {
  return groups == other.groups && kueue == other.kueue &&
         kueue_unknown.empty() == other.kueue_unknown.empty() &&
         std::ranges::equal(
             unknown_groups,
             other.unknown_groups,
             {},
             [](const auto& each) { return each.first; },
             [](const auto& each) { return each.first; }
         );
}

OptionalApis look_at_optional_apis(
    const GroupApis& served,
    const CacheReflectors& caches,
    const std::vector<objects::GroupApi>& allowed,
    bool kueue_allowed
) {
  OptionalApis found;
  const auto groups = served.served();
  if (!groups) {
    const std::string why = served.why_unknown();
    for (const objects::GroupApi api : allowed) found.unknown_groups.emplace(api, why);
    if (kueue_allowed) found.kueue_unknown = why;
    return found;
  }
  for (const objects::GroupApi api : *groups) {
    const OptionalCache cache = caches.groups(api);
    if (!cache.why_unknown.empty()) {
      found.unknown_groups.emplace(api, cache.why_unknown);
    } else if (cache.runs) {
      found.groups.push_back(api);
    }
  }
  if (const auto version = served.kueue()) {
    const OptionalCache cache = caches.workloads(*version);
    found.kueue_unknown = cache.why_unknown;
    if (cache.runs && cache.why_unknown.empty()) found.kueue = version;
  }
  return found;
}

}  // namespace gnn::app
