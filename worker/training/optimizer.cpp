#include "worker/training/optimizer.h"

#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

namespace gnn::training {

std::unique_ptr<torch::optim::Optimizer> make_optimizer(
    const api::Optimizer& options, const std::vector<at::Tensor>& parameters
) {
  const double rate = options.learning_rate.value();
  const double decay = options.weight_decay.value();
  switch (options.type) {
    case api::OptimizerType::Adam:
      return std::make_unique<torch::optim::Adam>(
          parameters, torch::optim::AdamOptions(rate).weight_decay(decay)
      );
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
