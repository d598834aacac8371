#pragma once

#include "common/api/codec.h"
#include "common/contract.h"
#include "controller/objects/config_map.h"
#include "controller/objects/network_policy.h"
#include "controller/objects/pod.h"
#include "controller/objects/service.h"
#include "controller/runtime/store.h"

#include <string>

namespace gnn::objects {

template <>
struct ResourceTraits<api::GnnJob> {
  static constexpr std::string_view kGroup = contract::kApiGroup;
  static constexpr std::string_view kVersion = contract::kApiVersion;
  static constexpr std::string_view kKind = contract::kKind;
  static constexpr std::string_view kPlural = contract::kPlural;
  [[nodiscard]] static Result<api::GnnJob> decode(const Json& json) {
    return api::decode_job(json, api::UnknownFields::Ignore);
  }
};

}  // namespace gnn::objects

namespace gnn::app {

/// "namespace/job" of an object with our job label; empty without it.
[[nodiscard]] inline std::string job_group(const objects::ObjectMeta& meta) {
  const auto label = meta.labels.find(std::string(contract::kLabelJob));
  return label == meta.labels.end() ? "" : meta.namespace_ + "/" + label->second;
}

/// All that the controller knows of the cluster.
struct Caches {
  runtime::Store<api::GnnJob> jobs;
  runtime::Store<objects::Pod> pods{[](const objects::Pod& pod) { return job_group(pod.metadata); }
  };
  runtime::Store<objects::Service> services;
  runtime::Store<objects::ConfigMap> config_maps;
  runtime::Store<objects::NetworkPolicy> network_policies;
};

}  // namespace gnn::app
