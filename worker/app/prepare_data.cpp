#include "worker/app/prepare_data.h"

#include "worker/app/import_data.h"

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
  request.output = {.folder = output, .replace = import.replace};
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

// A missing file is one of the raw data's; the output is another's.
Error as_of_job(Error error) {
  if (error.kind == ErrorKind::NotFound) error.kind = ErrorKind::Data;
  if (error.kind != ErrorKind::Conflict) return error;
  error.kind = ErrorKind::Configuration;
  error.message += " (of a GNNJob: spec.prepare.import.replace: true)";
  return error;
}

}  // namespace

Status prepare_data(const api::GnnJob& job, const DataConsole& console) {
  if (!job.spec.prepare || !job.spec.prepare->data_import) return {};
  const std::string output = job.spec.dataset.path.value_or("");
  const Status imported = import_data(request_of(*job.spec.prepare->data_import, output), console);
  if (!imported) return tl::make_unexpected(as_of_job(imported.error()));
  return {};
}

}  // namespace gnn::app
