#pragma once

#include "controller/client/http_transport.h"
#include "controller/client/kube_config.h"

#include <memory>

namespace gnn::client {

/// A transport on cpprestsdk. It always verifies TLS, keeps connections alive in a pool, and reads
/// CA and client certificate again for each new connection.
/// Errors: Configuration if the server's URL cannot be used.
[[nodiscard]] Result<std::unique_ptr<HttpTransport>> make_cpprest_transport(const KubeConfig& config
);

}  // namespace gnn::client
