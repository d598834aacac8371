#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

// Dense products of bfloat16 operands with sums in float32, by oneDNN's small kernels for matrices in
// the cache: with AMX where the processor has it, else with AVX512-BF16. How rows are cut depends on
// their number alone, so that the bits do not depend on the number of threads.
namespace gnn::nn::cpu {

/// Whether this processor multiplies bfloat16, and torch's switch for oneDNN is on; otherwise the
/// functions below must not be called.
[[nodiscard]] bool has_bfloat16_products();

/// x · w.
/// Shapes: bfloat16; x [N, K], contiguous; w [K, M], any strides.
struct Bfloat16Product {
  at::Tensor x;
  at::Tensor w;
};

/// out = bias + the sum of the products, rounded once to out's type.
/// Shapes: out [N, M], contiguous, float32 or bfloat16; bias float32 [M], contiguous, or undefined.
/// N, K and M are positive.
void sum_of_products(
    std::span<const Bfloat16Product> products, const at::Tensor& bias, const at::Tensor& out
);

struct SumsOverRows {
  std::vector<at::Tensor> products;  ///< aᵀ · b for each b, float32 [M, K of b]
  at::Tensor rows;                   ///< the sum of a's rows, float32 [M]
};

/// Shapes: bfloat16, contiguous; a [N, M], each b [N, K], N, K and M positive.
[[nodiscard]] SumsOverRows sums_over_rows(const at::Tensor& a, std::span<const at::Tensor> bs);

}  // namespace gnn::nn::cpu
