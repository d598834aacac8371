#pragma once

#include "common/result.h"
#include "worker/comm/rank_groups.h"
#include "worker/graph/csc_graph.h"
#include "worker/nn/models/model.h"
#include "worker/training/kept_layers.h"
#include "worker/training/node_chunks.h"
#include "worker/training/workload.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace gnn::training {

/// The type of a model's parameters; float32 without any.
[[nodiscard]] at::ScalarType dtype_of(const torch::nn::Module& model);

/// Whether a convolution of the model weighs edges by degrees.
[[nodiscard]] bool normalizes_by_degree(nn::NodeModel& model);

/// A graph as layer-wise inference reads it.
struct WholeGraph {
  graph::CscGraph graph;
  at::Tensor features;  ///< [num_nodes, F], CPU, any dtype of numbers; converted as it is read
  at::Tensor labels;    ///< int64 [num_nodes], CPU
};

struct LayerWiseOptions {
  ChunkLimits chunk = {};
  c10::Device device{c10::kCPU};  ///< the model's
};

/// Gets rows [K, width] (CPU), those of `nodes` (int64 [K], ascending).
using TakeRows = std::function<void(const at::Tensor& nodes, const at::Tensor& rows)>;

/// What a pass does beside giving logits.
struct LayerWiseExtras {
  /// Gets what the last layer reads of the nodes; empty: nobody does.
  TakeRows embeddings{};
  /// Where a rank keeps what it computed of a hidden layer, for a pass after one that did not end.
  KeptLayers* kept = nullptr;
};

/// Exact inference: each layer over all nodes with all their neighbours. Every rank owns a range of
/// the nodes. Chunk by chunk, with a mark after each, it computes its own nodes' outputs of a layer
/// and at once what the next layer reads of them: their messages, which the ranks exchange, and
/// their roots (see nn::MessagePassing). The last layer's nodes are dealt by themselves, so that
/// wanted nodes of one range are the work of all ranks. Sums over neighbours run on the CPU, where
/// all messages are; dense products on the model's device.
/// The ranks of a node hold one copy of such a matrix together, if they can share memory; a row of
/// another node then comes to one of them.
/// Memory beside the graph: what two successive layers read. That is a matrix of [num_nodes, input
/// width] for a layer that does not project first, and for one that does [num_nodes, output width]
/// and as much again for the roots of its own nodes. Embeddings before a layer that projects first are
/// a matrix more, of its own nodes. Beside that chunks and some 40 bytes per node.
/// Precondition: the model is in evaluation mode, gradients are off.
class LayerWiseInference {
 public:
  /// Model and graph outlive it, and what the context refers to.
  LayerWiseInference(
      nn::NodeModel& model,
      const WholeGraph& whole,
      comm::RankGroups groups,
      const EvaluationContext& context,
      const LayerWiseOptions& options
  );

  /// Computes the logits of `nodes`, ascending and the same on all ranks. Each rank gives its share
  /// of them to `take`, chunk by chunk, and of the embeddings those of its own range; over the ranks,
  /// either ascends. Returns whether it went to the end: false if the ranks agreed to stop, as soon as
  /// one of them was asked to. Collective.
  [[nodiscard]] Result<bool> run(
      const at::Tensor& nodes, const TakeRows& take, const LayerWiseExtras& extras = {}
  );

 private:
  // A matrix of which each rank writes some rows.
  struct Matrix {
    at::Tensor rows;
    bool is_shared = false;  // by the ranks of this node
  };
  // What a layer reads of its inputs x.
  struct Inputs {
    Matrix messages;    // [num_nodes, message width]
    at::Tensor x;       // [num_nodes, in_channels], any dtype; undefined if only roots are kept
    at::Tensor rooted;  // int64 [R], ascending: the nodes of roots
    Matrix roots;       // [R, out_channels], or undefined
    /// Of the last layer where messages are not its inputs: its inputs of the wanted nodes among this
    /// rank's own, if somebody takes them.
    at::Tensor embeddings{};
  };
  // Rows of a matrix that a rank sends to the others.
  struct Piece {
    int64_t rank = 0;
    NodeRange rows;
  };

  // Room for a matrix, shared if all nodes can.
  Result<Matrix> make_matrix(at::IntArrayRef sizes, at::ScalarType dtype);
  // The features as the model reads them; nothing if the ranks agreed to stop.
  Result<std::optional<Matrix>> converted_features();
  // Rows of features or of a hidden layer, as the model reads them.
  [[nodiscard]] at::Tensor to_model(const at::Tensor& rows) const;

  // These agree with the other ranks on stopping. They return false or nothing for it.
  Result<bool> none_stops();
  // Fills in the rows that other ranks have.
  Result<bool> exchange(const Matrix& matrix, const std::vector<Piece>& pieces);
  Result<at::Tensor> norm();
  Result<std::optional<Inputs>> first_inputs();
  // The next layer's inputs from those of `layer`.
  Result<std::optional<Inputs>> next_inputs(int64_t layer, const Inputs& inputs);
  // Those of a hidden layer, of which this rank has its own nodes' rows, with the other ranks' rows.
  Result<std::optional<Inputs>> exchanged(int64_t layer, Inputs inputs);

  // The deepest layer's inputs that all ranks have kept, and which layer that is; nothing if there is
  // none.
  struct Resumed {
    int64_t layer = 0;
    Inputs inputs;
  };
  Result<std::optional<Resumed>> resume();
  // What this rank computes of a hidden layer's inputs.
  [[nodiscard]] std::vector<checkpoint::CheckpointTensor> own_rows(
      int64_t layer, const Inputs& inputs
  ) const;
  void give_embeddings(const Inputs& inputs) const;

  // A piece of each rank's own nodes.
  [[nodiscard]] std::vector<Piece> own_pieces() const;
  // The places in wanted_ of which the rank that has the roots does not compute the logits.
  [[nodiscard]] std::vector<Piece> pieces_of_roots() const;
  // Room for the inputs of a hidden layer.
  Result<Inputs> make_inputs(int64_t layer);
  // Writes what a hidden layer reads of the inputs x [count, in_channels] of `nodes`.
  void keep(int64_t layer, const NodeRange& nodes, const at::Tensor& x, const Inputs& inputs);
  // The outputs of the destinations of `edges`, on the model's device.
  [[nodiscard]] at::Tensor outputs_of(
      int64_t layer, const nn::InEdges& edges, const Inputs& inputs
  );
  [[nodiscard]] at::Tensor roots_of(
      nn::MessagePassing& conv, const at::Tensor& nodes, const Inputs& inputs
  ) const;

  // Calls body(in-edges) for each chunk of the nodes, until this rank is asked to stop.
  template <class Body>
  void for_each_chunk(const at::Tensor& nodes, const Body& body) const;
  // The same with a word on how many edges were summed over.
  template <class Body>
  void for_each_sum(const at::Tensor& nodes, const Body& body);

  nn::NodeModel& model_;
  const WholeGraph& whole_;
  comm::RankGroups groups_;
  EvaluationContext context_;
  LayerWiseOptions options_;
  std::vector<NodeRange> ranges_;  // by rank
  NodeRange own_;
  at::Tensor own_nodes_;          // the ids of own_
  at::ScalarType dtype_;          // the model's
  at::Tensor norm_;               // see nn::InEdges; undefined if no layer reads it
  at::Tensor wanted_;             // the nodes of the last layer
  std::vector<NodeRange> dealt_;  // by rank: places in wanted_
  LayerWiseExtras extras_;
  progress::EvaluationProgress summed_{.unit = progress::EvaluationUnit::Edges};
};

}  // namespace gnn::training
