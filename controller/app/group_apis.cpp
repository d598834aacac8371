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

bool serves_groups(const Json& version) {
  return std::ranges::any_of(list_in(version, "resources"), [](const Json& resource) {
    return text_in(resource, "resource") == "podgroups";
  });
}

}  // namespace

std::vector<GroupApi> group_apis_in(const Json& discovery) {
  std::vector<GroupApi> found;
  for (const Json& group : list_in(discovery, "items")) {
    for (const Json& version : list_in(group, "versions")) {
      const std::string name = name_in(group) + "/" + text_in(version, "version");
      for (const GroupApi api : objects::kGroupApis) {
        if (name == objects::api_version_of(api) && serves_groups(version)) found.push_back(api);
      }
    }
  }
  return found;
}

client::ApiResult<void> GroupApis::discover() {
  std::vector<GroupApi> found;
  if (!allowed_.empty()) {
    const auto discovery = api_.discover();
    if (!discovery) return tl::unexpected(discovery.error());
    found = group_apis_in(*discovery);
    std::erase_if(found, [&](GroupApi api) {
      return std::ranges::find(allowed_, api) == allowed_.end();
    });
  }
  *served_.lock() = std::move(found);
  return {};
}

std::optional<std::vector<GroupApi>> GroupApis::served() const {
  return *served_.lock();
}

}  // namespace gnn::app
