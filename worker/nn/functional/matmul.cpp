#include "worker/nn/functional/matmul.h"

#include "worker/nn/cpu/bfloat16_products.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

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

bool is_mixed(const at::Tensor& x) {
  return x.scalar_type() == at::kBFloat16;
}

bool has_kernels(const at::Tensor& x) {
  return x.is_cpu() && cpu::has_bfloat16_products();
}

// The products of bfloat16 operands in float32 where no kernel of ours runs. Float32 products of such
// operands are exact.
at::Tensor mm_to_float(const at::Tensor& x, const at::Tensor& w) {
  return x.is_cpu() ? mm_rows(x.to(at::kFloat), w.to(at::kFloat)) : at::mm(x, w, at::kFloat);
}

void check_mixed(const at::Tensor& bias, std::span<const Product> products) {
  for (const Product& product : products) {
    TORCH_CHECK(
        product.x.dim() == 2 && product.w.dim() == 2 && product.x.size(1) == product.w.size(0) &&
            product.x.size(0) == products[0].x.size(0) &&
            product.w.size(1) == products[0].w.size(1) && is_mixed(product.x) &&
            is_mixed(product.w) && product.x.device() == product.w.device(),
        "products: expected bfloat16 [N, K] and [K, M] on one device, found ",
        product.x.toString(),
        " ",
        product.x.sizes(),
        " and ",
        product.w.toString(),
        " ",
        product.w.sizes()
    );
  }
  TORCH_CHECK(
      !bias.defined() || (bias.dim() == 1 && bias.size(0) == products[0].w.size(1) &&
                          bias.scalar_type() == at::kFloat),
      "products: bias: expected float32 [",
      products[0].w.size(1),
      "]"
  );
}

at::Tensor mixed_sum(
    const at::Tensor& bias, std::span<const Product> products, at::ScalarType result
) {
  check_mixed(bias, products);
  const at::Tensor& x = products[0].x;
  const int64_t columns = products[0].w.size(1);
  if (has_kernels(x) && x.numel() > 0 && columns > 0) {
    at::Tensor out = at::empty({x.size(0), columns}, x.options().dtype(result));
    std::vector<cpu::Bfloat16Product> own;
    for (const Product& product : products)
      own.push_back({.x = product.x.contiguous(), .w = product.w});
    cpu::sum_of_products(own, bias.defined() ? bias.contiguous() : bias, out);
    return out;
  }
  at::Tensor sum = mm_to_float(x, products[0].w);
  for (const Product& product : products.subspan(1)) sum += mm_to_float(product.x, product.w);
  if (bias.defined()) sum += bias;
  return sum.to(result);
}

LinearGradients mixed_gradients(const at::Tensor& gradient, std::span<const at::Tensor> inputs) {
  const at::Tensor rounded = gradient.to(at::kBFloat16).contiguous();
  if (has_kernels(rounded) && rounded.numel() > 0) {
    std::vector<at::Tensor> dense;
    for (const at::Tensor& x : inputs) {
      TORCH_CHECK(
          x.dim() == 2 && x.size(0) == rounded.size(0) && is_mixed(x),
          "products: expected bfloat16 with ",
          rounded.size(0),
          " rows, found ",
          x.toString(),
          " ",
          x.sizes()
      );
      dense.push_back(x.contiguous());
    }
    cpu::SumsOverRows sums = cpu::sums_over_rows(rounded, dense);
    return {.weights = std::move(sums.products), .bias = std::move(sums.rows)};
  }
  LinearGradients result{.weights = {}, .bias = rounded.sum(0, /*keepdim=*/false, at::kFloat)};
  for (const at::Tensor& x : inputs) {
    result.weights.push_back(
        x.is_cpu() ? mm_over_rows(rounded.to(at::kFloat), x.to(at::kFloat))
                   : at::mm(rounded.t(), x, at::kFloat)
    );
  }
  return result;
}

