#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

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
// Only linear_rows() is differentiable.
// Shapes: all tensors [rows, columns], of one dtype and device; any strides.
// Errors: c10::Error as at::mm's.
// Threads: safe; uses torch's intra-op threads.

/// x · w: [N, K] x [K, M] -> [N, M], N being the batch's rows.
[[nodiscard]] at::Tensor mm_rows(const at::Tensor& x, const at::Tensor& w);

/// out += x · w, of the same shapes.
void addmm_rows(at::Tensor& out, const at::Tensor& x, const at::Tensor& w);

/// `bias` [M] copied to each of `rows` rows, [rows, M], for products to be added to.
[[nodiscard]] at::Tensor bias_rows(const at::Tensor& bias, int64_t rows);

/// aᵀ · b: [N, K] x [N, M] -> [K, M], summed over the batch's rows: a weight's gradient.
[[nodiscard]] at::Tensor mm_over_rows(const at::Tensor& a, const at::Tensor& b);

/// x · weightᵀ + bias, differentiable: at::linear with the products above. `bias` may be undefined.
[[nodiscard]] at::Tensor linear_rows(
    const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {}
);

/// Whether products of tensors like `x` go to oneDNN.
[[nodiscard]] bool uses_onednn(const at::Tensor& x);

}  // namespace gnn::nn
