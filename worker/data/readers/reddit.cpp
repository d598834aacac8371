#include "worker/data/readers/reddit.h"

#include "worker/data/io/npz.h"
#include "worker/data/readers/npy_arrays.h"

#include <array>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

namespace gnn::data {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> refuse(const std::string& where, const std::string& what) {
  return fail(ErrorKind::Data, where + ": " + what);
}

struct RedditArchives {
  NpzArchive data;
  NpzArchive graph;
  std::string data_path;
  std::string graph_path;

  static Result<RedditArchives> open(const std::string& folder) {
    std::error_code error;
    for (const std::string& place : {folder, folder + "/raw"}) {
      const std::string data_path = place + "/reddit_data.npz";
      const std::string graph_path = place + "/reddit_graph.npz";
      if (fs::is_regular_file(data_path, error)) {
        GNN_ASSIGN_OR_RETURN(NpzArchive data, NpzArchive::open(data_path));
        GNN_ASSIGN_OR_RETURN(NpzArchive graph, NpzArchive::open(graph_path));
        return RedditArchives{
            .data = std::move(data),
            .graph = std::move(graph),
            .data_path = data_path,
            .graph_path = graph_path
        };
      }
    }
    return fail(
        ErrorKind::NotFound,
        folder + ": expected reddit_data.npz and reddit_graph.npz in it or in its folder raw"
    );
  }
};

// The number of nodes is that of the rows of features.
Result<int64_t> count_feature_rows(const NpzArchive& data) {
  GNN_ASSIGN_OR_RETURN(const NpyReader reader, data.open_array("feature"));
  const std::vector<int64_t>& shape = reader.header().shape;
  if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1) {
    return refuse(
        reader.name(), "expected features of shape [nodes, width], found " + shape_text(shape)
    );
  }
  return shape[0];
}

// scipy's own members: its format must be coo, its shape that of an adjacency matrix.
Status check_matrix(const NpzArchive& graph, int64_t num_nodes) {
  GNN_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> member, graph.open_member("format"));
  GNN_ASSIGN_OR_RETURN(const std::string format, read_npy_string(*member));
  if (format != "coo") {
    return refuse(
        member->name(),
        "expected a scipy matrix of format coo, found '" + format +
            "'; save matrix.tocoo() with scipy.sparse.save_npz"
    );
  }
  GNN_ASSIGN_OR_RETURN(NpyReader reader, graph.open_array("shape"));
  std::array<int64_t, 2> shape{};
  if (reader.header().shape != std::vector<int64_t>{2}) {
    return refuse(
        reader.name(), "expected two numbers, [2], found " + shape_text(reader.header().shape)
    );
  }
  GNN_RETURN_IF_ERROR(reader.read_integers(shape));
  GNN_RETURN_IF_ERROR(reader.finish());
  if (shape[0] != num_nodes || shape[1] != num_nodes) {
    return refuse(
        reader.name(),
        "expected " + shape_text({num_nodes, num_nodes}) +
            ", a row and a column for each of the feature rows, found " +
            shape_text({shape[0], shape[1]})
    );
  }
  return {};
}

Result<Array> read_classes(
    const NpzArchive& data, int64_t num_nodes, const std::string& where, ArrayStorage& storage
) {
  GNN_ASSIGN_OR_RETURN(Array labels, storage.find(kLabelsName));
  if (!labels.defined()) {
    GNN_ASSIGN_OR_RETURN(NpyReader reader, data.open_array("label"));
    GNN_ASSIGN_OR_RETURN(labels, read_npy_labels(std::move(reader), num_nodes, storage));
  }
  const std::span<const int64_t> values = labels.view<int64_t>();
  for (size_t node = 0; node < values.size(); ++node) {
    // Every node is in a part of the split, so that none may be without a label.
    if (values[node] < 0) {
      return refuse(
          where,
          "node " + std::to_string(node) + ": expected a class from 0 on, found " +
              std::to_string(values[node])
      );
    }
  }
  return labels;
}

Result<SplitArrays> read_node_types(
    const NpzArchive& data, int64_t num_nodes, ArrayStorage& storage
) {
  GNN_ASSIGN_OR_RETURN(NpyReader reader, data.open_array("node_types"));
  const std::string where = reader.name();
  if (reader.header().shape != std::vector<int64_t>{num_nodes}) {
    return refuse(
        where,
        "expected one type per feature row, [" + std::to_string(num_nodes) + "], found " +
            shape_text(reader.header().shape)
    );
  }
  std::array<std::vector<int64_t>, 3> parts;
  const auto deal = [&](int64_t node, std::span<const int64_t> types) -> Status {
    for (const int64_t type : types) {
      if (type < 1 || type > 3) {
        return refuse(
            where,
            "node " + std::to_string(node) +
                ": expected 1 (train), 2 (validation) or 3 (test), found " + std::to_string(type)
        );
      }
      parts.at(static_cast<size_t>(type - 1)).push_back(node++);
    }
    return {};
  };
  GNN_RETURN_IF_ERROR(for_each_integer_chunk(std::move(reader), deal));
  if (parts[0].empty()) {
    return refuse(where, "expected at least one node of type 1 (train), found none");
  }
  SplitArrays split;
  GNN_ASSIGN_OR_RETURN(split.train, store_ids(storage, kTrainName, parts[0]));
  GNN_ASSIGN_OR_RETURN(split.validation, store_ids(storage, kValidationName, parts[1]));
  GNN_ASSIGN_OR_RETURN(split.test, store_ids(storage, kTestName, parts[2]));
  split.read_from = {{kTrainName, where}, {kValidationName, where}, {kTestName, where}};
  return split;
}

