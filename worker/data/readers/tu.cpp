#include "worker/data/readers/tu.h"

#include "worker/data/readers/edge_spool.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

namespace gnn::data {
namespace {

namespace fs = std::filesystem;

// Labels become columns: more distinct ones than this are numbers rather than labels.
constexpr size_t kMaxCategories = 4096;

// "…/raw/NAME" such that NAME_A.txt is there.
Result<std::string> find_stem(const std::string& folder) {
  constexpr std::string_view kEdges = "_A.txt";
  std::error_code error;
  for (const std::string& place : {folder, folder + "/raw"}) {
    for (const auto& entry : fs::directory_iterator(place, error)) {
      const std::string path = entry.path().string();
      if (path.ends_with(kEdges)) {
        return path.substr(0, path.size() - kEdges.size());
      }
    }
  }
  return fail(ErrorKind::NotFound, folder + ": expected a file NAME_A.txt of the TU form in it");
}

// The labels of a file with one per line.
Result<std::vector<int64_t>> read_labels(const std::string& path) {
  GNN_ASSIGN_OR_RETURN(NumberReader reader, NumberReader::open(path));
  std::vector<int64_t> values;
  std::vector<int64_t> line;
  while (true) {
    GNN_ASSIGN_OR_RETURN(const bool more, reader.next_integers(line));
    if (!more) {
      return values;
    }
    if (line.size() != 1) {
      return fail(
          ErrorKind::Data,
          reader.where() + ": expected one label, found " + std::to_string(line.size()) +
              " values; leave one column in the file"
      );
    }
    values.push_back(line.front());
  }
}

// Replaces values by their rank among the distinct values and returns the number of those.
int64_t rank_values(std::vector<int64_t>& values) {
  const std::set<int64_t> distinct(values.begin(), values.end());
  const std::vector<int64_t> sorted(distinct.begin(), distinct.end());
  for (int64_t& value : values) {
    value = std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin();
  }
  return static_cast<int64_t>(sorted.size());
}

// The first node of each graph, then the number of nodes.
Result<std::vector<int64_t>> read_offsets(const std::string& path, int64_t num_graphs) {
  GNN_ASSIGN_OR_RETURN(NumberReader reader, NumberReader::open(path));
  std::vector<int64_t> offsets{0};
  int64_t graph = 0;
  int64_t node = 0;
  while (true) {
    GNN_ASSIGN_OR_RETURN(const bool more, reader.next_integers({&graph, 1}));
    if (!more) {
      break;
    }
    // The nodes of a graph are adjacent and graphs are in order, so none is empty.
    const auto current = static_cast<int64_t>(offsets.size());
    if (graph == current + (node == 0 ? 0 : 1) && graph <= num_graphs) {
      if (node != 0) {
        offsets.push_back(node);
      }
    } else if (graph != current) {
      return fail(
          ErrorKind::Data,
          reader.where() + ": expected graph " + std::to_string(current) + " or the next of " +
              std::to_string(num_graphs) + ", found " + std::to_string(graph)
      );
    }
    ++node;
  }
  offsets.push_back(node);
  if (static_cast<int64_t>(offsets.size()) != num_graphs + 1 || node == 0) {
    return fail(
        ErrorKind::Data,
        path + ": expected nodes of " + std::to_string(num_graphs) + " graphs, found " +
            std::to_string(node == 0 ? 0 : offsets.size() - 1)
    );
  }
  return offsets;
}

// Attributes, then labels one-hot; undefined without either.
Result<Array> read_features(
    const std::string& stem, int64_t num_nodes, const ReadOptions& options, ArrayStorage& storage
) {
  std::error_code error;
  const std::string label_path = stem + "_node_labels.txt";
  const std::string attribute_path = stem + "_node_attributes.txt";
  std::vector<int64_t> labels;
  int64_t num_labels = 0;
  if (fs::is_regular_file(label_path, error)) {
    GNN_ASSIGN_OR_RETURN(labels, read_labels(label_path));
    num_labels = rank_values(labels);
    if (static_cast<int64_t>(labels.size()) != num_nodes ||
        static_cast<size_t>(num_labels) > kMaxCategories) {
      return fail(
          ErrorKind::Data,
          label_path + ": expected " + std::to_string(num_nodes) + " labels of at most " +
              std::to_string(kMaxCategories) + " kinds, found " + std::to_string(labels.size()) +
              " of " + std::to_string(num_labels)
      );
    }
  }
  std::optional<NumberReader> attributes;
  std::vector<float> first;
  if (fs::is_regular_file(attribute_path, error)) {
    GNN_ASSIGN_OR_RETURN(attributes, NumberReader::open(attribute_path));
    GNN_ASSIGN_OR_RETURN(const bool more, attributes->next_floats(first));
    if (!more) {
      return fail(ErrorKind::Data, attribute_path + ": empty");
    }
  }
  const auto num_attributes = static_cast<int64_t>(first.size());
  if (num_attributes + num_labels == 0) {
    return Array();
  }
  GNN_ASSIGN_OR_RETURN(
      FeatureBuffer features,
      FeatureBuffer::create(storage, kFeaturesName, num_nodes, num_attributes + num_labels, options)
  );
  std::vector<float> row = first;
  row.resize(static_cast<size_t>(num_attributes + num_labels));
  for (int64_t node = 0; node < num_nodes; ++node) {
    if (attributes && node > 0) {
      GNN_ASSIGN_OR_RETURN(
          const bool more, attributes->next_floats(std::span(row).first(first.size()))
      );
      if (!more) {
        return fail(
            ErrorKind::Data,
            attribute_path + ": ends after " + std::to_string(node) + " rows, expected " +
                std::to_string(num_nodes)
        );
      }
    }
    const std::span<float> one_hot = std::span(row).subspan(first.size());
    std::fill(one_hot.begin(), one_hot.end(), 0.0F);
    if (!labels.empty()) {
      one_hot[static_cast<size_t>(labels[static_cast<size_t>(node)])] = 1.0F;
    }
    GNN_RETURN_IF_ERROR(features.set_row(node, row));
  }
  if (attributes) {
    GNN_ASSIGN_OR_RETURN(const bool more, attributes->next_floats(first));
    if (more) {
      return fail(
          ErrorKind::Data,
          attributes->where() + ": more rows than the " + std::to_string(num_nodes) + " nodes"
      );
    }
  }
  return features.commit(storage);
}

}  // namespace

Result<DatasetArrays> read_tu(
    const std::string& folder,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  GNN_ASSIGN_OR_RETURN(const std::string stem, find_stem(folder));
  GNN_ASSIGN_OR_RETURN(std::vector<int64_t> labels, read_labels(stem + "_graph_labels.txt"));
  const auto num_graphs = static_cast<int64_t>(labels.size());
  if (num_graphs == 0) {
    return fail(ErrorKind::Data, stem + "_graph_labels.txt: expected at least one graph");
  }
  const int64_t num_classes = rank_values(labels);
  GNN_ASSIGN_OR_RETURN(
      const std::vector<int64_t> offsets, read_offsets(stem + "_graph_indicator.txt", num_graphs)
  );
  const int64_t num_nodes = offsets.back();
  GNN_ASSIGN_OR_RETURN(
      const EdgeSpool spool,
      read_text_edges(
          stem + "_A.txt", 1, EdgeSpool(storage, stem + "_A.txt (ids from 0): line "), progress
      )
  );
  GNN_ASSIGN_OR_RETURN(
      const CscArrays edges,
      build_csc(spool, csc_options(num_nodes, options), storage, kEdgesName, progress)
  );
  GNN_ASSIGN_OR_RETURN(Array features, read_features(stem, num_nodes, options, storage));
  DatasetArrays dataset = homogeneous(
      fs::path(stem).filename().string(), num_nodes, std::move(features), Array(), edges
  );
  dataset.num_classes = num_classes;
  GNN_ASSIGN_OR_RETURN(dataset.graph_offsets, store_ids(storage, "graphs.offsets", offsets));
  GNN_ASSIGN_OR_RETURN(dataset.graph_labels, store_ids(storage, "graphs.labels", labels));
  dataset.origin.source = "TU";
  dataset.origin.path = folder;
  dataset.origin.options = describe(options);
  return dataset;
}

}  // namespace gnn::data
