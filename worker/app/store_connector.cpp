#include "worker/app/store_connector.h"

#include "worker/comm/tcp_store.h"

#include <optional>

namespace gnn::app {

agent::StoreConnector make_tcp_connector(const agent::AgentOptions& options, int listening_socket) {
  comm::TcpStoreOptions store{
      .host = options.store_host, .port = options.store_port, .call_timeout = options.peer_timeout
  };
  if (options.node != 0)
    return [store](std::chrono::milliseconds timeout
           ) mutable -> Result<std::shared_ptr<rendezvous::Store>> {
      store.connect_timeout = timeout;
      return comm::TcpStore::join(store);
    };
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
