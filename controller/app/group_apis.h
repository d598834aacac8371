#pragma once

#include "common/guarded.h"
#include "controller/client/api_client.h"
#include "controller/objects/pod_group.h"

#include <optional>
#include <vector>

namespace gnn::app {

/// Which APIs for groups of pods an APIGroupDiscoveryList has.
[[nodiscard]] std::vector<objects::GroupApi> group_apis_in(const objects::Json& discovery);

/// Which of the APIs for groups of pods that the operator may use are served.
/// Threads: every method may be called from any thread.
class GroupApis {
 public:
  GroupApis(client::ApiClient& api, std::vector<objects::GroupApi> allowed)
      : api_(api), allowed_(std::move(allowed)) {}

  /// Asks the API server, unless no API may be used.
  [[nodiscard]] client::ApiResult<void> discover();

  /// Those that were served when the API server was asked last; nothing if it never answered.
  [[nodiscard]] std::optional<std::vector<objects::GroupApi>> served() const;

 private:
  client::ApiClient& api_;
  const std::vector<objects::GroupApi> allowed_;
  mutable Guarded<std::optional<std::vector<objects::GroupApi>>> served_;
};

}  // namespace gnn::app
