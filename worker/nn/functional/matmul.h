#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace gnn::nn {

// Dense products of a mini-batch's rows with a layer's weights, on the fastest library at hand.
//
// LibTorch's at::mm goes to MKL, which on processors of other makers than Intel stops at AVX2.
// LibTorch brings oneDNN, too, which uses AVX-512 wherever it is: about twice as fast there. So
// float32 matrices on such a CPU go to oneDNN (unless torch's own switch for it is off), all others
// to at::mm. oneDNN compiles a kernel for each new shape and keeps it, and every mini-batch has
// another number of rows: rows are taken in pieces of a few fixed sizes. Results differ from
// at::mm's by rounding and are the same from run to run on one machine with the same number of
// threads.
//
// All tensors [rows, columns], of one dtype and device; any strides. Only linear_rows() is
// differentiable. Errors: c10::Error as at::mm's. Threads: safe; uses torch's intra-op threads.

/// x · w: [N, K] x [K, M] -> [N, M]; N is the batch's.
[[nodiscard]] at::Tensor mm_rows(const at::Tensor& x, const at::Tensor& w);

/// out += x · w, of the same shapes.
void addmm_rows(at::Tensor& out, const at::Tensor& x, const at::Tensor& w);

/// A copy of `bias` [M] for each of `rows` rows, [rows, M], to add products to.
[[nodiscard]] at::Tensor bias_rows(const at::Tensor& bias, int64_t rows);

/// aᵀ · b: [N, K], [N, M] -> [K, M], summed over the batch's N rows: a weight's gradient.
[[nodiscard]] at::Tensor mm_over_rows(const at::Tensor& a, const at::Tensor& b);

/// x · weightᵀ + bias, differentiable: at::linear with the products above. `bias` may be undefined.
[[nodiscard]] at::Tensor linear_rows(
    const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {}
);

/// Whether products of tensors like `x` go to oneDNN.
[[nodiscard]] bool uses_onednn(const at::Tensor& x);

}  // namespace gnn::nn
