#include "worker/graph/load.h"

#include "common/thread_pool.h"
#include "worker/data/digest.h"
#include "worker/data/generate.h"
#include "worker/data/items.h"
#include "worker/data/links.h"
#include "worker/data/native.h"
#include "worker/data/readers/edge_list.h"
#include "worker/data/readers/gin.h"
#include "worker/data/readers/ogb.h"
#include "worker/data/readers/reddit.h"
#include "worker/data/readers/taobao.h"
#include "worker/data/readers/tu.h"
#include "worker/data/split.h"
#include "worker/data/transforms.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace gnn::graph {
namespace {

Result<at::ScalarType> scalar_type(const data::Array& array) {
  switch (array.dtype()) {
    case data::DType::Bool:
      return at::kBool;
    case data::DType::UInt8:
      return at::kByte;
    case data::DType::Int8:
      return at::kChar;
    case data::DType::Int16:
      return at::kShort;
    case data::DType::Int32:
      return at::kInt;
    case data::DType::Int64:
      return at::kLong;
    case data::DType::Float16:
      return at::kHalf;
    case data::DType::BFloat16:
      return at::kBFloat16;
    case data::DType::Float32:
      return at::kFloat;
    case data::DType::Float64:
      return at::kDouble;
    case data::DType::UInt16:
    case data::DType::UInt32:
    case data::DType::UInt64:
      break;
  }
  return fail(
      ErrorKind::Data,
      array.name() + ": elements of type " + std::string(data::dtype_name(array.dtype())) +
          " are not supported here"
  );
}

// A tensor over the array's memory, which it keeps alive.
Result<at::Tensor> tensor_over(const data::Array& array) {
  if (!array.defined()) {
    return at::Tensor();
  }
  GNN_ASSIGN_OR_RETURN(const at::ScalarType type, scalar_type(array));
  // const_cast: from_blob takes no pointer to const; nobody writes to a data set.
  auto* data = const_cast<std::byte*>(array.bytes());
  return at::from_blob(
      data,
      array.shape(),
      [owner = array.owner()](void*) mutable { owner.reset(); },
      at::TensorOptions().dtype(type)
  );
}

Result<FeatureStore> features_over(const data::Array& array) {
  GNN_ASSIGN_OR_RETURN(const at::Tensor rows, tensor_over(array));
  return FeatureStore::create(rows);
}

Result<int64_t> index_of(
    const data::DatasetArrays& arrays, const std::string& name, std::string_view where
) {
  for (size_t i = 0; i < arrays.node_tables.size(); ++i) {
    if (arrays.node_tables[i].name == name) {
      return static_cast<int64_t>(i);
    }
  }
  return fail(ErrorKind::Data, std::string(where) + ": no node type '" + name + "'");
}

Result<NodeTypeData> node_type_over(const data::NodeTable& table) {
  NodeTypeData type{
      .name = table.name,
      .num_nodes = table.num_nodes,
      .features = std::nullopt,
      .labels = {},
      .features_name = table.features_name
  };
  GNN_ASSIGN_OR_RETURN(type.labels, tensor_over(table.labels));
  if (table.features.defined()) {
    GNN_ASSIGN_OR_RETURN(FeatureStore features, features_over(table.features));
    type.features.emplace(std::move(features));
  }
  for (const data::NamedFeatures& named : table.more_features) {
    GNN_ASSIGN_OR_RETURN(FeatureStore rows, features_over(named.rows));
    type.more_features.push_back({.name = named.name, .rows = std::move(rows)});
  }
  return type;
}

Result<EdgeTypeData> edge_type_over(
    const data::DatasetArrays& arrays, const data::EdgeTable& table, std::string_view where
) {
  const std::string owner =
      std::string(where) + ": edge type " + data::text_of(data::name_of(table));
  GNN_ASSIGN_OR_RETURN(const int64_t source, index_of(arrays, table.source, where));
  GNN_ASSIGN_OR_RETURN(const int64_t destination, index_of(arrays, table.destination, where));
  GNN_ASSIGN_OR_RETURN(at::Tensor indptr, tensor_over(table.indptr));
  GNN_ASSIGN_OR_RETURN(at::Tensor indices, tensor_over(table.indices));
  GNN_ASSIGN_OR_RETURN(at::Tensor edge_ids, tensor_over(table.edge_ids));
  auto graph = CscGraph::create_unchecked(
      std::move(indptr),
      std::move(indices),
      arrays.node_tables[static_cast<size_t>(source)].num_nodes,
      std::move(edge_ids)
  );
  if (!graph) {
    return tl::make_unexpected(with_context(graph.error(), owner));
  }
  EdgeTypeData type{
      .source = table.source,
      .relation = table.relation,
      .destination = table.destination,
      .source_index = source,
      .destination_index = destination,
      .graph = std::move(*graph),
      .features = std::nullopt
  };
  if (table.features.defined()) {
    GNN_ASSIGN_OR_RETURN(FeatureStore features, features_over(table.features));
    type.features.emplace(std::move(features));
  }
  return type;
}

Result<at::Tensor> ids_over(const data::Array& array) {
  return array.defined() ? tensor_over(array) : Result<at::Tensor>(at::empty({0}, at::kLong));
}

at::Tensor ids_tensor(const std::vector<int64_t>& ids) {
  return at::tensor(ids, at::kLong);
}

data::TransformOptions transforms_of(const api::Dataset& spec, const LoadOptions& loading) {
  data::TransformOptions options;
  options.link = loading.link;
  options.add_reverse = loading.add_reverse;
  options.to_undirected = spec.to_undirected;
  options.coalesce = spec.coalesce;
  options.self_loops = spec.add_self_loops ? data::SelfLoops::AddRemaining : data::SelfLoops::Keep;
  options.normalize_rows = spec.feature_transform == api::FeatureTransform::RowNormalize;
  switch (spec.node_features) {
    case api::NodeFeatures::Provided:
      options.features = data::FeatureSource::Provided;
      break;
    case api::NodeFeatures::Constant:
      options.features = data::FeatureSource::Constant;
      break;
    case api::NodeFeatures::DegreeOneHot:
      options.features = data::FeatureSource::DegreeOneHot;
      break;
  }
  return options;
}

data::Shape shape_of(api::SyntheticShape shape) {
  switch (shape) {
    case api::SyntheticShape::Arxiv:
      return data::Shape::Arxiv;
    case api::SyntheticShape::Products:
      return data::Shape::Products;
    case api::SyntheticShape::Reddit:
      return data::Shape::Reddit;
    case api::SyntheticShape::FakeDataset:
      return data::Shape::FakeDataset;
    case api::SyntheticShape::Taobao:
      return data::Shape::Taobao;
  }
  return data::Shape::Arxiv;
}

// Readers of text apply the transforms of edges while sorting, so that edges are sorted once.
data::ReadOptions read_options(const api::Dataset& spec, data::TransformOptions& transforms) {
  data::ReadOptions options;
  options.split = spec.split.type == api::SplitType::Provided ? spec.split.name.value_or("") : "";
  options.split_required = spec.split.type == api::SplitType::Provided;
  options.to_undirected = std::exchange(transforms.to_undirected, false);
  options.coalesce = std::exchange(transforms.coalesce, false);
  options.self_loops = std::exchange(transforms.self_loops, data::SelfLoops::Keep);
  options.link = transforms.link;
  options.split_required = options.split_required && !options.link;
  return options;
}

// Every format but Native.
Result<data::DatasetArrays> read_arrays(
    const api::Dataset& spec, data::TransformOptions& transforms, ProgressBar& progress
) {
  data::MemoryStorage memory;
  if (spec.format == api::DatasetFormat::Synthetic) {
    if (!spec.synthetic) {
      return fail(
          ErrorKind::Configuration, "spec.dataset.synthetic: expected with format Synthetic"
      );
    }
    const data::GenerateOptions generated{
        .shape = shape_of(spec.synthetic->shape),
        .scale = spec.synthetic->scale.value(),
        .seed = static_cast<uint64_t>(spec.synthetic->seed),
        .flipped_labels = spec.synthetic->flipped_labels.value()
    };
    return data::generate(generated, memory, progress);
  }
  if (!spec.path || spec.path->empty()) {
    return fail(
        ErrorKind::Configuration, "spec.dataset.path: expected with every format but Synthetic"
    );
  }
  const std::string& path = *spec.path;
  const data::ReadOptions reading = read_options(spec, transforms);
  switch (spec.format) {
    case api::DatasetFormat::OGB:
      return data::read_ogb(path, reading, memory, progress);
    case api::DatasetFormat::TU:
      return data::read_tu(path, reading, memory, progress);
    case api::DatasetFormat::GIN:
      return data::read_gin(path, reading, memory, progress);
    case api::DatasetFormat::EdgeList:
      return data::read_edge_list(path, reading, memory, progress);
    case api::DatasetFormat::Reddit:
      return data::read_reddit(path, reading, memory, progress);
    case api::DatasetFormat::Taobao: {
      ThreadPool others(std::max(1U, std::thread::hardware_concurrency()) - 1);
      return data::read_taobao(path, others, memory, progress);
    }
    case api::DatasetFormat::Native:
    case api::DatasetFormat::Synthetic:
      break;
  }
  return fail(ErrorKind::Configuration, "spec.dataset.format: unknown");
}

// What a data set was made of.
struct Source {
  data::DatasetArrays arrays;
  std::string digest;
  std::string version;  // of the mapped files; empty if there are none
  std::vector<data::Mapping> mappings;
};

Result<Source> read_source(
    const api::Dataset& spec, data::TransformOptions& transforms, ProgressBar& progress
) {
  if (spec.format == api::DatasetFormat::Native && !spec.path.value_or("").empty()) {
    GNN_ASSIGN_OR_RETURN(data::NativeDataset native, data::open_native(*spec.path));
    std::string digest = data::digest_of(native);
    return Source{
        .arrays = std::move(native.arrays),
        .digest = std::move(digest),
        .version = std::move(native.version),
        .mappings = std::move(native.mappings)
    };
  }
  GNN_ASSIGN_OR_RETURN(data::DatasetArrays arrays, read_arrays(spec, transforms, progress));
  std::string digest = data::digest_of(arrays);
  return Source{
      .arrays = std::move(arrays), .digest = std::move(digest), .version = {}, .mappings = {}
  };
}

int64_t mapped_bytes(const std::vector<data::Mapping>& mappings) {
  int64_t bytes = 0;
  for (const data::Mapping& mapping : mappings) bytes += mapping.bytes;
  return bytes;
}

void advise(const std::vector<data::Mapping>& mappings, data::Access access) {
  for (const data::Mapping& mapping : mappings) data::advise(mapping, access);
}

Result<PartitionData> partitions_over(const data::DatasetArrays& arrays, std::string_view where) {
  GNN_RETURN_IF_ERROR(data::check_partitions_form(arrays, where));
  const data::Partitions& partitions = *arrays.partitions;
  PartitionData made{
      .book = partitions.book, .only = partitions.only, .original_ids = {}, .hot = {}
  };
  for (const data::Array& ids : partitions.original_ids) {
    GNN_ASSIGN_OR_RETURN(at::Tensor tensor, tensor_over(ids));
    made.original_ids.push_back(std::move(tensor));
  }
  for (const std::vector<data::HotRows>& parts : partitions.hot) {
    std::vector<HotRowsData>& made_parts = made.hot.emplace_back();
    for (const data::HotRows& hot : parts) {
      HotRowsData& made_hot = made_parts.emplace_back();
      made_hot.local_reads = hot.local_reads;
      made_hot.remote_reads = hot.remote_reads;
      GNN_ASSIGN_OR_RETURN(made_hot.ids, tensor_over(hot.ids));
      GNN_ASSIGN_OR_RETURN(made_hot.hotness, tensor_over(hot.hotness));
    }
  }
  if (const auto& split = partitions.link_split) {
    LinkSplitData& made_split = made.link_split.emplace();
    made_split.options = split->options;
    GNN_ASSIGN_OR_RETURN(made_split.order, tensor_over(split->order));
    GNN_ASSIGN_OR_RETURN(made_split.validation_negatives, tensor_over(split->validation_negatives));
    GNN_ASSIGN_OR_RETURN(made_split.test_negatives, tensor_over(split->test_negatives));
  }
  return made;
}

// Tensors over the arrays, whose elements are not checked yet.
Result<Dataset> dataset_over(const data::DatasetArrays& arrays, std::string_view where) {
  Dataset dataset;
  dataset.name = arrays.name;
  dataset.num_classes = arrays.num_classes;
  GNN_ASSIGN_OR_RETURN(dataset.target_node_type, index_of(arrays, arrays.target_node_type, where));
  for (const data::NodeTable& table : arrays.node_tables) {
    GNN_ASSIGN_OR_RETURN(NodeTypeData type, node_type_over(table));
    dataset.node_types.push_back(std::move(type));
  }
  for (const data::EdgeTable& table : arrays.edge_tables) {
    GNN_ASSIGN_OR_RETURN(EdgeTypeData type, edge_type_over(arrays, table, where));
    dataset.edge_types.push_back(std::move(type));
  }
  GNN_ASSIGN_OR_RETURN(dataset.split.train, ids_over(arrays.train));
  GNN_ASSIGN_OR_RETURN(dataset.split.validation, ids_over(arrays.validation));
  GNN_ASSIGN_OR_RETURN(dataset.split.test, ids_over(arrays.test));
  if (arrays.graph_labels.defined()) {
    GraphCollection graphs;
    GNN_ASSIGN_OR_RETURN(graphs.node_offsets, tensor_over(arrays.graph_offsets));
    GNN_ASSIGN_OR_RETURN(graphs.labels, tensor_over(arrays.graph_labels));
    dataset.graphs = std::move(graphs);
  }
  if (arrays.links) {
    LinkData links{.edge_type = static_cast<int64_t>(arrays.links->edge_table)};
    if (const auto& reverse = arrays.links->reverse_edge_table) {
      links.reverse_edge_type = static_cast<int64_t>(*reverse);
    }
    GNN_ASSIGN_OR_RETURN(links.pairs, tensor_over(arrays.links->pairs));
    dataset.links = std::move(links);
  }
  if (arrays.partitions) {
    GNN_ASSIGN_OR_RETURN(dataset.partitions, partitions_over(arrays, where));
  }
  GNN_RETURN_IF_ERROR(check_form(dataset, where));
  return dataset;
}

// Whether no file has changed since it was mapped.
bool still_has_version(const std::string& directory, const std::string& version) {
  const auto now = data::open_native(directory);
  return now && now->version == version;
}

// Checks what dataset_over() made of `arrays`. Labels, split and partitions are part of the first
// share.
ContentCheck check_of(
    const Dataset& dataset,
    const data::DatasetArrays& arrays,
    std::string_view where,
    const PartCheck& part = {}
) {
  return [&dataset, &arrays, where, part](Share share, ProgressBar& progress) -> Status {
    GNN_RETURN_IF_ERROR(check_contents(dataset, where, share, progress, part));
    if (share.index != 0) return {};
    if (arrays.partitions) GNN_RETURN_IF_ERROR(data::check_partitions(arrays, where));
    return data::check_items(arrays, where);
  };
}

Result<Dataset> make_dataset(
    const data::DatasetArrays& arrays, std::string_view where, ProgressBar& progress
) {
  GNN_ASSIGN_OR_RETURN(Dataset dataset, dataset_over(arrays, where));
  GNN_RETURN_IF_ERROR(check_of(dataset, arrays, where)({}, progress));
  return dataset;
}

// Checks mapped files before anything is made of them, since transforms trust their arrays, and then
// what they made.
Result<Dataset> load_mapped(
    const Source& source,
    data::TransformOptions transforms,
    const std::string& where,
    const LoadOptions& options,
    ProgressBar& progress
) {
  GNN_ASSIGN_OR_RETURN(Dataset dataset, dataset_over(source.arrays, where));
  // Prepared links are known by their name; anything else that is asked for may read all.
  data::TransformOptions others = transforms;
  if (others.link && data::has_links(source.arrays, *others.link)) others.link.reset();
  const PartCheck part = others == data::TransformOptions{} ? options.part : PartCheck{};
  const ContentCheck check = check_of(dataset, source.arrays, where, part);
  const bool kept = mapped_bytes(source.mappings) <= options.memory_bytes / 2;
  advise(source.mappings, kept ? data::Access::Kept : data::Access::InOrder);
  GNN_RETURN_IF_ERROR(
      options.check_mapped ? options.check_mapped(source.version, check) : check({}, progress)
  );
  // A part has the lists of its own nodes of either type: not the same edges.
  const bool is_part = source.arrays.partitions && source.arrays.partitions->only;
  if (source.arrays.links && !is_part && !part.lists) {
    const Status reverse = data::check_reverse(source.arrays);
    if (!reverse) return tl::make_unexpected(with_context(reverse.error(), where));
  }
  transforms = data::what_is_left_of(transforms, source.arrays);
  if (transforms != data::TransformOptions{}) {
    data::MemoryStorage memory;
    GNN_ASSIGN_OR_RETURN(
        const data::DatasetArrays arrays,
        data::transform(source.arrays, transforms, memory, progress)
    );
    GNN_ASSIGN_OR_RETURN(dataset, make_dataset(arrays, where, progress));
  } else if (still_has_version(where, source.version)) {
    dataset.checked_version = source.version;
  }
  if (!kept) advise(source.mappings, data::Access::AnyOrder);
  return dataset;
}

// Refuses what can't be done with a partitioned data set, or with an extracted part of it.
Status check_partitioned(
    const data::DatasetArrays& arrays,
    const data::TransformOptions& transforms,
    const api::Dataset& spec,
    const std::string& where,
    const LoadOptions& options
) {
  if (!arrays.partitions) {
    return {};
  }
  const data::TransformOptions left = data::what_is_left_of(transforms, arrays);
  if (!arrays.partitions->only) {
    if (!left.add_reverse) return {};
    // Its partitions say how each edge type is drawn from.
    return fail(
        ErrorKind::Configuration,
        "spec.dataset.addReverse: expected the reverse edge types in " + where +
            ", as none can be added to partitioned data, found " + data::edge_types_text(arrays) +
            "; import with --add-reverse, then partition"
    );
  }
  const std::string part = where + ": holds part " + std::to_string(*arrays.partitions->only) +
                           " of " + std::to_string(arrays.partitions->book.parts) + " alone";
  if (!options.accept_part) {
    return fail(
        ErrorKind::Configuration,
        part + "; set spec.placement, or spec.dataset.path to the whole data set"
    );
  }
  if (left != data::TransformOptions{}) {
    return fail(
        ErrorKind::Configuration,
        part + ", which can't be transformed; import with these options, then partition"
    );
  }
  // Links are split by their pairs, which each part has all of.
  if (!options.link && spec.split.type != api::SplitType::Provided) {
    return fail(
        ErrorKind::Configuration,
        part +
            ", and so has no labels of other parts to split by; set spec.dataset.split.type to "
            "Provided, or spec.dataset.path to the whole data set"
    );
  }
  return {};
}

Status check_link(
    const LoadOptions& options, const data::DatasetArrays& arrays, const std::string& where
) {
  if (!options.link || data::find_edge_table(arrays, *options.link)) {
    return {};
  }
  return fail(
      ErrorKind::Configuration,
      "spec.task.link: expected an edge type of " + where + ", " + data::edge_types_text(arrays) +
          ", found " + data::text_of(*options.link)
  );
}

}  // namespace

