#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gnn::nn {

// Dense products of a mini-batch's rows with a layer's weights, by the fastest library available.
//
// LibTorch's at::mm uses MKL, which stops at AVX2 on processors that are not Intel's. LibTorch also
// contains oneDNN, which uses AVX-512 on any processor and is about twice as fast there. So float32
// matrices on such a CPU go to oneDNN (unless torch's switch for it is off), all others to at::mm.
// oneDNN compiles and keeps a kernel per shape, and every mini-batch has another number of rows, so
// rows are taken in pieces of a few fixed sizes. Results differ from at::mm's by rounding; they are
// the same from run to run on one machine with the same number of threads.
//
// Rows of bfloat16 are multiplied by weights of float32 that are rounded to bfloat16, with sums in
// float32 (mixed precision): on a CPU that multiplies bfloat16 by kernels of our own around oneDNN's
// (cpu/bfloat16_products.h), on others as float32, which is exact but slow; on a GPU by its tensor
// cores.
//
// A GPU multiplies float32 as float32, or as TF32 once set_tf32_products() has said so.
//
// Only linear_rows() is differentiable.
// Shapes: all tensors [rows, columns], of one dtype and device but where said; any strides.
// Errors: c10::Error as at::mm's.
// Threads: safe; uses torch's intra-op threads.

/// x · w: [N, K] x [K, M] -> [N, M], N being the batch's rows.
[[nodiscard]] at::Tensor mm_rows(const at::Tensor& x, const at::Tensor& w);

/// out += x · w, of the same shapes.
void addmm_rows(at::Tensor& out, const at::Tensor& x, const at::Tensor& w);

/// `bias` [M] copied to each of `rows` rows, [rows, M], for products to be added to.
[[nodiscard]] at::Tensor bias_rows(const at::Tensor& bias, int64_t rows);

/// aᵀ · b: [N, K] x [N, M] -> [K, M], summed over the batch's rows: a weight's gradient. Float32 for
/// bfloat16 operands.
[[nodiscard]] at::Tensor mm_over_rows(const at::Tensor& a, const at::Tensor& b);

struct Product {
  at::Tensor x;  ///< [N, K]
  at::Tensor w;  ///< [K, M]
};

/// bias + the sum of x · w of all products, [N, M]; of bfloat16 products rounded once, to `result`,
/// which is the type of x if absent and may be float32.
/// Shapes: bias [M], float32 for bfloat16 products.
[[nodiscard]] at::Tensor sum_of_products(
    const at::Tensor& bias,
    std::span<const Product> products,
    std::optional<at::ScalarType> result = {}
);

struct LinearGradients {
  std::vector<at::Tensor> weights;  ///< gradientᵀ · x for each x, [M, K]
  at::Tensor bias;                  ///< the sum of the gradient's rows, [M]
};

/// What the parameters of bias + sum of x · weightᵀ get; float32 if the inputs are bfloat16, to which
/// the gradient is then rounded.
/// Shapes: gradient [N, M]; each of inputs [N, K], all of one type.
[[nodiscard]] LinearGradients linear_gradients(
    const at::Tensor& gradient, std::span<const at::Tensor> inputs
);

/// x · weightᵀ + bias, differentiable: at::linear with the products above. `bias` may be undefined.
/// A bfloat16 x takes float32 parameters; the result is of the type of x, or float32 if `result` says
/// so.
[[nodiscard]] at::Tensor linear_rows(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias = {},
    std::optional<at::ScalarType> result = {}
);

/// linear_rows() of float32 rows that are rounded to bfloat16; the result is float32.
[[nodiscard]] at::Tensor linear_mixed(
    const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias
);

/// `weight` as an operand of products with rows like `x`: rounded if those are bfloat16.
[[nodiscard]] at::Tensor operand_like(const at::Tensor& x, const at::Tensor& weight);

/// The type of scores that are computed from operands of type `operands`: float32 for bfloat16.
[[nodiscard]] at::ScalarType score_type(at::ScalarType operands);

/// Whether GPUs round the operands of float32 products to ten bits of fraction (TF32), for which they
/// have tensor cores: all products of this process from now on, as with torch's
/// set_float32_matmul_precision("high"). The CPU's stay as they are.
void set_tf32_products(bool on);

/// Whether the CPU has instructions for products of bfloat16, and torch's switch for oneDNN is on.
[[nodiscard]] bool has_bfloat16_products();

/// Whether float32 products of tensors like `x` go to oneDNN.
[[nodiscard]] bool uses_onednn(const at::Tensor& x);

}  // namespace gnn::nn
