#pragma once

#include "common/result.h"

#include <cstdint>
#include <string>

namespace gnn::rendezvous {

/// The local address of the route to `host`, under which others of its network reach this process.
/// Errors: PeerLost if the name is unknown or there is no route.
[[nodiscard]] Result<std::string> local_address_towards(const std::string& host, uint16_t port);

}  // namespace gnn::rendezvous
