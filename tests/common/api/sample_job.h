#pragma once

#include "common/api/gnn_job.h"

namespace gnn::api {

/// A valid node classification job: two pods, synthetic data, every rule between fields met.
inline GnnJob sample_job() {
  GnnJob job;
  job.metadata.name = "arxiv";
  job.metadata.namespace_ = "train";
  job.spec.dataset.format = DatasetFormat::Synthetic;
  job.spec.dataset.synthetic.emplace();
  job.spec.model.graph_sage.emplace();
  job.spec.sampling.emplace();
  job.spec.sampling->fanout = {10, 10, 10};
  job.spec.workers.nodes = 2;
  job.spec.workers.pod_template.emplace();
  job.spec.workers.pod_template->image = "gnn-worker:0.1";
  return job;
}

/// A valid node classification job on partitioned data, of which each of two nodes holds one part.
inline GnnJob sample_partitioned_job() {
  GnnJob job = sample_job();
  job.metadata.name = "products";
  job.spec.dataset = {};
  job.spec.dataset.path = "/data/products";
  job.spec.placement = Placement{
      .topology = PlacementMode::Partitioned,
      .features = PlacementMode::Partitioned,
      .partitions = 2
  };
  return job;
}

/// The same with two sampling servers.
inline GnnJob sample_served_job() {
  GnnJob job = sample_partitioned_job();
  Servers& servers = job.spec.servers.emplace();
  servers.nodes = 2;
  servers.pod_template.emplace();
  servers.pod_template->image = "gnn-worker:0.1";
  return job;
}

/// A valid job that makes its data from a folder of the Open Graph Benchmark first.
inline GnnJob sample_prepare_job() {
  GnnJob job = sample_job();
  job.spec.dataset = {};
  job.spec.dataset.path = "/data/arxiv";
  job.spec.prepare.emplace().data_import = DataImport{.path = "/data/raw"};
  return job;
}

/// A valid job that imports such a folder and partitions it for two nodes first.
inline GnnJob sample_prepare_partitions_job() {
  GnnJob job = sample_partitioned_job();
  Prepare& prepare = job.spec.prepare.emplace();
  prepare.data_import = DataImport{.path = "/data/raw", .output = "/data/whole"};
  prepare.partition.emplace();
  return job;
}

/// A valid job that trains nothing: it predicts the classes of all nodes by an exported model.
inline GnnJob sample_inference_job() {
  GnnJob job = sample_job();
  job.metadata.name = "arxiv-classes";
  job.spec.task.mode = TaskMode::Inference;
  job.spec.model.from = "/models/arxiv/best.safetensors";
  job.spec.sampling.reset();
  job.spec.predictions.emplace().path = "/predictions/arxiv";
  return job;
}

/// A valid graph classification job.
inline GnnJob sample_graph_job() {
  GnnJob job;
  job.metadata.name = "imdb";
  job.metadata.namespace_ = "train";
  job.spec.task.type = TaskType::GraphClassification;
  job.spec.dataset.format = DatasetFormat::GIN;
  job.spec.dataset.path = "/data/IMDBBINARY.txt";
  job.spec.dataset.split.type = SplitType::Random;
  job.spec.dataset.split.train = Decimal{"0.8"};
  job.spec.dataset.split.validation = Decimal{"0.1"};
  job.spec.dataset.split.test = Decimal{"0.1"};
  job.spec.dataset.node_features = NodeFeatures::Constant;
  job.spec.model.type = ModelType::GIN;
  job.spec.model.gin.emplace();
  return job;
}

/// A valid link prediction job between users and items, with embeddings.
inline GnnJob sample_link_job() {
  GnnJob job;
  job.metadata.name = "taobao";
  job.metadata.namespace_ = "train";
  job.spec.task.type = TaskType::LinkPrediction;
  job.spec.task.link = EdgeType{.source = "user", .relation = "to", .destination = "item"};
  job.spec.dataset.format = DatasetFormat::Taobao;
  job.spec.dataset.path = "/data/taobao";
  job.spec.dataset.split.type = SplitType::RandomLink;
  job.spec.dataset.split.validation = Decimal{"0.1"};
  job.spec.dataset.split.test = Decimal{"0.1"};
  job.spec.dataset.add_reverse = true;
  job.spec.dataset.co_occurrence = CoOccurrence{.node = "item", .through = "user", .at_least = 3};
  job.spec.model.type = ModelType::BipartiteSAGE;
  job.spec.model.bipartite_sage.emplace();
  job.spec.sampling.emplace();
  job.spec.sampling->fanout = {8, 4};
  job.spec.workers.pod_template.emplace();
  job.spec.workers.pod_template->image = "gnn-worker:0.1";
  return job;
}

/// A valid link prediction job on a graph with one node type.
inline GnnJob sample_plain_link_job() {
  GnnJob job = sample_link_job();
  job.metadata.name = "citations";
  job.spec.task.link = EdgeType{.source = "node", .relation = "to", .destination = "node"};
  job.spec.dataset.format = DatasetFormat::OGB;
  job.spec.dataset.add_reverse = false;
  job.spec.dataset.co_occurrence.reset();
  job.spec.model = {.type = ModelType::GraphSAGE, .graph_sage = GraphSage{.layers = 2}};
  return job;
}

}  // namespace gnn::api
