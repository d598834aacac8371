#include "common/api/environment.h"

#include "common/contract.h"

#include <cstdint>
#include <string_view>

namespace gnn::api {

std::vector<std::pair<std::string, std::string>> timeout_environment(const StageTimeouts& timeouts
) {
  std::vector<std::pair<std::string, std::string>> environment;
  const auto set = [&](std::string_view name, std::int64_t seconds) {
    environment.emplace_back(std::string(name), std::to_string(seconds));
  };
  set(contract::kEnvRendezvousTimeout, timeouts.rendezvous_seconds);
  set(contract::kEnvSetupTimeout, timeouts.setup_seconds);
  set(contract::kEnvStepTimeout, timeouts.step_seconds);
  set(contract::kEnvEvaluationTimeout, timeouts.step_seconds);
  set(contract::kEnvCheckpointTimeout, timeouts.checkpoint_seconds);
  return environment;
}

}  // namespace gnn::api
