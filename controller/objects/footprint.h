#pragma once

#include "controller/objects/config_map.h"
#include "controller/objects/network_policy.h"
#include "controller/objects/pod.h"
#include "controller/objects/pod_group.h"
#include "controller/objects/service.h"
#include "controller/objects/workload.h"

#include <cstdint>

/// How much memory an object takes in a cache, in bytes: an estimate that is rather too high.
namespace gnn::objects {

/// Of the heap only, without the struct itself.
[[nodiscard]] int64_t bytes_of(const ServiceSpec& spec);
[[nodiscard]] int64_t bytes_of(const NetworkPolicySpec& spec);

// With what a cache takes for each object, its keys for one: so that many small ones count, too.
[[nodiscard]] int64_t footprint_of(const Service& service);
[[nodiscard]] int64_t footprint_of(const ConfigMap& config_map);
[[nodiscard]] int64_t footprint_of(const NetworkPolicy& policy);
[[nodiscard]] int64_t footprint_of(const Pod& pod);
[[nodiscard]] int64_t footprint_of(const PodGroup& group);
[[nodiscard]] int64_t footprint_of(const Workload& workload);
[[nodiscard]] int64_t footprint_of(const api::GnnJob& job);

}  // namespace gnn::objects
