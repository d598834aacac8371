#include "worker/app/prepare_data.h"

#include "worker/app/import_data.h"
#include "worker/app/partition_data.h"
#include "worker/tasks/link_graph.h"

#include <utility>

namespace gnn::app {
namespace {

ImportFormat format_of(api::ImportFormat format) {
  switch (format) {
    case api::ImportFormat::OGB:
      return ImportFormat::Ogb;
    case api::ImportFormat::TU:
      return ImportFormat::Tu;
    case api::ImportFormat::GIN:
      return ImportFormat::Gin;
    case api::ImportFormat::EdgeList:
      return ImportFormat::EdgeList;
    case api::ImportFormat::Reddit:
      return ImportFormat::Reddit;
    case api::ImportFormat::Taobao:
      return ImportFormat::Taobao;
    case api::ImportFormat::PackageIndex:
      return ImportFormat::PackageIndex;
    case api::ImportFormat::PackageTags:
      return ImportFormat::PackageTags;
  }
  return ImportFormat::Ogb;
}

data::SelfLoops self_loops_of(api::SelfLoops self_loops) {
  switch (self_loops) {
    case api::SelfLoops::Keep:
      return data::SelfLoops::Keep;
    case api::SelfLoops::Remove:
      return data::SelfLoops::Remove;
    case api::SelfLoops::Add:
      return data::SelfLoops::Add;
    case api::SelfLoops::AddRemaining:
      return data::SelfLoops::AddRemaining;
  }
  return data::SelfLoops::Keep;
}

ImportRequest request_of(const api::DataImport& import, const std::string& output) {
  ImportRequest request;
  request.format = format_of(import.format);
  request.input = import.path;
  request.output = {
      .folder = output,
      .replace = import.replace,
      .replace_option = "spec.prepare.import.replace: true"
  };
  data::ReadOptions& reading = request.reading;
  reading.split = import.split.value_or("");
  reading.split_required = !import.no_split && !import.link;
  reading.to_undirected = import.to_undirected;
  reading.coalesce = import.coalesce;
  reading.self_loops = self_loops_of(import.self_loops);
  reading.normalize_rows = import.row_normalize;
  reading.feature_dtype = import.feature_type == api::FeatureType::Float16 ? data::DType::Float16
                                                                           : data::DType::Float32;
  reading.num_classes = import.classes;
  if (import.link) {
    reading.link = {
        .source = import.link->source,
        .relation = import.link->relation,
        .destination = import.link->destination
    };
  }
  request.add_reverse = import.add_reverse;
  data::PackageIndexOptions& index = request.package_index;
  index.num_features = import.features.value_or(index.num_features);
  if (import.seed) index.seed = static_cast<decltype(index.seed)>(*import.seed);
  return request;
}

partition::Method method_of(api::PartitionMethod method) {
  switch (method) {
    case api::PartitionMethod::Random:
      return partition::Method::Random;
    case api::PartitionMethod::Hotness:
      return partition::Method::Hotness;
    case api::PartitionMethod::LDG:
      return partition::Method::Ldg;
    case api::PartitionMethod::METIS:
      return partition::Method::Metis;
  }
  return partition::Method::Hotness;
}

// Of a job with all defaults. How batches are drawn is the job's, unless partition says otherwise.
PartitionRequest request_of(
    const api::DataPartition& partition, const api::GnnJobSpec& spec, const std::string& input
) {
  PartitionRequest request;
  request.input = input;
  request.output = {
      .folder = spec.dataset.path.value_or(""),
      .replace = partition.replace,
      .replace_option = "spec.prepare.partition.replace: true"
  };
  partition::PartitionOptions& options = request.options;
  options.parts = partition.parts.value_or(0);
  options.method = method_of(partition.method);
  options.fanout = partition.fanout.value_or(std::vector<int64_t>());
  options.batch_size = partition.batch_size.value_or(0);
  if (partition.hot_rows) options.hot_rows = partition.hot_rows->value();
  request.takes_other_link_split = true;  // of another job
  if (spec.dataset.split.type == api::SplitType::RandomLink) {
    request.link_split = tasks::link_split_options(spec);
  }
  if (!spec.sampling) return request;
  options.replace = spec.sampling->replace;
  options.rule = spec.sampling->rule == api::SamplingRule::AllSeen ? data::HopRule::AllSeen
                                                                   : data::HopRule::NewNodes;
  for (const api::EdgeTypeFanout& own : spec.sampling->fanout_by_edge_type) {
    const api::EdgeType& type = own.edge_type;
    options.fanout_by_edge_type.push_back(
        {.edge_type =
             {.source = type.source, .relation = type.relation, .destination = type.destination},
         .fanout = own.fanout}
    );
  }
  if (spec.sampling->negatives) options.negatives = spec.sampling->negatives->amount.value();
  return request;
}

// A missing file is one of the input's; the output is another's.
tl::unexpected<Error> as_of_job(Error error) {
  if (error.kind == ErrorKind::NotFound) error.kind = ErrorKind::Data;
  if (error.kind == ErrorKind::Conflict) error.kind = ErrorKind::Configuration;
  return tl::make_unexpected(std::move(error));
}

}  // namespace

Status prepare_data(const api::GnnJob& job, const DataConsole& console) {
  if (!job.spec.prepare) return {};
  const std::optional<api::DataImport>& import = job.spec.prepare->data_import;
  const std::optional<api::DataPartition>& partition = job.spec.prepare->partition;
  std::string made = partition ? partition->input.value_or("") : "";
  if (import) {
    made = import->output.value_or(job.spec.dataset.path.value_or(""));
    const Status imported = import_data(request_of(*import, made), console);
    if (!imported) return as_of_job(imported.error());
  }
  if (!partition) return {};
  const Status parted = partition_data(request_of(*partition, job.spec, made), console);
  if (!parted) return as_of_job(parted.error());
  return {};
}

}  // namespace gnn::app
