#pragma once

#include "worker/comm/process_groups.h"

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace gnn::comm::nccl_backend {

/// Whether this build has NCCL (GNN_WITH_NCCL).
[[nodiscard]] bool available();

/// The NCCL backend on `device`. Communicators form at the first collective.
/// Errors: throws when this build has no NCCL, or as c10d does.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> make(
    const c10::intrusive_ptr<c10d::Store>& store,
    int64_t rank,
    int64_t world_size,
    c10::Device device,
    const CommunicatorOptions& options
);

}  // namespace gnn::comm::nccl_backend
