#include "worker/training/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <map>
#include <utility>

namespace gnn::training {
namespace {

using torch::optim::AdamOptions;
using torch::optim::AdamParamState;

// torch's Adam with the same state, in one kernel for all parameters: torch's C++ Adam starts ten for
// each of them, more than all of the model's, and the GPU waits for the host to queue them.
class FusedAdam final : public torch::optim::Adam {
 public:
  using Adam::Adam;

  at::Tensor step(LossClosure closure = nullptr) override {
    TORCH_CHECK(closure == nullptr, "the trainer runs forward and backward itself");
    const at::NoGradGuard no_grad;
    for (torch::optim::OptimizerParamGroup& group : param_groups_) step(group);
    return {};
  }

 private:
  // What a kernel takes: the parameters that have seen as many steps.
  struct Tensors {
    std::vector<at::Tensor> parameters;
    std::vector<at::Tensor> gradients;
    std::vector<at::Tensor> averages;
    std::vector<at::Tensor> square_averages;
  };

  void step(torch::optim::OptimizerParamGroup& group) {
    std::map<int64_t, Tensors> by_steps;
    for (const at::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      AdamParamState& state = state_of(parameter);
      state.step(state.step() + 1);
      Tensors& tensors = by_steps[state.step()];
      tensors.parameters.push_back(parameter);
      tensors.gradients.push_back(parameter.grad());
      tensors.averages.push_back(state.exp_avg());
      tensors.square_averages.push_back(state.exp_avg_sq());
    }
    const auto& options = static_cast<const AdamOptions&>(group.options());
    for (const auto& [steps, tensors] : by_steps) update(tensors, steps, options);
  }

  AdamParamState& state_of(const at::Tensor& parameter) {
    std::unique_ptr<torch::optim::OptimizerParamState>& state =
        state_[parameter.unsafeGetTensorImpl()];
    if (state == nullptr) {
      auto made = std::make_unique<AdamParamState>();
      made->exp_avg(at::zeros_like(parameter));
      made->exp_avg_sq(at::zeros_like(parameter));
      state = std::move(made);
    }
    return static_cast<AdamParamState&>(*state);
  }

  static void update(const Tensors& tensors, int64_t steps, const AdamOptions& options) {
    const at::Tensor& first = tensors.parameters.front();
    const at::Tensor count =
        at::full({}, static_cast<double>(steps), first.options().dtype(at::kFloat));
    const std::vector<at::Tensor> counts(tensors.parameters.size(), count);
    at::_fused_adam_(
        tensors.parameters,
        tensors.gradients,
        tensors.averages,
        tensors.square_averages,
        {},
        counts,
        options.lr(),
        std::get<0>(options.betas()),
        std::get<1>(options.betas()),
        options.weight_decay(),
        options.eps(),
        /*amsgrad=*/false,
        /*maximize=*/false
    );
  }
};

std::unique_ptr<torch::optim::Optimizer> make_adam(
    const AdamOptions& options, const std::vector<at::Tensor>& parameters
) {
  if (parameters.front().is_cuda()) return std::make_unique<FusedAdam>(parameters, options);
  return std::make_unique<torch::optim::Adam>(parameters, options);
}

}  // namespace

std::unique_ptr<torch::optim::Optimizer> make_optimizer(
    const api::Optimizer& options, const std::vector<at::Tensor>& parameters
) {
  const double rate = options.learning_rate.value();
  const double decay = options.weight_decay.value();
  switch (options.type) {
    case api::OptimizerType::Adam:
      return make_adam(AdamOptions(rate).weight_decay(decay), parameters);
    case api::OptimizerType::SGD:
      return std::make_unique<torch::optim::SGD>(
          parameters,
          torch::optim::SGDOptions(rate).weight_decay(decay).momentum(
              options.momentum ? options.momentum->value() : 0.0
          )
      );
  }
  return nullptr;
}

}  // namespace gnn::training
