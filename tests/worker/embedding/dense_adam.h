#pragma once

#include "worker/embedding/adam_rows.h"

#include <ATen/ATen.h>
#include <torch/optim/adam.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace gnn::embedding {

/// Gradients of some rows in one step.
struct Touch {
  at::Tensor ids;
  at::Tensor gradients;
  double learning_rate = 0.01;
};

/// torch::optim::Adam on a whole table.
class DenseAdam {
 public:
  explicit DenseAdam(const at::Tensor& values, const AdamOptions& options = {})
      : values_(values.clone().requires_grad_(true)),
        adam_(
            {values_},
            torch::optim::AdamOptions(0.01)
                .betas({options.beta1, options.beta2})
                .eps(options.epsilon)
        ) {}

  void step(const Touch& touch) {
    at::Tensor gradient = at::zeros(values_.sizes(), values_.options().requires_grad(false));
    gradient.index_copy_(0, touch.ids, touch.gradients.to(values_.scalar_type()));
    values_.mutable_grad() = gradient;
    adam_.param_groups()[0].options().set_lr(touch.learning_rate);
    adam_.step();
  }
  [[nodiscard]] at::Tensor values() const { return values_.detach(); }

 private:
  at::Tensor values_;
  torch::optim::Adam adam_;
};

/// The same by update_all_rows().
class LazilyDenseAdam {
 public:
  explicit LazilyDenseAdam(const at::Tensor& values, const AdamOptions& options = {})
      : idle_(options) {
    const int64_t rows = values.size(0);
    table_.state = at::zeros({rows, 3, values.size(1)}, values.options());
    table_.state.select(1, 0).copy_(values);
    table_.last_steps = at::zeros({rows}, at::kInt);
  }

  std::optional<int64_t> step(const Touch& touch) {
    const auto bad = update_all_rows(
        table_,
        {.ids = touch.ids, .gradients = touch.gradients.to(table_.state.scalar_type())},
        idle_,
        touch.learning_rate
    );
    idle_.advance(touch.learning_rate);
    return bad;
  }
  [[nodiscard]] at::Tensor values() const {
    return read_range(table_, 0, table_.state.size(0), &idle_);
  }
  [[nodiscard]] const TableRows& table() const { return table_; }
  [[nodiscard]] const IdleSteps& idle() const { return idle_; }

 private:
  TableRows table_;
  IdleSteps idle_;
};

}  // namespace gnn::embedding
