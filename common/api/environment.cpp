#include "common/api/environment.h"

#include "common/contract.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace gnn::api {
namespace {

// By how much the wait in a collective outlasts the longest stage.
constexpr std::int64_t kCollectiveMarginSeconds = 60;

}  // namespace

std::vector<EnvVar> timeout_environment(const StageTimeouts& timeouts) {
  std::vector<EnvVar> environment;
  const auto set = [&](std::string_view name, std::int64_t seconds) {
    environment.push_back({.name = std::string(name), .value = std::to_string(seconds)});
  };
  set(contract::kEnvRendezvousTimeout, timeouts.rendezvous_seconds);
  set(contract::kEnvSetupTimeout, timeouts.setup_seconds);
  set(contract::kEnvStepTimeout, timeouts.step_seconds);
  set(contract::kEnvEvaluationTimeout, timeouts.step_seconds);
  set(contract::kEnvCheckpointTimeout, timeouts.checkpoint_seconds);
  // A rank waits for the others for as long as one of them may take: who hangs is for the agents to
  // find out first.
  const std::int64_t longest =
      std::max({timeouts.setup_seconds, timeouts.step_seconds, timeouts.checkpoint_seconds});
  set(contract::kEnvCollectiveTimeout, longest + kCollectiveMarginSeconds);
  return environment;
}

}  // namespace gnn::api