// The member's reader, if it has one dimension and as many elements as `expected` (-1: any number).
Result<NpyReader> open_column(const NpzArchive& graph, const char* member, int64_t expected) {
  GNN_ASSIGN_OR_RETURN(NpyReader reader, graph.open_array(member));
  const std::vector<int64_t>& shape = reader.header().shape;
  if (shape.size() != 1 || (expected >= 0 && shape[0] != expected)) {
    return refuse(
        reader.name(),
        "expected one element per edge, [" +
            (expected >= 0 ? std::to_string(expected) : std::string("E")) + "], found " +
            shape_text(shape)
    );
  }
  return reader;
}

Result<CscArrays> read_matrix(
    const RedditArchives& archives,
    int64_t num_nodes,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  GNN_ASSIGN_OR_RETURN(CscArrays done, find_csc(storage, kEdgesName, options.link.has_value()));
  if (done.indptr.defined()) {
    return done;
  }
  GNN_ASSIGN_OR_RETURN(NpyReader rows, open_column(archives.graph, "row", -1));
  const int64_t num_edges = rows.header().num_elements();
  GNN_ASSIGN_OR_RETURN(NpyReader columns, open_column(archives.graph, "col", num_edges));
  GNN_RETURN_IF_ERROR(open_column(archives.graph, "data", num_edges));
  GNN_ASSIGN_OR_RETURN(EdgeBuffer buffer, EdgeBuffer::create(storage, num_edges, num_nodes));
  progress.begin("reading edges", 2 * num_edges, "ids");
  const auto set_sources = [&](int64_t edge, std::span<const int64_t> ids) -> Status {
    for (const int64_t id : ids) {
      buffer.set_source(edge++, id);
    }
    progress.advance_to(edge, {});
    return {};
  };
  const auto set_destinations = [&](int64_t edge, std::span<const int64_t> ids) -> Status {
    for (const int64_t id : ids) {
      buffer.set_destination(edge++, id);
    }
    progress.advance_to(num_edges + edge, {});
    return {};
  };
  GNN_RETURN_IF_ERROR(for_each_integer_chunk(std::move(rows), set_sources));
  GNN_RETURN_IF_ERROR(for_each_integer_chunk(std::move(columns), set_destinations));
  progress.end();
  return build_csc(
      buffer.edges(num_edges, archives.graph_path + "(row.npy, col.npy): element ", 0),
      csc_options(num_nodes, options),
      storage,
      kEdgesName,
      progress
  );
}

Result<Array> read_rows(
    const NpzArchive& data,
    int64_t num_nodes,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  GNN_ASSIGN_OR_RETURN(Array done, storage.find(kFeaturesName));
  if (done.defined()) {
    return done;
  }
  const auto open = [&data] { return data.open_array("feature"); };
  return read_npy_features(open, kFeaturesName, num_nodes, options, storage, progress);
}

}  // namespace

Result<DatasetArrays> read_reddit(
    const std::string& folder,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  if (!options.split.empty()) {
    return fail(
        ErrorKind::Configuration,
        folder + ": Reddit has one split, which has no name; leave out '" + options.split + "'"
    );
  }
  ReadOptions reading = options;
  reading.coalesce = true;
  GNN_ASSIGN_OR_RETURN(const RedditArchives archives, RedditArchives::open(folder));
  // Small parts first, so that their errors show before minutes of reading.
  GNN_ASSIGN_OR_RETURN(const int64_t nodes, count_feature_rows(archives.data));
  GNN_RETURN_IF_ERROR(check_matrix(archives.graph, nodes));
  const std::string labels_at = archives.data_path + "(label.npy)";
  GNN_ASSIGN_OR_RETURN(Array labels, read_classes(archives.data, nodes, labels_at, storage));
  GNN_ASSIGN_OR_RETURN(
      const int64_t num_classes,
      count_classes(labels.view<int64_t>(), options, labels_at + ": node ")
  );
  GNN_ASSIGN_OR_RETURN(SplitArrays split, read_node_types(archives.data, nodes, storage));
  GNN_ASSIGN_OR_RETURN(
      const CscArrays edges, read_matrix(archives, nodes, reading, storage, progress)
  );
  GNN_ASSIGN_OR_RETURN(Array features, read_rows(archives.data, nodes, reading, storage, progress));
  DatasetArrays dataset =
      homogeneous("reddit", nodes, std::move(features), std::move(labels), edges);
  dataset.num_classes = num_classes;
  take_split(dataset, std::move(split));
  dataset.read_from[kLabelsName] = labels_at;
  dataset.origin.source = "Reddit";
  dataset.origin.path = folder;
  dataset.origin.options = describe(reading);
  return dataset;
}

}  // namespace gnn::data
