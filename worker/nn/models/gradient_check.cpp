#include "worker/nn/models/gradient_check.h"

#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <vector>

namespace gnn::nn {

Status check_gradients(const torch::nn::Module& module, const at::Tensor& loss) {
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters;
  for (const auto& parameter : module.named_parameters()) {
    if (!parameter.value().requires_grad()) continue;
    names.push_back(parameter.key());
    parameters.push_back(parameter.value());
  }
  if (parameters.empty()) return {};
  std::vector<at::Tensor> gradients(parameters.size());
  if (loss.requires_grad()) {
    gradients = torch::autograd::grad(
        {loss},
        parameters,
        /*grad_outputs=*/{},
        /*retain_graph=*/std::nullopt,
        /*create_graph=*/false,
        /*allow_unused=*/true
    );
  }
  std::string without;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) without += (without.empty() ? "" : ", ") + names[i];
  }
  if (without.empty()) return {};
  return fail(
      ErrorKind::Configuration,
      "model: expected that the loss depends on each parameter, found none of its gradients for " +
          without + ": take these out of the model, or use them"
  );
}

}  // namespace gnn::nn
