// Writes each of our models under the names of DGL and PyG, with what it computes on a small graph:
//   gnn-exported-models FOLDER
// makes FOLDER/<model>.DGL.safetensors and .PyG.safetensors, and FOLDER/<model>.run.safetensors with
// the graph, the inputs and the logits. compare_logits.py loads them into modules of the libraries.

#include "worker/checkpoint/file_ops.h"
#include "worker/checkpoint/state_capture.h"
#include "worker/nn/models/bipartite_sage.h"
#include "worker/nn/models/gcn.h"
#include "worker/nn/models/gin.h"
#include "worker/nn/models/graph_sage.h"
#include "worker/nn/models/graph_sage_link.h"
#include "worker/training/model_export.h"
#include "worker/training/model_file.h"

#include <ATen/ATen.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace {

using gnn::checkpoint::CheckpointTensor;
using gnn::graph::Block;
using gnn::interop::Library;
namespace api = gnn::api;
namespace nn = gnn::nn;

constexpr int64_t kNodes = 300;
constexpr int64_t kChannels = 17;
constexpr int64_t kHidden = 32;
constexpr int64_t kClasses = 5;
constexpr int64_t kGraphs = 6;  // of kNodes / kGraphs nodes each
constexpr int64_t kUsers = 70;
constexpr int64_t kItems = 110;
constexpr int64_t kPairs = 200;

// The in-edges of each destination, between 0 and 7; a source is of the destination's own graph if
// there are several.
Block random_block(int64_t destinations, int64_t sources, int64_t graphs = 1) {
  const at::Tensor degrees = torch::randint(0, 8, {destinations}, torch::kInt64);
  at::Tensor indptr = torch::zeros({destinations + 1}, torch::kInt64);
  indptr.narrow(0, 1, destinations).copy_(degrees.cumsum(0));
  const at::Tensor to = torch::repeat_interleave(degrees);
  const int64_t own = sources / graphs;
  const at::Tensor from = torch::randint(0, own, {to.size(0)}, torch::kInt64) +
                          to.div(destinations / graphs, "floor") * own;
  return {
      .indptr = indptr,
      .indices = from,
      .edge_ids = {},
      .num_sources = sources,
      .num_destinations = destinations
  };
}

// A trained model's values are no initial ones, nor are its running means.
void randomize(torch::nn::Module& module) {
  const at::NoGradGuard no_grad;
  for (const auto& entry : module.named_parameters()) entry.value().normal_(0, 0.4);
  for (const auto& entry : module.named_buffers()) {
    if (entry.key().ends_with("running_var")) entry.value().uniform_(0.5, 1.5);
    if (entry.key().ends_with("running_mean")) entry.value().normal_();
    if (entry.key().ends_with("num_batches_tracked")) entry.value().fill_(7);
  }
  module.eval();
}

bool write(const std::filesystem::path& path, const std::vector<CheckpointTensor>& tensors) {
  gnn::checkpoint::PosixFileOps files;
  const gnn::Status written = gnn::training::write_model_file(files, path, tensors, {});
  if (!written) std::fprintf(stderr, "%s\n", written.error().message.c_str());
  return written.has_value();
}

