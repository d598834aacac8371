#include "worker/nn/cpu/relu_dropout.h"

#include "common/hash.h"
#include "worker/nn/cpu/simd.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

namespace gnn::nn::cpu {
namespace {

// The two 32-bit words that seed a chunk's draws.
uint64_t chunk_key(uint64_t key, int64_t chunk) {
  return splitmix64(key, static_cast<uint64_t>(chunk));
}

// Within a chunk, 32-bit mixing only, so that the draws vectorise. Constants: Wellons, "lowbias32"
// (2018).
GNN_INLINE uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x21f0aaadU;
  x ^= x >> 15;
  x *= 0xd35a2d97U;
  x ^= x >> 15;
  return x;
}

constexpr int64_t kChunk = 4096;

template <class T>
GNN_INLINE void relu_dropout_chunk(
    T* y, int64_t size, uint64_t key, uint32_t threshold, typename ScaleOf<T>::Type scale
) {
  using Scale = typename ScaleOf<T>::Type;
  const auto low = static_cast<uint32_t>(key);
  const auto high = static_cast<uint32_t>(key >> 32);
  for (int64_t i = 0; i < size; ++i) {
    const uint32_t random = mix(static_cast<uint32_t>(i) * 0x9e3779b9U + low) ^ high;
    const Scale value = load(y[i]);
    const Scale scaled = value * scale;
    // Without short-circuit, so that it becomes a select: a branch here would be taken at random. A
    // NaN that is not dropped stays, as with at::relu.
    const bool zero = static_cast<bool>(
        static_cast<unsigned>(random < threshold) | static_cast<unsigned>(value < Scale{0})
    );
    y[i] = store<T>(zero ? Scale{0} : scaled);
  }
}

template <class T>
void relu_dropout_chunk_base(
    T* y, int64_t size, uint64_t key, uint32_t threshold, typename ScaleOf<T>::Type scale
) {
  relu_dropout_chunk(y, size, key, threshold, scale);
}

template <class T>
GNN_AVX2 void relu_dropout_chunk_avx2(
    T* y, int64_t size, uint64_t key, uint32_t threshold, typename ScaleOf<T>::Type scale
) {
  relu_dropout_chunk(y, size, key, threshold, scale);
}

template <class T>
void run(T* y, int64_t size, double p, uint64_t key) {
  const auto threshold = static_cast<uint32_t>(std::min(std::llround(p * 0x1p32), (1LL << 32) - 1));
  const auto scale = static_cast<typename ScaleOf<T>::Type>(1 / (1 - p));
  auto* const chunk = has_avx2() ? &relu_dropout_chunk_avx2<T> : &relu_dropout_chunk_base<T>;
  at::parallel_for(0, (size + kChunk - 1) / kChunk, 8, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t begin = i * kChunk;
      chunk(y + begin, std::min(kChunk, size - begin), chunk_key(key, i), threshold, scale);
    }
  });
}

template <class T>
void run_backward(const T* output, const T* grad_output, T* grad, int64_t size, double scale) {
  using Scale = typename ScaleOf<T>::Type;
  const auto factor = static_cast<Scale>(scale);
  at::parallel_for(0, size, 8 * kChunk, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Scale value = load(grad_output[i]) * factor;
      grad[i] = store<T>(load(output[i]) > Scale{0} ? value : Scale{0});
    }
  });
}

template <class Run>
void dispatch(at::ScalarType type, const Run& run) {
  switch (type) {
    case at::kFloat:
      return run(float{});
    case at::kDouble:
      return run(double{});
    case at::kBFloat16:
      return run(c10::BFloat16{});
    default:
      TORCH_CHECK(false, "relu_dropout: expected float32, float64 or bfloat16, found ", type);
  }
}

}  // namespace

void relu_dropout(const at::Tensor& x, double p, uint64_t key) {
  dispatch(x.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    run(static_cast<T*>(x.mutable_data_ptr()), x.numel(), p, key);
  });
}

at::Tensor relu_dropout_backward(
    const at::Tensor& output, const at::Tensor& grad_output, double scale
) {
  at::Tensor result = at::empty_like(output);
  dispatch(output.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    run_backward(
        static_cast<const T*>(output.const_data_ptr()),
        static_cast<const T*>(grad_output.const_data_ptr()),
        static_cast<T*>(result.mutable_data_ptr()),
        output.numel(),
        scale
    );
  });
  return result;
}

}  // namespace gnn::nn::cpu
