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

// Calls `take` with the labels of a file with one per line.
template <class Take>
Status for_each_label(const std::string& path, const Take& take) {
  GNN_ASSIGN_OR_RETURN(NumberReader reader, NumberReader::open(path));
  std::vector<int64_t> line;
  while (true) {
    GNN_ASSIGN_OR_RETURN(const bool more, reader.next_integers(line));
    if (!more) {
      return {};
    }
    if (line.size() != 1) {
      return fail(
          ErrorKind::Data,
          reader.where() + ": expected one label, found " + std::to_string(line.size()) +
              " values; leave one column in the file"
      );
    }
    take(line.front());
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

// The distinct labels of all nodes, ascending; none without the file.
Result<std::vector<int64_t>> read_label_kinds(const std::string& path, int64_t num_nodes) {
  std::error_code error;
  std::set<int64_t> kinds;
  if (!fs::is_regular_file(path, error)) {
    return std::vector<int64_t>();
  }
  int64_t count = 0;
  GNN_RETURN_IF_ERROR(for_each_label(path, [&](int64_t label) {
    ++count;
    if (kinds.size() <= kMaxCategories) kinds.insert(label);
  }));
  if (count != num_nodes || kinds.size() > kMaxCategories) {
    return fail(
        ErrorKind::Data,
        path + ": expected " + std::to_string(num_nodes) + " labels of at most " +
            std::to_string(kMaxCategories) + " kinds, found " + std::to_string(count) + " of " +
            std::to_string(kinds.size())
    );
  }
  return std::vector<int64_t>(kinds.begin(), kinds.end());
}

// Attributes, then labels one-hot; undefined without either.
Result<Array> read_features(
    const std::string& stem, int64_t num_nodes, const ReadOptions& options, ArrayStorage& storage
) {
  std::error_code error;
  const std::string label_path = stem + "_node_labels.txt";
  const std::string attribute_path = stem + "_node_attributes.txt";
  GNN_ASSIGN_OR_RETURN(const std::vector<int64_t> kinds, read_label_kinds(label_path, num_nodes));
  const bool has_attributes = fs::is_regular_file(attribute_path, error);
  std::vector<float> first;
  if (has_attributes) {
    GNN_ASSIGN_OR_RETURN(NumberReader reader, NumberReader::open(attribute_path));
    GNN_ASSIGN_OR_RETURN(const bool more, reader.next_floats(first));
    if (!more) {
      return fail(ErrorKind::Data, attribute_path + ": empty");
    }
  }
  const size_t width = first.size() + kinds.size();
  if (width == 0) {
    return Array();
  }
  const auto read = [&](const FeatureRows::Visit& visit) -> Status {
    std::optional<NumberReader> attributes;
    std::optional<NumberReader> labels;
    if (has_attributes) {
      GNN_ASSIGN_OR_RETURN(attributes, NumberReader::open(attribute_path));
    }
    if (!kinds.empty()) {
      GNN_ASSIGN_OR_RETURN(labels, NumberReader::open(label_path));
    }
    std::vector<float> row(width);
    for (int64_t node = 0; node < num_nodes; ++node) {
      if (attributes) {
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
      if (labels) {
        int64_t label = 0;
        GNN_RETURN_IF_ERROR(labels->next_integers({&label, 1}));
        const auto kind = std::lower_bound(kinds.begin(), kinds.end(), label) - kinds.begin();
        one_hot[static_cast<size_t>(kind)] = 1.0F;
      }
      GNN_RETURN_IF_ERROR(visit(node, row));
    }
    std::vector<float> rest;
    if (attributes) {
      GNN_ASSIGN_OR_RETURN(const bool more, attributes->next_floats(rest));
      if (more) {
        return fail(
            ErrorKind::Data,
            attributes->where() + ": more rows than the " + std::to_string(num_nodes) + " nodes"
        );
      }
    }
    return {};
  };
  return store_features(
      {.name = kFeaturesName,
       .num_rows = num_nodes,
       .width = static_cast<int64_t>(width),
       .read = read},
      options,
      storage
  );
}

}  // namespace

Result<DatasetArrays> read_tu(
    const std::string& folder,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  GNN_ASSIGN_OR_RETURN(const std::string stem, find_stem(folder));
  std::vector<int64_t> labels;
  GNN_RETURN_IF_ERROR(for_each_label(stem + "_graph_labels.txt", [&labels](int64_t label) {
    labels.push_back(label);
  }));
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
