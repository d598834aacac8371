#include "worker/nn/functional/matmul.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <cstdint>
#include <optional>

namespace at::native {

// result = beta * result + alpha * mat1 · mat2 by oneDNN. LibTorch exports it but does not install
// its header, ATen/native/mkldnn/Matmul.h. Weak: a LibTorch without it still links and uses at::mm.
// NOLINTNEXTLINE(readability-redundant-declaration): no installed header has it
__attribute__((weak)) void mkldnn_matmul(
    const Tensor& mat1, const Tensor& mat2, const Tensor& result, float beta, float alpha
);

}  // namespace at::native

namespace gnn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Largest first; a rest below the smallest goes to at::mm. The kernel compiled for each size and
// pair of widths takes about 0.3 MB.
constexpr std::array<int64_t, 3> kPieces = {8192, 2048, 512};

bool cpu_is_faster_with_onednn() {
#if defined(__x86_64__)
  static const bool kFaster = at::native::mkldnn_matmul != nullptr && at::hasMKLDNN() &&
                              __builtin_cpu_is("intel") == 0 &&
                              __builtin_cpu_supports("avx512f") != 0;
  return kFaster;
#else
  return false;  // at::mm itself goes to oneDNN on other processors
#endif
}

// Calls piece(first row, rows, by_onednn) for pieces of fixed sizes, then for the rest.
template <class Piece>
void in_pieces(int64_t rows, const Piece& piece) {
  int64_t begin = 0;
  for (const int64_t size : kPieces) {
    for (; rows - begin >= size; begin += size) piece(begin, size, true);
  }
  if (begin < rows) piece(begin, rows - begin, false);
}

// out = a · b, or out += a · b.
void multiply(at::Tensor out, const at::Tensor& a, const at::Tensor& b, bool add, bool by_onednn) {
  if (by_onednn) {
    at::native::mkldnn_matmul(a, b, out, add ? 1.F : 0.F, 1.F);
  } else if (add) {
    out.addmm_(a, b);
  } else {
    at::mm_out(out, a, b);
  }
}

void mm_rows_onto(const at::Tensor& out, const at::Tensor& x, const at::Tensor& w, bool add) {
  in_pieces(x.size(0), [&](int64_t begin, int64_t size, bool by_onednn) {
    multiply(out.narrow(0, begin, size), x.narrow(0, begin, size), w, add, by_onednn);
  });
}

bool products_fit(const at::Tensor& x, const at::Tensor& w) {
  // at::mm reports what does not fit.
  return x.dim() == 2 && w.dim() == 2 && x.scalar_type() == w.scalar_type() && w.is_cpu() &&
         x.numel() > 0 && w.numel() > 0;
}

class Linear : public torch::autograd::Function<Linear> {
 public:
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& weight,
      const std::optional<at::Tensor>& bias
  ) {
    context->save_for_backward({x, weight});
    context->saved_data["biased"] = bias.has_value();
    if (!bias) return mm_rows(x, weight.t());
    at::Tensor out = bias_rows(*bias, x.size(0));
    addmm_rows(out, x, weight.t());
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor gradient = gradients[0].contiguous();
    variable_list result(3);
    if (context->needs_input_grad(0)) result[0] = mm_rows(gradient, saved[1]);
    if (context->needs_input_grad(1)) result[1] = mm_over_rows(gradient, saved[0]);
    if (context->saved_data["biased"].toBool() && context->needs_input_grad(2))
      result[2] = gradient.sum(0);
    return result;
  }
};

}  // namespace

bool uses_onednn(const at::Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && cpu_is_faster_with_onednn() &&
         at::globalContext().userEnabledMkldnn();
}

at::Tensor bias_rows(const at::Tensor& bias, int64_t rows) {
  // Not contiguous(), which would return the bias itself if rows is 1.
  return bias.expand({rows, bias.size(0)}).clone(at::MemoryFormat::Contiguous);
}

at::Tensor mm_rows(const at::Tensor& x, const at::Tensor& w) {
  if (!uses_onednn(x) || !products_fit(x, w) || x.size(1) != w.size(0)) return x.mm(w);
  at::Tensor out = at::empty({x.size(0), w.size(1)}, x.options());
  mm_rows_onto(out, x, w, /*add=*/false);
  return out;
}

void addmm_rows(at::Tensor& out, const at::Tensor& x, const at::Tensor& w) {
  const bool fits = products_fit(x, w) && x.size(1) == w.size(0) && out.dim() == 2 &&
                    out.size(0) == x.size(0) && out.size(1) == w.size(1) &&
                    out.scalar_type() == x.scalar_type() && out.is_contiguous();
  if (!uses_onednn(x) || !fits) {
    out.addmm_(x, w);
    return;
  }
  mm_rows_onto(out, x, w, /*add=*/true);
}

at::Tensor mm_over_rows(const at::Tensor& a, const at::Tensor& b) {
  if (!uses_onednn(a) || !products_fit(a, b) || a.size(0) != b.size(0)) return a.t().mm(b);
  at::Tensor out = at::empty({a.size(1), b.size(1)}, a.options());
  in_pieces(a.size(0), [&](int64_t begin, int64_t size, bool by_onednn) {
    const bool add = begin > 0;
    multiply(out, a.narrow(0, begin, size).t(), b.narrow(0, begin, size), add, by_onednn);
  });
  return out;
}

at::Tensor linear_rows(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!uses_onednn(x) || !products_fit(x, weight)) return at::linear(x, weight, bias);
  return Linear::apply(x, weight, bias.defined() ? std::optional(bias) : std::nullopt);
}

}  // namespace gnn::nn
