#pragma once

#include "worker/nn/functional/matmul.h"
#include "worker/sampling/subgraph.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace gnn::bench {

/// Sizes that the products of a step depend on.
struct LayerSize {
  int64_t num_sources = 0;
  int64_t num_destinations = 0;
};
using StepSizes = std::vector<LayerSize>;  ///< outermost layer first

[[nodiscard]] inline StepSizes sizes_of(const sampling::SampledSubgraph& subgraph) {
  StepSizes sizes;
  for (const auto& layer : subgraph.blocks)
    sizes.push_back({layer.front().num_sources, layer.front().num_destinations});
  return sizes;
}

/// The dense products of one training step of GraphSAGE and nothing else: forward, gradients of both
/// weights, and of the input but in the first layer.
class StepProducts {
 public:
  enum class By {
    LibTorch,  ///< at::mm, which all programs have
    Worker,    ///< the products that the worker takes
  };

  /// For operands of type `type`, float32 or bfloat16, of at most max_rows rows.
  StepProducts(std::vector<int64_t> widths, int64_t max_rows, at::ScalarType type)
      : widths_(std::move(widths)) {
    const int64_t widest = *std::max_element(widths_.begin(), widths_.end());
    for (at::Tensor* buffer : {&rows_, &other_rows_, &out_, &other_out_})
      *buffer = at::randn({max_rows * widest}).to(type);
    weight_ = at::randn({widest * widest}).to(type);
  }

  void run(const StepSizes& step, By by) const {
    for (size_t layer = 0; layer < step.size(); ++layer) {
      const auto [num_sources, num_destinations] = step[layer];
      const int64_t in = widths_[layer];
      const int64_t out = widths_[layer + 1];
      const bool projects_first = out < in;
      const int64_t neighbors = projects_first ? num_sources : num_destinations;
      const at::Tensor x = view(rows_, num_destinations, in);
      const at::Tensor n = view(other_rows_, neighbors, in);
      const at::Tensor w = view(weight_, out, in);
      const at::Tensor y = view(out_, num_destinations, out);
      const at::Tensor z = view(other_out_, neighbors, out);
      if (by == By::LibTorch) {
        for (const auto& [rows, result] : {std::pair(x, y), std::pair(n, z)}) {
          at::Tensor into = result;
          at::mm_out(into, rows, w.t());
          static_cast<void>(result.t().mm(rows));
          if (layer > 0) static_cast<void>(result.mm(w));
        }
        continue;
      }
      forward({.x = x, .w = w.t()}, {.x = n, .w = w.t()}, projects_first);
      if (projects_first) {
        static_cast<void>(nn::linear_gradients(y, std::array<at::Tensor, 1>{x}));
        static_cast<void>(nn::mm_over_rows(z, n));
      } else {
        static_cast<void>(nn::linear_gradients(y, std::array<at::Tensor, 2>{x, n}));
      }
      if (layer == 0) continue;
      static_cast<void>(nn::mm_rows(y, w));
      static_cast<void>(nn::mm_rows(z, w));
    }
  }

 private:
  static at::Tensor view(const at::Tensor& buffer, int64_t rows, int64_t columns) {
    return buffer.narrow(0, 0, rows * columns).view({rows, columns});
  }

  // A layer that projects first adds up its two products elsewhere.
  static void forward(const nn::Product& own, const nn::Product& neighbors, bool projects_first) {
    const at::Tensor bias = at::zeros({own.w.size(1)});
    if (!projects_first) {
      static_cast<void>(nn::sum_of_products(bias, std::array<nn::Product, 2>{own, neighbors}));
      return;
    }
    static_cast<void>(nn::sum_of_products(bias, std::array<nn::Product, 1>{own}));
    static_cast<void>(nn::mm_rows(neighbors.x, neighbors.w));
  }

  std::vector<int64_t> widths_;
  at::Tensor rows_, other_rows_, out_, other_out_, weight_;
};

}  // namespace gnn::bench
