#include "worker/training/evaluator.h"

#include "worker/loader/feature_fetcher.h"
#include "worker/loader/node_loader.h"
#include "worker/nn/functional/csr.h"
#include "worker/sampling/core/item_sampler.h"

#include <ATen/ATen.h>

#include <memory>
#include <utility>
#include <vector>

namespace gnn::training {
namespace {

// Adds the counts of all ranks, and agrees on stopping: nothing if any rank was asked to stop.
// Collective.
Result<Evaluated> reduce_counts(
    comm::Communicator& communicator, const progress::Accuracy& mine, const StopToken& stop
) {
  GNN_ASSIGN_OR_RETURN(
      const std::vector<double> sums,
      comm::all_reduce_sums(
          communicator,
          {static_cast<double>(mine.correct),
           static_cast<double>(mine.total),
           stop.requested() ? 1.0 : 0.0}
      )
  );
  if (sums[2] > 0) return Evaluated();
  return progress::Accuracy{
      .correct = static_cast<int64_t>(sums[0]), .total = static_cast<int64_t>(sums[1])
  };
}

// The whole graph as one message-passing block.
graph::Block whole_block(const graph::CscGraph& graph) {
  return {
      .indptr = graph.indptr(),
      .indices = graph.indices(),
      .edge_ids = {},
      .num_sources = graph.num_sources(),
      .num_destinations = graph.num_destinations(),
  };
}

// One inference: what all its layers share.
class LayerWise {
 public:
  LayerWise(
      nn::NodeModel& model,
      const WholeGraph& whole,
      comm::Communicator& communicator,
      const EvaluationContext& context,
      const LayerWiseOptions& options
  )
      : model_(model),
        whole_(whole),
        communicator_(communicator),
        context_(context),
        options_(options),
        degrees_(nn::in_degrees_without_loops(whole_block(whole.graph))) {}

  Result<Evaluated> run(const at::Tensor& ids);

 private:
  Result<std::unique_ptr<loader::NodeLoader>> start_loader(
      const at::Tensor& seeds, const at::Tensor& input, const at::Tensor& labels
  );
  // The output of a hidden layer for all nodes; undefined when the ranks agreed to stop.
  Result<at::Tensor> hidden_layer(int64_t layer, const at::Tensor& input);
  Result<Evaluated> last_layer(const at::Tensor& input, const at::Tensor& ids);
  at::Tensor run_batch(int64_t layer, const loader::MiniBatch& batch);
  Status exchange(const at::Tensor& rows);

