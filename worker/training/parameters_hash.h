#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace gnn::embedding {
class Embeddings;
}

namespace gnn::training {

/// XXH64 over the bytes of the tensors, one after another, as 16 hexadecimal digits.
[[nodiscard]] std::string hash_of(const std::vector<at::Tensor>& tensors);
/// The same with the present rows of tables after them.
[[nodiscard]] std::string hash_of(
    const std::vector<at::Tensor>& tensors, const embedding::Embeddings& embeddings
);

}  // namespace gnn::training
