#include "worker/nn/functional/relu_dropout.h"

#include "worker/nn/cpu/relu_dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/relu.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mutex>

namespace gnn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

uint64_t draw_key() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

class ReluDropout : public torch::autograd::Function<ReluDropout> {
 public:
  static at::Tensor forward(AutogradContext* context, at::Tensor x, double p) {
    cpu::relu_dropout(x, p, draw_key());
    context->mark_dirty({x});
    context->save_for_backward({x});
    context->saved_data["scale"] = 1 / (1 - p);
    return x;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor output = context->get_saved_variables()[0];
    return {
        cpu::relu_dropout_backward(
            output, gradients[0].contiguous(), context->saved_data["scale"].toDouble()
        ),
        {}
    };
  }
};

}  // namespace

at::Tensor relu_dropout(at::Tensor x, double p, bool training) {
  TORCH_CHECK(0 <= p && p < 1, "relu_dropout: p: expected in [0, 1), found ", p);
  if (!training || p == 0) return at::relu_(x);
  if (!x.is_cpu()) return at::dropout(at::relu_(x), p, /*train=*/true);
  TORCH_CHECK(x.is_contiguous(), "relu_dropout: expected a contiguous tensor");
  return ReluDropout::apply(std::move(x), p);
}

}  // namespace gnn::nn
