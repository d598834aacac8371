#pragma once

#include "worker/nn/sparse/csr.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace gnn::nn {

/// The in-edges of some nodes of a graph. A column of the matrix is a node, a row is one of the
/// destinations.
struct InEdges {
  Csr matrix;
  /// int64 [matrix.num_rows]: the node of each row; read if normalizes_by_degree().
  at::Tensor nodes;
  /// gcn_norm() of every node, [matrix.num_cols]; undefined unless normalizes_by_degree().
  at::Tensor norm;
};

/// A graph convolution in the three steps of PyG's class of this name, each of which can run over
/// a few nodes at a time: so a layer of a large graph is computed piece by piece, and sources and
/// destinations may lie in different matrices. update(root(x), aggregate(messages, edges)) is what
/// the layer gives the destinations of `edges`, whose inputs are x, if `messages` are message() of
/// every source's input. Differentiable unless a layer says otherwise.
/// Threads: as torch modules.
class MessagePassing {
 public:
  virtual ~MessagePassing() = default;

  [[nodiscard]] virtual int64_t out_channels() const = 0;
  /// Whether a message is a projection of its source's input, [out_channels], because that is
  /// narrower; otherwise it is the input itself, [in_channels].
  [[nodiscard]] virtual bool projects_first() const = 0;
  /// Whether a destination's own input counts apart from its messages.
  [[nodiscard]] virtual bool has_root() const { return true; }
  /// Whether aggregate() reads InEdges::norm.
  [[nodiscard]] virtual bool normalizes_by_degree() const { return false; }

  /// Shapes: x floating [K, in_channels]; result [K, message width].
  [[nodiscard]] virtual at::Tensor message(const at::Tensor& x) = 0;
  /// Reads no parameter, so that the messages may lie on the CPU while the module is on a GPU.
  /// Shapes: messages [edges.matrix.num_cols, message width] on the device of the edges; result
  /// [edges.matrix.num_rows, message width].
  [[nodiscard]] virtual at::Tensor aggregate(const at::Tensor& messages, const InEdges& edges) = 0;
  /// What the destinations' own inputs add; undefined unless has_root().
  /// Shapes: x [K, in_channels]; result [K, out_channels].
  [[nodiscard]] virtual at::Tensor root(const at::Tensor& x) = 0;
  /// Shapes: root as root() gives it; aggregated [K, message width]; result [K, out_channels].
  [[nodiscard]] virtual at::Tensor update(const at::Tensor& root, const at::Tensor& aggregated) = 0;

 protected:
  MessagePassing() = default;
  MessagePassing(const MessagePassing&) = default;
  MessagePassing& operator=(const MessagePassing&) = default;
  MessagePassing(MessagePassing&&) = default;
  MessagePassing& operator=(MessagePassing&&) = default;
};

}  // namespace gnn::nn
