#pragma once

#include "common/api/codec.h"
#include "common/contract.h"
#include "controller/objects/meta.h"
#include "controller/objects/workload.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace gnn::objects {

/// Lets the client, the stores and the reflectors handle GNNJobs.
template <>
struct ResourceTraits<api::GnnJob> {
  static constexpr std::string_view kGroup = contract::kApiGroup;
  static constexpr std::string_view kVersion = contract::kApiVersion;
  static constexpr std::string_view kKind = contract::kKind;
  static constexpr std::string_view kPlural = contract::kPlural;
  [[nodiscard]] static Result<api::GnnJob> decode(const Json& json) {
    auto job = api::decode_job(json, api::UnknownFields::Ignore);
    if (!job) return job;
    // Nobody reads the others here, and users may make them large.
    std::erase_if(job->metadata.labels, [](const auto& label) {
      return std::ranges::find(kueue::kJobLabels, label.first) == kueue::kJobLabels.end();
    });
    job->metadata.annotations.clear();
    std::erase_if(job->metadata.finalizers, [](const std::string& name) {
      return name != contract::kOrphanFinalizer;
    });
    return job;
  }
};

}  // namespace gnn::objects
