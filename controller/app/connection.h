#pragma once

#include "controller/app/options.h"
#include "controller/client/api_client.h"
#include "controller/client/http_transport.h"
#include "controller/client/kube_config.h"

#include <memory>
#include <string>

namespace gnn::app {

/// Finds the credentials: --kubeconfig, the pod's service account, $KUBECONFIG, ~/.kube/config, in
/// this order.
[[nodiscard]] Result<client::KubeConfig> find_kube_config(const Options& options);

/// What it takes to call the API server.
struct Connection {
  client::KubeConfig config;
  std::unique_ptr<client::HttpTransport> transport;
  std::unique_ptr<client::TokenSource> tokens;

  /// `options.host` is filled in.
  [[nodiscard]] client::ApiClient client(
      Clock& clock, MetricsRegistry& metrics, client::ApiClientOptions options = {}
  ) const;
};

/// The connection of a command. If there is none, says why in the log and returns the command's exit code.
[[nodiscard]] tl::expected<Connection, int> connect(const Options& options, Clock& clock);

}  // namespace gnn::app
