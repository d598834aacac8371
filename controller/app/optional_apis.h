#pragma once

#include "controller/app/cache_reflectors.h"
#include "controller/app/group_apis.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gnn::app {

/// What is known of the APIs that only some jobs use: those for groups of pods, and Kueue's. Nobody else
/// waits for them, whatever state they are in.
struct OptionalApis {
  std::vector<objects::GroupApi> groups{};  ///< those that are served, and their groups known
  std::map<objects::GroupApi, std::string> unknown_groups{};  ///< the others that may be, and why
  std::optional<objects::KueueVersion> kueue{};  ///< if it is served, and its Workloads known
  std::string kueue_unknown{};                   ///< why not, if it may be served; empty: it is not

  /// Whether the same is known, for whatever reason it may be unknown.
  [[nodiscard]] bool knows_the_same_as(const OptionalApis& other) const;
  /// Whether all that can be known is.
  [[nodiscard]] bool is_settled() const { return unknown_groups.empty() && kueue_unknown.empty(); }
};

/// `allowed`, `kueue_allowed`: what the operator may use.
[[nodiscard]] OptionalApis look_at_optional_apis(
    const GroupApis& served,
    const CacheReflectors& caches,
    const std::vector<objects::GroupApi>& allowed,
    bool kueue_allowed
);

}  // namespace gnn::app
