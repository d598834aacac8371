#include "worker/app/server_directory.h"

#include "common/contract.h"
#include "common/host_port.h"

#include <chrono>
#include <utility>

namespace gnn::app {

std::function<void(const std::vector<agent::LiveServer>& servers)> update_of(
    std::shared_ptr<servers::Directory> directory
) {
  return [directory = std::move(directory)](const std::vector<agent::LiveServer>& servers) {
    std::vector<servers::LiveServer> live;
    live.reserve(servers.size());
    for (const agent::LiveServer& server : servers)
      live.push_back({.server = server.server, .restart = server.restart, .address = server.address}
      );
    directory->update(std::move(live));
  };
}

Result<Duration> server_timeout_of(
    const api::GnnJobSpec& spec, const rendezvous::EnvironmentLookup& environment
) {
  GNN_ASSIGN_OR_RETURN(
      const int64_t seconds,
      rendezvous::parse_integer(
          environment,
          contract::kEnvServerTimeout,
          1,
          rendezvous::kMaxTimeoutSeconds,
          spec.run_policy.server_timeout_seconds.value_or(contract::kDefaultServerSeconds)
      )
  );
  return std::chrono::seconds(seconds);
}

Result<tasks::DataEndpoint> parse_data_endpoint(
    const rendezvous::EnvironmentLookup& environment, const std::string& own_address
) {
  tasks::DataEndpoint endpoint;
  if (const auto address = environment(contract::kEnvDataAddress)) {
    auto parsed = parse_host_port(*address);
    if (!parsed) {
      return tl::unexpected(
          with_context(std::move(parsed).error(), std::string(contract::kEnvDataAddress))
      );
    }
    endpoint.address = *parsed;
  }
  if (auto file = environment(contract::kEnvDataKeyFile)) endpoint.key_file = std::move(*file);
  if (!own_address.empty()) endpoint.host = own_address;
  return endpoint;
}

}  // namespace gnn::app
