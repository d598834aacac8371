#pragma once

#include "common/result.h"
#include "worker/comm/rank_groups.h"
#include "worker/graph/csc_graph.h"
#include "worker/loader/feature_fetcher.h"
#include "worker/nn/models/model.h"
#include "worker/shards/part.h"
#include "worker/shards/peer.h"
#include "worker/shards/service.h"
#include "worker/training/evaluator.h"
#include "worker/training/layer_wise.h"
#include "worker/training/node_chunks.h"
#include "worker/training/workload.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace gnn::training {

/// One node's part of a homogeneous graph, and how it reads the rest.
struct PartOfGraph {
  std::shared_ptr<const shards::Part> part;
  std::shared_ptr<loader::FeatureFetcher> features;  ///< of any node
  shards::Peers peers;                               ///< by part
  /// This node's, on the rank that serves it; null on its other ranks.
  std::shared_ptr<shards::Service> service;
};

struct PartInferenceOptions {
  /// The most nodes of a chunk, and the most bytes that the rows of its sources take. A node whose own
  /// in-neighbours take more is a chunk of its own.
  int64_t chunk_nodes = 8192;
  int64_t chunk_bytes = int64_t{256} << 20;
  c10::Device device{c10::kCPU};  ///< the model's
};

/// Exact inference as LayerWiseInference, where no node has all rows of a layer: each keeps those of
/// its part's nodes, and asks the others for the rows of a chunk's sources, chunk by chunk. The ranks
/// of a node share its part's nodes; nodes with the same part each compute all of its hidden rows, and
/// share the last layer. Between layers all ranks meet.
/// Memory beside the graph: the rows that two successive layers keep of the part's nodes, shared by the
/// ranks of a node, a chunk, and 4 bytes per node of the graph. Embeddings before a layer that projects
/// first are a matrix more, of this rank's nodes.
/// Precondition: the model is in evaluation mode, gradients are off.
class PartInference {
 public:
  /// Gets the logits [K, classes] (CPU) of nodes, int64 [K]: places in the part's range, ascending.
  using TakeLogits = std::function<void(const at::Tensor& places, const at::Tensor& logits)>;

  /// Model and graph outlive it, and what the context refers to.
  PartInference(
      nn::NodeModel& model,
      const PartOfGraph& graph,
      comm::RankGroups groups,
      const EvaluationContext& context,
      const PartInferenceOptions& options
  );
  ~PartInference();
  PartInference(const PartInference&) = delete;
  PartInference& operator=(const PartInference&) = delete;

  /// Computes the logits of the part's nodes at `places` (int64 [K], ascending, the same on all ranks
  /// with this part). Each rank gives its share of them to `take`. Embeddings come from the first node
  /// with the part alone, by places, too. Returns whether it went to the end: false if the ranks agreed to
  /// stop. Collective.
  /// Errors: PeerLost; Configuration if the ranks of a node can share no memory.
  [[nodiscard]] Result<bool> run(
      const at::Tensor& places, const TakeLogits& take, const LayerWiseExtras& extras = {}
  );

 private:
  // What a layer reads of the part's own nodes.
  struct Inputs {
    at::Tensor messages;  // [own, message width]; undefined: the features
    at::Tensor roots;     // [own, out_channels]; undefined: the roots of `messages`
    // Of the last layer where messages are not its inputs: its inputs of embedded_, if somebody takes them.
    at::Tensor embeddings;
    std::shared_ptr<loader::FeatureFetcher> rows;  // messages of any node
  };

  [[nodiscard]] Result<bool> none_stops();
  // Zeros that all ranks of this node write to and its service reads.
  [[nodiscard]] Result<at::Tensor> make_matrix(at::IntArrayRef sizes, at::ScalarType dtype);
  // Makes `rows` of the part's nodes readable for all, by a number; returns who fetches any node's.
  [[nodiscard]] Result<std::shared_ptr<loader::FeatureFetcher>> share(
      uint32_t number, const at::Tensor& rows
  );
  void withdraw(uint32_t number);

  [[nodiscard]] Result<bool> make_norm();
  [[nodiscard]] Result<Inputs> make_inputs(int64_t layer);
  [[nodiscard]] Result<bool> first_inputs(Inputs& inputs);
  [[nodiscard]] Result<bool> next_inputs(int64_t layer, const Inputs& inputs, Inputs& outputs);
  // The inputs of the deepest layer that all ranks have kept, and which that is; 0 if there is none.
  [[nodiscard]] Result<int64_t> resume(Inputs& inputs);
  // What this rank computes of a hidden layer's inputs.
  [[nodiscard]] std::vector<checkpoint::CheckpointTensor> own_rows(const Inputs& inputs) const;
  [[nodiscard]] Status give_embeddings(const Inputs& inputs);
  // The features of the part's nodes at these places.
  [[nodiscard]] Result<at::Tensor> features_of(const at::Tensor& places);
  // Writes what a layer reads of the inputs x of consecutive nodes.
  void keep(int64_t layer, const NodeRange& places, const at::Tensor& x, const Inputs& inputs);
  // The outputs of the destinations of `edges`, whose columns are nodes of the graph.
  [[nodiscard]] Result<at::Tensor> outputs_of(
      int64_t layer, const nn::InEdges& edges, const Inputs& inputs
  );
  [[nodiscard]] Result<at::Tensor> roots_of(
      int64_t layer, const at::Tensor& places, const Inputs& inputs
  );
  // The same edges with the columns [0, sources), and which node each is.
  struct Compact {
    nn::InEdges edges;
    at::Tensor ids;  // int64 [sources]
  };
  [[nodiscard]] Compact compact(const nn::InEdges& edges, bool with_destinations);
  [[nodiscard]] at::Tensor to_model(const at::Tensor& rows) const;
  [[nodiscard]] int64_t chunk_edges(int64_t layer) const;
  // Calls body(in-edges) for each chunk of ascending places, until this rank is asked to stop.
  template <class Body>
  [[nodiscard]] Status for_each_chunk(const at::Tensor& places, int64_t edges, const Body& body);

  nn::NodeModel& model_;
  const PartOfGraph& graph_;
  comm::RankGroups groups_;
  EvaluationContext context_;
  PartInferenceOptions options_;
  data::IdRange own_;
  graph::CscGraph lists_;  // of the part's nodes alone
  at::Tensor mine_;        // the places that this rank computes hidden rows of
  at::Tensor embedded_;    // int64 [K], ascending: those of mine_ whose embeddings it gives
  at::ScalarType dtype_;   // the model's
  std::shared_ptr<loader::FeatureFetcher> norm_;  // see nn::InEdges; null if no layer reads it
  std::vector<uint32_t> published_;
  std::vector<int32_t> column_of_;  // by node of the graph, -1 between chunks
  LayerWiseExtras extras_;
  progress::EvaluationProgress summed_{.unit = progress::EvaluationUnit::Edges};
};

/// Accuracy, exact, on each of `parts`, all from one pass (PartInference); nothing if the ranks agreed
/// to stop. Collective.
/// Shapes: each part int64 [K], ids of nodes; at least one part, or others that are wanted: `also.nodes` are
/// ids of the part's own.
/// Errors: as PartInference::run().
[[nodiscard]] Result<EvaluatedParts> evaluate_part_layer_wise(
    nn::NodeModel& model,
    const PartOfGraph& graph,
    const std::vector<at::Tensor>& parts,
    const comm::RankGroups& groups,
    const EvaluationContext& context,
    const PartInferenceOptions& options,
    const AlsoWanted& also = {}
);

}  // namespace gnn::training
