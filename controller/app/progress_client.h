#pragma once

#include "common/clock.h"
#include "common/result.h"

#include <cstdint>
#include <string>

namespace gnn::app {

/// Fetches http://ADDRESS:PORT/PATH from a pod. The pod may be hostile, so time and size are
/// bounded. `address` is an IP address, never a name.
/// Errors: Network; Timeout if all of it takes longer than `timeout`; Data for any status but 200
/// (redirects included), a chunked body, or more than `max_bytes`.
[[nodiscard]] Result<std::string> fetch_from_pod(
    const std::string& address,
    uint16_t port,
    const std::string& path,
    Duration timeout,
    int64_t max_bytes
);

/// Fetches the progress of the pod with that address, within a second.
/// Errors: those of fetch_from_pod().
[[nodiscard]] Result<std::string> fetch_progress(const std::string& address);

}  // namespace gnn::app
