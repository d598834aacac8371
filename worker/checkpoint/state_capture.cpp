#include "worker/checkpoint/state_capture.h"

#include "worker/checkpoint/finite.h"

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <map>
#include <sstream>
#include <string>
#include <utility>

namespace gnn::checkpoint {
namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerParamState;

at::Tensor copy(const at::Tensor& tensor) {
  return tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
}

tl::unexpected<Error> mismatch(const std::string& what) {
  return fail(ErrorKind::Configuration, "the checkpoint does not fit this job: " + what);
}

std::string describe(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << ' ' << tensor.sizes();
  return text.str();
}

Status check_like(const std::string& name, const at::Tensor& expected, const at::Tensor& found) {
  if (expected.sizes() == found.sizes() && expected.scalar_type() == found.scalar_type()) return {};
  return mismatch(name + ": expected " + describe(expected) + ", found " + describe(found));
}

using ByName = std::map<std::string, at::Tensor>;

ByName by_name(const std::vector<CheckpointTensor>& tensors) {
  ByName result;
  for (const CheckpointTensor& entry : tensors) result.emplace(entry.name, entry.tensor);
  return result;
}

std::vector<CheckpointTensor> state_of(const torch::nn::Module& module) {
  std::vector<CheckpointTensor> result;
  for (const auto& entry : module.named_parameters()) {
    result.push_back({.name = entry.key(), .tensor = entry.value()});
  }
  for (const auto& entry : module.named_buffers()) {
    result.push_back({.name = entry.key(), .tensor = entry.value()});
  }
  return result;
}

// A parameter's state as tensors, by field; make_adam() and make_sgd() are the way back.
std::vector<CheckpointTensor> fields_of(const torch::optim::AdamParamState& state) {
  std::vector<CheckpointTensor> fields = {
      {.name = "step", .tensor = torch::tensor(state.step(), torch::kInt64)},
      {.name = "exp_avg", .tensor = state.exp_avg()},
      {.name = "exp_avg_sq", .tensor = state.exp_avg_sq()},
  };
  if (state.max_exp_avg_sq().defined()) {
    fields.push_back({.name = "max_exp_avg_sq", .tensor = state.max_exp_avg_sq()});
  }
  return fields;
}
std::vector<CheckpointTensor> fields_of(const torch::optim::AdamWParamState& state) {
  std::vector<CheckpointTensor> fields = {
      {.name = "step", .tensor = torch::tensor(state.step(), torch::kInt64)},
      {.name = "exp_avg", .tensor = state.exp_avg()},
      {.name = "exp_avg_sq", .tensor = state.exp_avg_sq()},
  };
  if (state.max_exp_avg_sq().defined()) {
    fields.push_back({.name = "max_exp_avg_sq", .tensor = state.max_exp_avg_sq()});
  }
  return fields;
}
std::vector<CheckpointTensor> fields_of(const torch::optim::SGDParamState& state) {
  return {{.name = "momentum_buffer", .tensor = state.momentum_buffer()}};
}

template <class AdamState>
std::unique_ptr<OptimizerParamState> make_adam(ByName& fields, const at::Tensor& parameter) {
  auto state = std::make_unique<AdamState>();
  state->step(fields.at("step").template item<int64_t>());
  state->exp_avg(fields.at("exp_avg").to(parameter.device()).clone());
  state->exp_avg_sq(fields.at("exp_avg_sq").to(parameter.device()).clone());
  if (fields.contains("max_exp_avg_sq")) {
    state->max_exp_avg_sq(fields.at("max_exp_avg_sq").to(parameter.device()).clone());
  }
  return state;
}

std::unique_ptr<OptimizerParamState> make_sgd(ByName& fields, const at::Tensor& parameter) {
  auto state = std::make_unique<torch::optim::SGDParamState>();
  state->momentum_buffer(fields.at("momentum_buffer").to(parameter.device()).clone());
  return state;
}

// One kind of optimizer: how to tell it, and its state as tensors and back.
struct Kind {
  bool (*is)(const Optimizer&);
  std::vector<CheckpointTensor> (*fields)(const OptimizerParamState&);
  std::unique_ptr<OptimizerParamState> (*make)(ByName&, const at::Tensor&);
  std::vector<std::string> required;
};

template <class Optim, class State>
Kind kind(
    std::unique_ptr<OptimizerParamState> (*make)(ByName&, const at::Tensor&),
    const std::vector<std::string>& required
) {
  return Kind{
      .is = [](const Optimizer& optimizer
            ) { return dynamic_cast<const Optim*>(&optimizer) != nullptr; },
      .fields = [](const OptimizerParamState& state
                ) { return fields_of(static_cast<const State&>(state)); },
      .make = make,
      .required = required,
  };
}

const Kind* kind_of(const Optimizer& optimizer) {
  namespace optim = torch::optim;
  using optim::AdamParamState;
  using optim::AdamWParamState;
  const std::vector<std::string> adam_fields = {"step", "exp_avg", "exp_avg_sq"};
  static const std::vector<Kind> kKinds = {
      kind<optim::Adam, AdamParamState>(&make_adam<AdamParamState>, adam_fields),
      kind<optim::AdamW, AdamWParamState>(&make_adam<AdamWParamState>, adam_fields),
      kind<optim::SGD, optim::SGDParamState>(&make_sgd, {"momentum_buffer"}),
  };
  for (const Kind& candidate : kKinds) {
    if (candidate.is(optimizer)) return &candidate;
  }
  return nullptr;
}

std::vector<at::Tensor> parameters_of(const Optimizer& optimizer) {
  std::vector<at::Tensor> parameters;
  for (const auto& group : optimizer.param_groups()) {
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  }
  return parameters;
}

tl::unexpected<Error> unknown_optimizer() {
  return fail(ErrorKind::Internal, "checkpoint: expected Adam, AdamW or SGD");
}

std::string stored_name(size_t index, const std::string& field) {
  return std::to_string(index) + "/" + field;
}

// What messages call a parameter's state: its index in the optimizer tells nobody which it is.
class ParameterNames {
 public:
  explicit ParameterNames(const torch::nn::Module& module) {
    for (const auto& entry : module.named_parameters())
      names_.emplace(entry.value().unsafeGetTensorImpl(), entry.key());
  }

