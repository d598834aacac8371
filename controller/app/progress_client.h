#pragma once

#include "common/clock.h"
#include "common/result.h"

#include <cstdint>
#include <string>

namespace gnn::app {

/// Fetches http://ADDRESS:PORT/PATH from a pod, which may be hostile: everything is bounded.
/// `address` is an IP address, never a name.
/// Errors: Network, Timeout (the whole took longer than `timeout`), Data (any status but 200, a
/// redirect too, a chunked body, or more than `max_bytes`).
[[nodiscard]] Result<std::string> fetch_from_pod(
    const std::string& address,
    uint16_t port,
    const std::string& path,
    Duration timeout,
    int64_t max_bytes
);

}  // namespace gnn::app
