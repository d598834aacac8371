#pragma once

#include "worker/comm/process_groups.h"

#include <c10/util/intrusive_ptr.h>

#include <cstdint>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace gnn::comm::gloo_backend {

/// Connects all ranks with each other over TCP. Throws as c10d does when they don't come in time.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> make(
    const c10::intrusive_ptr<c10d::Store>& store,
    int64_t rank,
    int64_t world_size,
    const CommunicatorOptions& options
);

}  // namespace gnn::comm::gloo_backend