  // "exp_avg of conv.weight"
  [[nodiscard]] std::string text_of(const at::Tensor& parameter, const std::string& field) const {
    const auto name = names_.find(parameter.unsafeGetTensorImpl());
    return field + " of " + (name == names_.end() ? "a parameter of no module" : name->second);
  }

 private:
  std::map<const c10::TensorImpl*, std::string> names_;
};

// The optimizer's own tensors, not copies, under the names that `name(index, field)` gives them.
template <class Name>
Result<std::vector<CheckpointTensor>> state_of(const Optimizer& optimizer, const Name& name) {
  const Kind* kind = kind_of(optimizer);
  if (kind == nullptr) return unknown_optimizer();
  std::vector<CheckpointTensor> result;
  const std::vector<at::Tensor> parameters = parameters_of(optimizer);
  for (size_t index = 0; index < parameters.size(); ++index) {
    const auto state = optimizer.state().find(parameters[index].unsafeGetTensorImpl());
    if (state == optimizer.state().end()) continue;
    for (const CheckpointTensor& field : kind->fields(*state->second)) {
      if (!field.tensor.defined()) continue;  // SGD without momentum keeps none
      result.push_back({.name = name(index, field.name), .tensor = field.tensor});
    }
  }
  return result;
}

}  // namespace

std::vector<CheckpointTensor> capture_module(const torch::nn::Module& module) {
  std::vector<CheckpointTensor> state = state_of(module);
  for (CheckpointTensor& entry : state) entry.tensor = copy(entry.tensor);
  return state;
}