class Writer {
 public:
  explicit Writer(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // Writes the model under each library's names that it has, and what it was run on.
  void write_model(
      const std::string& name,
      const api::Model& model,
      const torch::nn::Module& module,
      const std::vector<CheckpointTensor>& run,
      const std::vector<CheckpointTensor>& embeddings = {}
  ) {
    for (const Library library : {Library::Dgl, Library::Pyg}) {
      if (!gnn::interop::check_library(model, library)) continue;
      auto tensors =
          gnn::training::state_dict_of(gnn::checkpoint::capture_module(module), model, library);
      ok = ok && tensors.has_value();
      if (!tensors) continue;
      tensors->insert(tensors->end(), embeddings.begin(), embeddings.end());
      const std::string file =
          name + "." + std::string(gnn::interop::name_of(library)) + ".safetensors";
      ok = write(folder_ / file, *tensors) && ok;
    }
    ok = write(folder_ / (name + ".run.safetensors"), run) && ok;
  }

  bool ok = true;

 private:
  std::filesystem::path folder_;
};

std::vector<CheckpointTensor> run_of(const Block& block, const at::Tensor& x, at::Tensor logits) {
  return {
      {"indptr", block.indptr}, {"indices", block.indices}, {"x", x}, {"logits", logits.detach()}
  };
}

void write_node_models(Writer& writer) {
  const Block block = random_block(kNodes, kNodes);
  const at::Tensor x = torch::randn({kNodes, kChannels});
  const std::vector<Block> blocks(3, block);
  for (const auto parameters : {nn::SageParameters::Dgl, nn::SageParameters::Pyg}) {
    nn::GraphSage sage(nn::GraphSageOptions{
        .in_channels = kChannels,
        .hidden_channels = kHidden,
        .out_channels = kClasses,
        .layers = 3,
        .parameters = parameters,
    });
    randomize(*sage);
    const bool dgl = parameters == nn::SageParameters::Dgl;
    writer.write_model(
        dgl ? "graphsage-dgl" : "graphsage-pyg",
        {.type = api::ModelType::GraphSAGE},
        *sage,
        run_of(block, x, sage->forward(x, blocks))
    );
  }
  nn::Gcn gcn(nn::GcnOptions{
      .in_channels = kChannels, .hidden_channels = kHidden, .out_channels = kClasses, .layers = 3
  });
  randomize(*gcn);
  writer.write_model(
      "gcn", {.type = api::ModelType::GCN}, *gcn, run_of(block, x, gcn->forward(x, blocks))
  );
}

void write_graph_models(Writer& writer) {
  const Block block = random_block(kNodes, kNodes, kGraphs);
  const at::Tensor x = torch::randn({kNodes, kChannels});
  const at::Tensor offsets = torch::arange(kGraphs + 1, torch::kInt64) * (kNodes / kGraphs);
  const auto write_gin = [&](const std::string& name, const api::Gin& gin) {
    const bool last = gin.readout == api::Readout::LastLayer;
    nn::Gin module(nn::GinOptions{
        .in_channels = kChannels,
        .hidden_channels = kHidden,
        .out_channels = kClasses,
        .layers = gin.layers,
        .mlp_layers = gin.mlp_layers,
        .batch_norm = gin.batch_norm,
        .learn_eps = gin.learn_eps,
        .readout = last ? nn::Readout::LastLayer : nn::Readout::EveryLayer,
    });
    randomize(*module);
    api::Model model{.type = api::ModelType::GIN};
    model.gin = gin;
    auto run = run_of(block, x, module->forward(x, block, offsets));
    run.push_back({"graph_offsets", offsets});
    writer.write_model(name, model, *module, run);
  };
  write_gin(
      "gin-tutorial",
      {.layers = 1, .mlp_layers = 1, .batch_norm = false, .readout = api::Readout::LastLayer}
  );
  write_gin("gin", {.layers = 3, .mlp_layers = 2, .batch_norm = true, .learn_eps = true});
}

void write_link_models(Writer& writer) {
  const Block block = random_block(kNodes, kNodes);
  const at::Tensor x = torch::randn({kNodes, kChannels});
  const nn::LinkRows links{
      .source_type = 0,
      .destination_type = 0,
      .source_rows = torch::randint(0, kNodes, {kPairs}, torch::kInt64),
      .destination_rows = torch::randint(0, kNodes, {kPairs}, torch::kInt64),
  };
  nn::GraphSageLink sage(nn::GraphSageLinkOptions{
      .encoder =
          {.in_channels = kChannels,
           .hidden_channels = kHidden,
           .out_channels = kHidden,
           .layers = 2,
           .parameters = nn::SageParameters::Pyg},
      .decoder = nn::LinkDecoder::Mlp,
      .decoder_hidden_channels = kHidden,
  });
  randomize(*sage);
  const nn::TypedBlocks blocks = {{block}, {block}};
  auto run = run_of(block, x, sage->forward({x}, blocks, links));
  run.push_back({"sources", links.source_rows});
  run.push_back({"destinations", links.destination_rows});
  writer.write_model("graphsage-link", {.type = api::ModelType::GraphSAGE}, *sage, run);
}

void write_bipartite(Writer& writer) {
  const Block items = random_block(kItems, kItems);
  const Block to_users = random_block(kUsers, kItems);
  const at::Tensor user_x = torch::randn({kUsers, kHidden});
  const at::Tensor item_x = torch::randn({kItems, kHidden});
  const nn::LinkRows links{
      .source_type = 0,
      .destination_type = 1,
      .source_rows = torch::randint(0, kUsers, {kPairs}, torch::kInt64),
      .destination_rows = torch::randint(0, kItems, {kPairs}, torch::kInt64),
  };
  nn::BipartiteSage model(nn::BipartiteSageOptions{
      .user_type = 0,
      .item_type = 1,
      .item_to_item = 0,
      .item_to_user = 1,
      .user_channels = kHidden,
      .item_channels = kHidden,
      .hidden_channels = kHidden,
      .out_channels = kHidden,
  });
  randomize(*model);
  const nn::TypedBlocks blocks = {{items, to_users}, {items, to_users}};
  const at::Tensor logits = model->forward({user_x, item_x}, blocks, links);
  writer.write_model(
      "bipartite",
      {.type = api::ModelType::BipartiteSAGE},
      *model,
      {{"item_indptr", items.indptr},
       {"item_indices", items.indices},
       {"user_indptr", to_users.indptr},
       {"user_indices", to_users.indices},
       {"sources", links.source_rows},
       {"destinations", links.destination_rows},
       {"logits", logits.detach()}},
      {{gnn::interop::embedding_key(gnn::interop::LinkEnd::Source), user_x},
       {gnn::interop::embedding_key(gnn::interop::LinkEnd::Destination), item_x}}
  );
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: gnn-exported-models FOLDER\n");
    return 64;
  }
  std::filesystem::create_directories(argv[1]);
  torch::manual_seed(1);
  Writer writer(std::filesystem::absolute(argv[1]));
  write_node_models(writer);
  write_graph_models(writer);
  write_link_models(writer);
  write_bipartite(writer);
  return writer.ok ? 0 : 70;
}