  nn::NodeModel& model_;
  const WholeGraph& whole_;
  comm::Communicator& communicator_;
  const EvaluationContext& context_;
  const LayerWiseOptions& options_;
  at::Tensor degrees_;  // int64 [num_nodes]
};

sampling::core::ItemSamplerOptions item_options(
    const LayerWiseOptions& options, const comm::Communicator& communicator
) {
  return {
      .batch_size = options.batch_size,
      .rank = communicator.rank(),
      .world_size = communicator.world_size(),
  };
}

Result<std::unique_ptr<loader::NodeLoader>> LayerWise::start_loader(
    const at::Tensor& seeds, const at::Tensor& input, const at::Tensor& labels
) {
  GNN_ASSIGN_OR_RETURN(
      loader::LocalFeatureFetcher fetcher, loader::LocalFeatureFetcher::create(input)
  );
  const loader::NodeLoaderOptions options{
      .sampling = {.fanout = {-1}},
      .items = item_options(options_, communicator_),
      .num_threads = options_.num_threads,
      .device = options_.device,
  };
  GNN_ASSIGN_OR_RETURN(
      auto loader,
      loader::NodeLoader::create(
          options,
          whole_.graph,
          seeds,
          std::make_shared<loader::LocalFeatureFetcher>(std::move(fetcher)),
          labels
      )
  );
  GNN_RETURN_IF_ERROR(loader->start_epoch(0));
  return loader;
}

at::Tensor LayerWise::run_batch(int64_t layer, const loader::MiniBatch& batch) {
  const at::Tensor degrees =
      degrees_.index_select(0, batch.subgraph.node_ids[0].to(at::kCPU)).to(options_.device);
  return model_.forward_layer(layer, batch.x.to(at::kFloat), batch.subgraph.blocks[0][0], degrees);
}

Status LayerWise::exchange(const at::Tensor& rows) {
  sampling::core::ItemSamplerOptions options = item_options(options_, communicator_);
  options.num_items = rows.size(0);
  GNN_ASSIGN_OR_RETURN(const auto sampler, sampling::core::ItemSampler::create(options));
  for (int64_t rank = 0; rank < communicator_.world_size(); ++rank) {
    const sampling::core::RankShare share = sampler.share_of(rank);
    if (share.num_items == 0) continue;
    GNN_RETURN_IF_ERROR(communicator_.broadcast(rows.narrow(0, share.first, share.num_items), rank)
    );
    context_.progress.on_mark();
  }
  return {};
}

Result<at::Tensor> LayerWise::hidden_layer(int64_t layer, const at::Tensor& input) {
  const int64_t num_nodes = whole_.graph.num_destinations();
  GNN_ASSIGN_OR_RETURN(auto loader, start_loader(at::arange(num_nodes), input, {}));
  at::Tensor output;
  while (!context_.stop.requested()) {
    GNN_ASSIGN_OR_RETURN(const std::optional<loader::MiniBatch> batch, loader->next());
    if (!batch) break;
    const at::Tensor rows = run_batch(layer, *batch).to(at::kCPU);
    if (!output.defined()) output = at::empty({num_nodes, rows.size(1)}, rows.options());
    // Slices of all nodes in order: the batch's rows are consecutive.
    output.narrow(0, batch->seeds[0].item<int64_t>(), rows.size(0)).copy_(rows);
    context_.progress.on_mark();
  }
  // One reduction for both: a rank without nodes learns the width from the others.
  const at::Tensor agreed = at::zeros({2}, at::kLong);
  agreed[0] = output.defined() ? output.size(1) : 0;
  agreed[1] = context_.stop.requested() ? 1 : 0;
  GNN_RETURN_IF_ERROR(communicator_.all_reduce(agreed, comm::ReduceOp::Max));
  if (agreed[1].item<int64_t>() != 0) return at::Tensor();
  if (!output.defined()) output = at::empty({num_nodes, agreed[0].item<int64_t>()}, at::kFloat);
  GNN_RETURN_IF_ERROR(exchange(output));
  return output;
}

Result<Evaluated> LayerWise::last_layer(const at::Tensor& input, const at::Tensor& ids) {
  GNN_ASSIGN_OR_RETURN(auto loader, start_loader(ids, input, whole_.labels));
  const auto next = [&]() -> Result<std::optional<Scores>> {
    GNN_ASSIGN_OR_RETURN(const std::optional<loader::MiniBatch> batch, loader->next());
    if (!batch) return std::optional<Scores>();
    return Scores{.logits = run_batch(model_.num_layers() - 1, *batch), .labels = batch->y};
  };
  return evaluate_batches(next, communicator_, context_);
}

Result<Evaluated> LayerWise::run(const at::Tensor& ids) {
  at::Tensor hidden = whole_.features;
  for (int64_t layer = 0; layer + 1 < model_.num_layers(); ++layer) {
    GNN_ASSIGN_OR_RETURN(hidden, hidden_layer(layer, hidden));
    if (!hidden.defined()) return Evaluated();
  }
  return last_layer(hidden, ids);
}

}  // namespace

Result<Evaluated> evaluate_batches(
    const NextScores& next, comm::Communicator& communicator, const EvaluationContext& context
) {
  progress::Accuracy counts;
  while (!context.stop.requested()) {
    GNN_ASSIGN_OR_RETURN(const std::optional<Scores> scores, next());
    if (!scores) break;
    counts.correct += count_correct(*scores);
    counts.total += scores->labels.size(0);
    context.progress.on_mark();
  }
  return reduce_counts(communicator, counts, context.stop);
}

Result<Evaluated> evaluate_layer_wise(
    nn::NodeModel& model,
    const WholeGraph& whole,
    const at::Tensor& ids,
    comm::Communicator& communicator,
    const EvaluationContext& context,
    const LayerWiseOptions& options
) {
  return LayerWise(model, whole, communicator, context, options).run(ids);
}

}  // namespace gnn::training