Status restore_module(torch::nn::Module& module, const std::vector<CheckpointTensor>& tensors) {
  const ByName saved = by_name(tensors);
  const std::vector<CheckpointTensor> own = state_of(module);
  for (const CheckpointTensor& entry : own) {
    const auto found = saved.find(entry.name);
    if (found == saved.end()) return mismatch(entry.name + " is missing");
    GNN_RETURN_IF_ERROR(check_like(entry.name, entry.tensor, found->second));
  }
  const ByName names = by_name(own);
  for (const auto& [name, tensor] : saved) {
    if (!names.contains(name)) return mismatch("the model has no " + name);
  }
  const torch::NoGradGuard no_grad;
  for (const CheckpointTensor& entry : own) entry.tensor.copy_(saved.at(entry.name));
  return {};
}

Result<std::vector<CheckpointTensor>> capture_optimizer(const Optimizer& optimizer) {
  GNN_ASSIGN_OR_RETURN(std::vector<CheckpointTensor> state, state_of(optimizer, stored_name));
  for (CheckpointTensor& entry : state) entry.tensor = copy(entry.tensor);
  return state;
}

Result<std::optional<std::string>> find_not_finite(
    const torch::nn::Module& module, const Optimizer& optimizer
) {
  const ParameterNames names(module);
  const std::vector<at::Tensor> parameters = parameters_of(optimizer);
  GNN_ASSIGN_OR_RETURN(
      const std::vector<CheckpointTensor> of_optimizer,
      state_of(
          optimizer,
          [&](size_t index, const std::string& field) {
            return names.text_of(parameters[index], field);
          }
      )
  );
  std::optional<std::string> found = first_not_finite(state_of(module));
  return found ? found : first_not_finite(of_optimizer);
}

int64_t optimizer_bytes(const Optimizer& optimizer) {
  const auto state = state_of(optimizer, stored_name);
  if (!state) return 0;
  int64_t bytes = 0;
  for (const CheckpointTensor& entry : *state) bytes += static_cast<int64_t>(entry.tensor.nbytes());
  return bytes;
}

Status restore_optimizer(
    const torch::nn::Module& module,
    Optimizer& optimizer,
    const std::vector<CheckpointTensor>& tensors
) {
  const Kind* kind = kind_of(optimizer);
  if (kind == nullptr) return unknown_optimizer();
  const ParameterNames names(module);
  ByName saved = by_name(tensors);
  const std::vector<at::Tensor> parameters = parameters_of(optimizer);
  std::vector<std::pair<size_t, std::unique_ptr<OptimizerParamState>>> states;
  for (size_t index = 0; index < parameters.size(); ++index) {
    const std::string prefix = std::to_string(index) + "/";
    ByName fields;
    for (auto entry = saved.lower_bound(prefix);
         entry != saved.end() && entry->first.starts_with(prefix);
         entry = saved.erase(entry)) {
      const std::string field = entry->first.substr(prefix.size());
      const std::string text = names.text_of(parameters[index], field);
      if (field != "step") {
        GNN_RETURN_IF_ERROR(check_like(text, parameters[index], entry->second));
      } else if (entry->second.numel() != 1 || entry->second.scalar_type() != at::kLong) {
        return mismatch(text + ": expected one int64, found " + describe(entry->second));
      }
      fields.emplace(field, entry->second);
    }
    if (fields.empty()) continue;
    for (const std::string& name : kind->required) {
      if (!fields.contains(name))
        return mismatch(names.text_of(parameters[index], name) + " is missing");
    }
    states.emplace_back(index, kind->make(fields, parameters[index]));
  }
  if (!saved.empty()) return mismatch("the optimizer has no parameter for " + saved.begin()->first);
  optimizer.state().clear();
  for (auto& [index, state] : states) {
    optimizer.state()[parameters[index].unsafeGetTensorImpl()] = std::move(state);
  }
  return {};
}

}  // namespace gnn::checkpoint
