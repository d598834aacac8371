#include "controller/app/group_apis.h"

#include <algorithm>
#include <string>

namespace gnn::app {
namespace {

using objects::GroupApi;
using objects::Json;

// The list below a member; empty if there is none.
const Json& list_in(const Json& object, const char* member) {
  static const Json kNone = Json::array();
  if (!object.is_object()) return kNone;
  const auto found = object.find(member);
  return found != object.end() && found->is_array() ? *found : kNone;
}

std::string text_in(const Json& object, const char* member) {
  if (!object.is_object()) return "";
  const auto found = object.find(member);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string name_in(const Json& object) {
  return object.is_object() && object.contains("metadata") ? text_in(object["metadata"], "name")
                                                           : "";
}

bool serves(const Json& version, std::string_view plural) {
  return std::ranges::any_of(list_in(version, "resources"), [&](const Json& resource) {
    return text_in(resource, "resource") == plural;
  });
}

}  // namespace

std::vector<GroupApi> group_apis_in(const Json& discovery) {
  std::vector<GroupApi> found;
  for (const Json& group : list_in(discovery, "items")) {
    for (const Json& version : list_in(group, "versions")) {
      const std::string name = name_in(group) + "/" + text_in(version, "version");
      for (const GroupApi api : objects::kGroupApis) {
        if (name == objects::api_version_of(api) && serves(version, "podgroups"))
          found.push_back(api);
      }
    }
  }
  return found;
}

std::optional<objects::KueueVersion> kueue_version_in(const Json& discovery) {
  for (const objects::KueueVersion wanted : objects::kKueueVersions) {
    for (const Json& group : list_in(discovery, "items")) {
      if (name_in(group) != objects::kueue::kGroup) continue;
      for (const Json& version : list_in(group, "versions")) {
        if (text_in(version, "version") != objects::to_string(wanted)) continue;
        if (serves(version, "workloads")) return wanted;
      }
    }
  }
  return std::nullopt;
}

client::ApiResult<void> GroupApis::discover() {
  Served found;
  if (!allowed_.empty() || kueue_allowed_) {
    const auto discovery = api_.discover();
    if (!discovery) {
      *error_.lock() = discovery.error().message;
      return tl::unexpected(discovery.error());
    }
    found.groups = group_apis_in(*discovery);
    std::erase_if(found.groups, [&](GroupApi api) {
      return std::ranges::find(allowed_, api) == allowed_.end();
    });
    if (kueue_allowed_) found.kueue = kueue_version_in(*discovery);
  }
  *served_.lock() = std::move(found);
  return {};
}

std::optional<std::vector<GroupApi>> GroupApis::served() const {
  const auto served = served_.lock();
  return *served ? std::optional((*served)->groups) : std::nullopt;
}

std::string GroupApis::why_unknown() const {
  if (*served_.lock()) return "";
  const std::string error = *error_.lock();
  return "the API server has not said which APIs it serves" + (error.empty() ? "" : ": " + error);
}

std::optional<objects::KueueVersion> GroupApis::kueue() const {
  const auto served = served_.lock();
  return *served ? (*served)->kueue : std::nullopt;
}

}  // namespace gnn::app