class Linear : public torch::autograd::Function<Linear> {
 public:
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& weight,
      const std::optional<at::Tensor>& bias,
      std::optional<at::ScalarType> result
  ) {
    const at::Tensor operand = operand_like(x, weight);
    context->save_for_backward({x, operand});
    context->saved_data["biased"] = bias.has_value();
    const std::array<Product, 1> products{{{.x = x, .w = operand.t()}}};
    return sum_of_products(bias.value_or(at::Tensor()), products, result);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor gradient = gradients[0].to(saved[0].scalar_type()).contiguous();
    variable_list result(4);
    if (context->needs_input_grad(0)) result[0] = mm_rows(gradient, saved[1]);
    if (!context->saved_data["biased"].toBool()) {
      if (context->needs_input_grad(1)) result[1] = mm_over_rows(gradient, saved[0]);
      return result;
    }
    if (!context->needs_input_grad(1) && !context->needs_input_grad(2)) return result;
    LinearGradients own = linear_gradients(gradient, std::span(&saved[0], 1));
    result[1] = own.weights[0];
    result[2] = own.bias;
    return result;
  }
};

}  // namespace

void set_tf32_products(bool on) {
  // Not setFloat32Precision(): beside the older switch, which LibTorch's products read as well, it
  // would make each of them throw.
  at::globalContext().setAllowTF32CuBLAS(on);
}

bool has_bfloat16_products() {
  return cpu::has_bfloat16_products();
}

bool uses_onednn(const at::Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && cpu_is_faster_with_onednn() &&
         at::globalContext().userEnabledMkldnn();
}

at::Tensor bias_rows(const at::Tensor& bias, int64_t rows) {
  // Not contiguous(), which would return the bias itself if rows is 1.
  return bias.expand({rows, bias.size(0)}).clone(at::MemoryFormat::Contiguous);
}

at::Tensor mm_rows(const at::Tensor& x, const at::Tensor& w) {
  if (is_mixed(x)) return mixed_sum({}, std::array<Product, 1>{{{.x = x, .w = w}}}, at::kBFloat16);
  if (!uses_onednn(x) || !products_fit(x, w) || x.size(1) != w.size(0)) return x.mm(w);
  at::Tensor out = at::empty({x.size(0), w.size(1)}, x.options());
  mm_rows_onto(out, x, w, /*add=*/false);
  return out;
}

void addmm_rows(at::Tensor& out, const at::Tensor& x, const at::Tensor& w) {
  if (is_mixed(x)) {
    out += mixed_sum({}, std::array<Product, 1>{{{.x = x, .w = w}}}, at::kFloat);
    return;
  }
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
  if (is_mixed(b)) return mixed_gradients(a, std::span(&b, 1)).weights[0];
  if (!uses_onednn(a) || !products_fit(a, b) || a.size(0) != b.size(0)) return a.t().mm(b);
  at::Tensor out = at::empty({a.size(1), b.size(1)}, a.options());
  in_pieces(a.size(0), [&](int64_t begin, int64_t size, bool by_onednn) {
    const bool add = begin > 0;
    multiply(out, a.narrow(0, begin, size).t(), b.narrow(0, begin, size), add, by_onednn);
  });
  return out;
}

at::Tensor sum_of_products(
    const at::Tensor& bias, std::span<const Product> products, std::optional<at::ScalarType> result
) {
  const at::Tensor& first = products[0].x;
  if (is_mixed(first)) return mixed_sum(bias, products, result.value_or(at::kBFloat16));
  if (!bias.defined() && products.size() == 1) return mm_rows(first, products[0].w);
  at::Tensor out = bias.defined()
                       ? bias_rows(bias, first.size(0))
                       : at::zeros({first.size(0), products[0].w.size(1)}, first.options());
  for (const Product& product : products) addmm_rows(out, product.x, product.w);
  return out;
}

LinearGradients linear_gradients(const at::Tensor& gradient, std::span<const at::Tensor> inputs) {
  if (!inputs.empty() && is_mixed(inputs[0])) return mixed_gradients(gradient, inputs);
  LinearGradients result;
  for (const at::Tensor& x : inputs) result.weights.push_back(mm_over_rows(gradient, x));
  result.bias = gradient.sum(0);
  return result;
}

at::Tensor linear_rows(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    std::optional<at::ScalarType> result
) {
  if (!is_mixed(x) && (!uses_onednn(x) || !products_fit(x, weight)))
    return at::linear(x, weight, bias);
  return Linear::apply(x, weight, bias.defined() ? std::optional(bias) : std::nullopt, result);
}

at::Tensor linear_mixed(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return linear_rows(x.to(at::kBFloat16), weight, bias, at::kFloat);
}

at::Tensor operand_like(const at::Tensor& x, const at::Tensor& weight) {
  return is_mixed(x) ? weight.to(at::kBFloat16) : weight;
}

at::ScalarType score_type(at::ScalarType operands) {
  return operands == at::kBFloat16 ? at::kFloat : operands;
}

}  // namespace gnn::nn
