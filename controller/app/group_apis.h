#pragma once

#include "common/guarded.h"
#include "controller/client/api_client.h"
#include "controller/objects/pod_group.h"
#include "controller/objects/workload.h"

#include <optional>
#include <string>
#include <vector>

namespace gnn::app {

/// Which APIs for groups of pods an APIGroupDiscoveryList has.
[[nodiscard]] std::vector<objects::GroupApi> group_apis_in(const objects::Json& discovery);

/// The best version of Kueue's API that an APIGroupDiscoveryList has; nothing if it has none.
[[nodiscard]] std::optional<objects::KueueVersion> kueue_version_in(const objects::Json& discovery);

/// Which of the APIs for groups of pods that the operator may use are served, and whether Kueue's is.
/// Threads: every method may be called from any thread.
class GroupApis {
 public:
  GroupApis(client::ApiClient& api, std::vector<objects::GroupApi> allowed, bool kueue = false)
      : api_(api), allowed_(std::move(allowed)), kueue_allowed_(kueue) {}

  /// Asks the API server, unless no API may be used.
  [[nodiscard]] client::ApiResult<void> discover();

  /// Those that were served when the API server was asked last; nothing if it never answered.
  [[nodiscard]] std::optional<std::vector<objects::GroupApi>> served() const;
  /// What the API server said instead, if it never answered; empty if it did.
  [[nodiscard]] std::string why_unknown() const;
  /// The version of Kueue's API then; nothing if it was not served or may not be used.
  [[nodiscard]] std::optional<objects::KueueVersion> kueue() const;

 private:
  client::ApiClient& api_;
  struct Served {
    std::vector<objects::GroupApi> groups;
    std::optional<objects::KueueVersion> kueue;
  };

  const std::vector<objects::GroupApi> allowed_;
  const bool kueue_allowed_;
  mutable Guarded<std::optional<Served>> served_;
  mutable Guarded<std::string> error_;
};

}  // namespace gnn::app