Result<Dataset> make_dataset(const data::DatasetArrays& arrays, std::string_view where) {
  SilentProgressBar silent;
  return make_dataset(arrays, where, silent);
}

Result<DataSplit> make_split(
    const Dataset& dataset, const api::Split& split, int64_t training_seed
) {
  if (split.type == api::SplitType::Provided) {
    if (dataset.split.train.numel() == 0) {
      return fail(
          ErrorKind::Data,
          dataset.name + ": has no split; set spec.dataset.split.type to Random or KFold"
      );
    }
    return dataset.split;
  }
  const at::Tensor labels = dataset.graphs ? dataset.graphs->labels : dataset.target().labels;
  if (!labels.defined()) {
    return fail(ErrorKind::Data, dataset.name + ": has no labels to split by");
  }
  const std::span<const int64_t> label(
      labels.const_data_ptr<int64_t>(), static_cast<size_t>(labels.numel())
  );
  // numpy's legacy generator takes 32 bits.
  const auto seed = static_cast<uint32_t>(split.seed.value_or(training_seed));
  const auto value = [](const std::optional<api::Decimal>& fraction) {
    return fraction ? fraction->value() : 0.0;
  };
  data::SplitIdLists lists;
  if (split.type == api::SplitType::Random) {
    const data::Fractions fractions{
        .train = value(split.train),
        .validation = value(split.validation),
        .test = value(split.test)
    };
    GNN_ASSIGN_OR_RETURN(lists, data::random_split(label, fractions, seed));
  } else {
    const data::FoldOptions fold{
        .folds = split.folds.value_or(10),
        .fold = split.fold.value_or(0),
        .validation = value(split.validation)
    };
    GNN_ASSIGN_OR_RETURN(lists, data::stratified_fold(label, fold, seed));
  }
  return DataSplit{
      .train = ids_tensor(lists.train),
      .validation = ids_tensor(lists.validation),
      .test = ids_tensor(lists.test)
  };
}

