#pragma once

#include "controller/client/http_transport.h"
#include "controller/client/kube_config.h"

#include <memory>

namespace gnn::client {

/// The transport on cpprestsdk: verified TLS always, a keep-alive pool, CA and client certificate
/// read again for each new connection. Errors: Configuration if the server's URL is not usable.
[[nodiscard]] Result<std::unique_ptr<HttpTransport>> make_cpprest_transport(const KubeConfig& config
);

}  // namespace gnn::client
