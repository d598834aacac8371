#pragma once

#include "worker/graph/block.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <vector>

namespace gnn::nn {

/// A floating matrix per node type of the data set, a row per sampled node in the order of its
/// global ids; undefined for a type that the model does not read.
using TypedInputs = std::vector<at::Tensor>;

/// [layer, outermost first][edge type of the data set]. A relation that the model does not read may
/// be an empty block.
using TypedBlocks = std::vector<std::vector<graph::Block>>;

/// Pairs of nodes to score. A row is a place among the last block's destinations of its node type.
struct LinkRows {
  int64_t source_type = 0;  ///< node types of the data set
  int64_t destination_type = 0;
  at::Tensor source_rows;       ///< int64 [P]
  at::Tensor destination_rows;  ///< int64 [P]
};

/// A network with a score per pair of nodes: the higher, the likelier that an edge joins them. It
/// registers only parameters that reach the loss.
class LinkModel : public torch::nn::Module {
 public:
  /// Inputs of bfloat16: as NodeModel::forward().
  /// Result: floating [P], the logits of "is an edge".
  /// Errors: c10::Error if blocks, inputs and pairs do not fit each other or the model.
  virtual at::Tensor forward(
      const TypedInputs& x, const TypedBlocks& blocks, const LinkRows& links
  ) = 0;

  /// How many blocks a relation has: the hops that must be sampled.
  [[nodiscard]] virtual int64_t num_layers() const = 0;
  /// The edge types that forward() reads, ascending: no other needs to be sampled.
  [[nodiscard]] virtual std::vector<int64_t> reads() const = 0;
};

}  // namespace gnn::nn
