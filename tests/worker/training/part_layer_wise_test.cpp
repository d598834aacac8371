#include "worker/training/part_layer_wise.h"

#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/training/counting_sink.h"
#include "tests/worker/training/part_nodes.h"
#include "tests/worker/training/whole_graphs.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gnn::training {
namespace {

constexpr int64_t kPartNodes = 41;

// Whether a node answers for rows of that layer.
bool gives_rows(const shards::Service& service, uint32_t layer) {
  const shards::RowsRequest request{.index = layer};
  return service.answer(static_cast<uint16_t>(shards::Method::Hidden), shards::encode(request, {}))
      .has_value();
}

TEST(PartInference, GivesWhatOneForwardGivesWhoeverHasTheRows) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(7);
  const GraphAndBlock graph_and_block(kPartNodes, at::kFloat);
  const Models models = make_models();
  struct Layout {
    int64_t nodes;
    int64_t ranks;
    int64_t parts;
  };
  for (const Layout& layout :
       std::vector<Layout>{{1, 1, 1}, {2, 1, 2}, {3, 1, 3}, {3, 1, 2}, {2, 2, 2}, {3, 2, 2}}) {
    SCOPED_TRACE(
        std::to_string(layout.nodes) + " nodes of " + std::to_string(layout.ranks) + " ranks, " +
        std::to_string(layout.parts) + " parts"
    );
    const graph::Dataset dataset = dataset_of_parts(graph_and_block.whole, layout.parts);
    const PartNodes nodes(dataset, layout.nodes);
    const at::Tensor validation = at::arange(0, kPartNodes, 2);
    const at::Tensor test = at::arange(1, kPartNodes, 3);
    for (const auto& model : models) {
      const at::Tensor expected = graph_and_block.forward(*model);
      const at::Tensor right = expected.argmax(1).eq(dataset.node_types[0].labels);
      at::Tensor logits = at::full({kPartNodes, 3}, -1, at::kDouble);
      comm::run_ranks_of_nodes(layout.nodes, layout.ranks, [&](const comm::RankGroups& groups) {
        const at::NoGradGuard no_grad_here;
        const StopToken stop;
        CountingSink progress;
        const PartOfGraph graph =
            nodes.graph_of(groups.all->rank() / layout.ranks, groups.node->rank() == 0);
        // Chunks of a few edges; the last node has more than any.
        const PartInferenceOptions options{.chunk_nodes = 5, .chunk_bytes = 400};
        const EvaluationContext context{.stop = stop, .progress = progress};
        {
          PartInference inference(*model, graph, groups, context, options);
          const data::IdRange own = graph.part->own(0);
          const auto take = [&](const at::Tensor& places, const at::Tensor& rows) {
            logits.index_copy_(0, places + own.begin, rows);  // no two ranks write to one place
            if (graph.service == nullptr) return;
            EXPECT_FALSE(gives_rows(*graph.service, 1)) << "of a layer that is done";
          };
          EXPECT_TRUE(comm::require(inference.run(at::arange(own.size()), take)));
        }
        const auto measures = comm::require(
            evaluate_part_layer_wise(*model, graph, {validation, test}, groups, context, options)
        );
        ASSERT_TRUE(measures);
        EXPECT_EQ(
            measures->at(0),
            progress::accuracy(
                right.index_select(0, validation).sum().item<int64_t>(), validation.numel()
            )
        );
        EXPECT_EQ(
            measures->at(1),
            progress::accuracy(right.index_select(0, test).sum().item<int64_t>(), test.numel())
        );
      });
      for (const auto& service : nodes.services()) {
        for (uint32_t layer = 0; layer < 4; ++layer) EXPECT_FALSE(gives_rows(*service, layer));
      }
      EXPECT_TRUE(at::allclose(logits, expected, 1e-12, 1e-12)) << (logits - expected).abs().max();
    }
  }
}

}  // namespace
}  // namespace gnn::training
