#pragma once

#include "common/result.h"
#include "worker/comm/communicator.h"

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <optional>

namespace gnn::comm {

/// A tensor whose elements are the same memory on all ranks of `node`, which are processes of one
/// machine and one user. Its elements are 0. It has no name in a file system, does not count
/// against the size of /dev/shm, and lives until the last rank lets go of it. Who reads what
/// another rank wrote waits for it by a collective. Nothing, on all ranks, with a warning that says
/// why, if some rank cannot map it. Collective.
/// Shapes: contiguous `sizes`, on the CPU.
/// Errors: PeerLost.
[[nodiscard]] Result<std::optional<at::Tensor>> zeros_shared_by(
    Communicator& node, at::IntArrayRef sizes, at::ScalarType dtype
);

/// A tensor of this process alone, whose elements have no value yet, on large pages where the machine
/// gives them: rows that are read in any order then miss the TLB less.
/// Shapes: contiguous `sizes`, on the CPU.
[[nodiscard]] at::Tensor empty_on_large_pages(at::IntArrayRef sizes, at::ScalarType dtype);

}  // namespace gnn::comm
