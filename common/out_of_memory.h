#pragma once

#include <exception>

namespace gnn {

/// Whether an exception means that memory ran out: std::bad_alloc, or an error whose text says so.
/// Torch's CPU allocator throws a plain error, "can't allocate memory"; CUDA's says "out of
/// memory".
[[nodiscard]] bool is_out_of_memory(const std::exception& error);

}  // namespace gnn
