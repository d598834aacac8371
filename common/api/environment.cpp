#include "common/api/environment.h"

#include "common/contract.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace gnn::api {
std::vector<EnvVar> timeout_environment(const StageTimeouts& timeouts) {
  std::vector<EnvVar> environment;
  const auto set = [&](std::string_view name, int64_t seconds) {
    environment.push_back({.name = std::string(name), .value = std::to_string(seconds)});
  };
  set(contract::kEnvRendezvousTimeout, timeouts.rendezvous_seconds);
  set(contract::kEnvSetupTimeout, timeouts.setup_seconds);
  set(contract::kEnvStepTimeout, timeouts.step_seconds);
  set(contract::kEnvEvaluationTimeout, timeouts.step_seconds);
  set(contract::kEnvCheckpointTimeout, timeouts.checkpoint_seconds);
  set(contract::kEnvPeerTimeout, timeouts.peer_seconds);
  const int64_t longest =
      std::max({timeouts.setup_seconds, timeouts.step_seconds, timeouts.checkpoint_seconds});
  set(contract::kEnvCollectiveTimeout, longest + contract::kCollectiveMarginSeconds);
  return environment;
}

}  // namespace gnn::api
