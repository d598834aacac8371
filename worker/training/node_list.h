#pragma once

#include "common/result.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace gnn::training {

/// Reads ids of nodes from a .npy file: int64 [K], in any order. Returns them ascending.
/// Errors: Data naming the file, and the place and id that is out of range or stands there twice; for
/// elements of another type, and without any; NotFound; Io.
[[nodiscard]] Result<at::Tensor> read_node_list(const std::string& path, int64_t num_nodes);

}  // namespace gnn::training
