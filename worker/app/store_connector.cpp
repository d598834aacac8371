#include "worker/app/store_connector.h"

#include "worker/comm/tcp_store.h"

#include <c10/util/Logging.h>

#include <cstdlib>
#include <optional>

namespace gnn::app {
namespace {

comm::TcpStoreOptions store_options(const agent::AgentOptions& options) {
  return {
      .host = options.store_host, .port = options.store_port, .call_timeout = options.peer_timeout
  };
}

// c10d warns with stack traces of a lost store, which we report in one line; the user's choice takes
// precedence.
void quiet_c10d() {
  ::setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*overwrite=*/0);
  c10::initLogging();
}

}  // namespace

agent::StoreConnector make_tcp_joiner(const agent::AgentOptions& options) {
  quiet_c10d();
  return [store = store_options(options)](std::chrono::milliseconds timeout
         ) mutable -> Result<std::shared_ptr<rendezvous::Store>> {
    store.connect_timeout = timeout;
    return comm::TcpStore::join(store);
  };
}

agent::StoreConnector make_tcp_connector(const agent::AgentOptions& options, int listening_socket) {
  if (options.node != 0) return make_tcp_joiner(options);
  quiet_c10d();
  comm::TcpStoreOptions store = store_options(options);
  // The host needs no name to reach itself: the Service's DNS record may not exist yet.
  store.host = "127.0.0.1";
  const auto socket = listening_socket >= 0 ? std::optional(listening_socket) : std::nullopt;
  return [store, socket](std::chrono::milliseconds timeout
         ) mutable -> Result<std::shared_ptr<rendezvous::Store>> {
    store.connect_timeout = timeout;
    return comm::TcpStore::host(store, socket);
  };
}

}  // namespace gnn::app