Result<Dataset> load_dataset(
    const api::Dataset& spec, const LoadOptions& options, ProgressBar& progress
) {
  data::TransformOptions transforms = transforms_of(spec, options);
  auto read = read_source(spec, transforms, progress);
  if (!read) {
    Error error = std::move(read).error();
    // Data, which is not retried: a missing file is still missing in the next attempt.
    error.kind = error.kind == ErrorKind::NotFound ? ErrorKind::Data : error.kind;
    return tl::make_unexpected(std::move(error));
  }
  const std::string where = spec.path.value_or(read->arrays.name);
  GNN_RETURN_IF_ERROR(check_link(options, read->arrays, where));
  GNN_RETURN_IF_ERROR(check_partitioned(read->arrays, transforms, spec, where, options));
  Dataset dataset;
  if (read->version.empty()) {
    data::MemoryStorage memory;
    transforms = data::what_is_left_of(transforms, read->arrays);
    GNN_ASSIGN_OR_RETURN(
        read->arrays, data::transform(std::move(read->arrays), transforms, memory, progress)
    );
    GNN_ASSIGN_OR_RETURN(dataset, make_dataset(read->arrays, where, progress));
  } else {
    GNN_ASSIGN_OR_RETURN(dataset, load_mapped(*read, transforms, where, options, progress));
  }
  dataset.digest = std::move(read->digest);
  if (options.link) {
    return dataset;
  }
  GNN_ASSIGN_OR_RETURN(dataset.split, make_split(dataset, spec.split, options.training_seed));
  return dataset;
}

}  // namespace gnn::graph
