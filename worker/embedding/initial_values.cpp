#include "worker/embedding/initial_values.h"

#include "common/hash.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <utility>

namespace gnn::embedding {
namespace {

// The C library picks its functions by the processor, and their last bits differ. Here each is made of
// sums, products, quotients and roots, which IEEE 754 defines to the last bit.

// The natural logarithm of a normal number, to about 1e-16 of it.
double logarithm(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  auto exponent = static_cast<double>(static_cast<int64_t>(bits >> 52U) - 1023);
  double f = std::bit_cast<double>((bits & 0xfffffffffffffULL) | 0x3ff0000000000000ULL);
  if (f > std::numbers::sqrt2) {
    f /= 2;
    exponent += 1;
  }
  // log f = 2 artanh(s); |s| < 0.172
  const double s = (f - 1) / (f + 1);
  const double square = s * s;
  double sum = 0;
  for (int power = 21; power >= 1; power -= 2) sum = sum * square + 1.0 / power;
  return exponent * std::numbers::ln2 + 2 * s * sum;
}

// Sine and cosine of a quarter turn times t, 0 <= t <= 1/2 and back: series at up to pi / 4.
std::pair<double, double> sine_and_cosine_of_octant(double t) {
  const double x = t * (std::numbers::pi / 2);
  const double square = x * x;
  double sine = 1;
  double cosine = 1;
  for (int n = 16; n >= 2; n -= 2) {
    sine = 1 - square / (n * (n + 1)) * sine;
    cosine = 1 - square / (n * (n - 1)) * cosine;
  }
  return {x * sine, cosine};
}

// Cosine and sine of `turns` in [0, 1).
std::pair<double, double> point_on_circle(double turns) {
  const double quarters = turns * 4;
  const auto quadrant = static_cast<int>(quarters);
  const double t = quarters - quadrant;
  const bool mirrored = t > 0.5;
  auto [sine, cosine] = sine_and_cosine_of_octant(mirrored ? 1 - t : t);
  if (mirrored) std::swap(sine, cosine);
  switch (quadrant) {
    case 0:
      return {cosine, sine};
    case 1:
      return {-sine, cosine};
    case 2:
      return {-cosine, -sine};
    default:
      return {sine, -cosine};
  }
}

std::pair<double, double> two_normals(uint64_t key, uint64_t pair) {
  const auto uniform = [&](uint64_t index) {
    return static_cast<double>(splitmix64(key, index) >> 11U);
  };
  const double radius = std::sqrt(-2 * logarithm((uniform(2 * pair) + 1) * 0x1p-53));
  const auto [cosine, sine] = point_on_circle(uniform(2 * pair + 1) * 0x1p-53);
  return {radius * cosine, radius * sine};
}

template <class T>
void fill_rows(const at::Tensor& values, uint64_t key) {
  const int64_t width = values.size(1);
  const int64_t stride = values.stride(0);
  const int64_t pairs = (width + 1) / 2;
  auto* const first = values.mutable_data_ptr<T>();
  at::parallel_for(0, values.size(0), 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      T* const out = first + row * stride;
      for (int64_t i = 0; i < pairs; ++i) {
        const auto [even, odd] = two_normals(key, static_cast<uint64_t>(row * pairs + i));
        out[2 * i] = static_cast<T>(even);
        if (2 * i + 1 < width) out[2 * i + 1] = static_cast<T>(odd);
      }
    }
  });
}

}  // namespace

void fill_with_normal(const at::Tensor& values, uint64_t key) {
  TORCH_CHECK(
      values.dim() == 2 && values.is_cpu() && (values.size(1) < 2 || values.stride(1) == 1),
      "initial values: expected [rows, width] on the CPU, columns contiguous, found ",
      values.sizes()
  );
  switch (values.scalar_type()) {
    case at::kFloat:
      return fill_rows<float>(values, key);
    case at::kDouble:
      return fill_rows<double>(values, key);
    default:
      TORCH_CHECK(
          false, "initial values: expected float32 or float64, found ", values.scalar_type()
      );
  }
}

}  // namespace gnn::embedding
