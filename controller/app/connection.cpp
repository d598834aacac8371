#include "controller/app/connection.h"

#include "common/contract.h"
#include "common/log.h"
#include "controller/client/cpprest_transport.h"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

namespace gnn::app {
namespace {

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Result<Connection> try_connect(const Options& options, Clock& clock) {
  Connection connection;
  GNN_ASSIGN_OR_RETURN(connection.config, find_kube_config(options));
  GNN_ASSIGN_OR_RETURN(connection.transport, client::make_cpprest_transport(connection.config));
  connection.tokens = std::make_unique<client::TokenSource>(connection.config, clock);
  return connection;
}

}  // namespace

Result<client::KubeConfig> find_kube_config(const Options& options) {
  if (!options.kubeconfig.empty()) {
    return client::load_kubeconfig(options.kubeconfig, options.context);
  }
  auto in_cluster = client::in_cluster_config(
      environment("KUBERNETES_SERVICE_HOST"), environment("KUBERNETES_SERVICE_PORT")
  );
  if (in_cluster || in_cluster.error().kind != ErrorKind::NotFound) return in_cluster;
  if (const auto file = environment("KUBECONFIG"); file && !file->empty()) {
    return client::load_kubeconfig(*file, options.context);
  }
  const auto home = environment("HOME");
  const std::string file = home.value_or("") + "/.kube/config";
  std::error_code error;
  if (home && std::filesystem::exists(file, error)) {
    return client::load_kubeconfig(file, options.context);
  }
  return in_cluster;
}

client::ApiClient Connection::client(
    Clock& clock, MetricsRegistry& metrics, client::ApiClientOptions options
) const {
  options.host = config.server.substr(config.server.find("//") + 2);
  return {*transport, *tokens, clock, metrics, std::move(options)};
}

tl::expected<Connection, int> connect(const Options& options, Clock& clock) {
  auto connection = try_connect(options, clock);
  if (connection) return std::move(*connection);
  log_error("cannot connect to the API server", {{"error", connection.error().message}});
  return tl::unexpected(contract::exit_code_for(connection.error().kind));
}

}  // namespace gnn::app
