#include "worker/data/readers/edge_list.h"

#include "worker/data/io/npy.h"
#include "worker/data/readers/edge_spool.h"
#include "worker/data/readers/npy_arrays.h"
#include "worker/data/readers/plain_files.h"
#include "worker/data/readers/typed_edge_list.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

namespace gnn::data {
namespace {

namespace fs = std::filesystem;

// Edges of text are parsed once; those of a .npy file are read where they are needed, a few thousand
// at a time.
struct EdgeFile {
  std::string path;
  std::optional<EdgeSpool> text;  // nothing if it is a .npy file

  static Result<EdgeFile> open(std::string path, ArrayStorage& storage, ProgressBar& progress) {
    if (path.ends_with(".npy")) {
      return EdgeFile{.path = std::move(path), .text = std::nullopt};
    }
    EdgeSpool empty(storage, path + ": edge ");
    GNN_ASSIGN_OR_RETURN(EdgeSpool text, read_text_edges(path, 0, std::move(empty), progress));
    return EdgeFile{.path = std::move(path), .text = std::move(text)};
  }

  // One more than the largest id.
  [[nodiscard]] Result<int64_t> count_nodes() const {
    int64_t num_edges = text ? text->num_edges() : 0;
    int64_t largest = text ? text->largest_id() : -1;
    if (!text) {
      GNN_ASSIGN_OR_RETURN(NpyReader reader, open_npy(path));
      num_edges = reader.header().num_elements() / 2;
      const auto look = [&largest](int64_t, std::span<const int64_t> ids) -> Status {
        largest = std::max(largest, *std::max_element(ids.begin(), ids.end()));
        return {};
      };
      GNN_RETURN_IF_ERROR(for_each_integer_chunk(std::move(reader), look));
    }
    // Nothing else bounds the ids, and one damaged id must not exhaust memory.
    if (largest >= 64 * num_edges + 1024) {
      return fail(
          ErrorKind::Data,
          path + ": the largest id, " + std::to_string(largest) + ", is implausible for " +
              std::to_string(num_edges) +
              " edges; add labels or features, which set the number of nodes"
      );
    }
    return largest + 1;
  }

  Result<CscArrays> sorted(
      int64_t num_nodes, const ReadOptions& options, ArrayStorage& storage, ProgressBar& progress
  ) const {
    GNN_ASSIGN_OR_RETURN(CscArrays done, find_csc(storage, kEdgesName, options.link.has_value()));
    if (done.indptr.defined()) {
      return done;
    }
    if (text) {
      return build_csc(*text, csc_options(num_nodes, options), storage, kEdgesName, progress);
    }
    GNN_ASSIGN_OR_RETURN(NpyReader reader, open_npy(path));
    return read_npy_edges(std::move(reader), num_nodes, options, storage, progress);
  }
};

}  // namespace

Result<DatasetArrays> read_edge_list(
    const std::string& folder,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  const std::string edge_path = find_part(folder, "edges");
  if (is_typed_edge_list(folder)) {
    if (!edge_path.empty()) {
      return fail(
          ErrorKind::Data,
          edge_path + ": beside a folder nodes or edges of several types; leave out one of the two"
      );
    }
    return read_typed_edge_list(folder, options, storage, progress);
  }
  if (edge_path.empty()) {
    return fail(ErrorKind::NotFound, folder + ": expected edges.npy, edges.csv.gz or edges.csv");
  }
  GNN_ASSIGN_OR_RETURN(const EdgeFile edge_file, EdgeFile::open(edge_path, storage, progress));
  GNN_ASSIGN_OR_RETURN(Array features, storage.find(kFeaturesName));
  if (!features.defined()) {
    GNN_ASSIGN_OR_RETURN(
        features,
        read_plain_features(
            find_part(folder, "features"), kFeaturesName, options, storage, progress
        )
    );
  }
  Array label_column;
  std::span<const int64_t> labels;
  const std::string label_path = find_part(folder, "labels");
  if (!label_path.empty()) {
    GNN_ASSIGN_OR_RETURN(label_column, read_column(label_path, storage));
    labels = std::as_const(label_column).view<int64_t>();
  }
  int64_t num_nodes = 0;
  if (features.defined()) {
    num_nodes = features.size(0);
  } else if (!labels.empty()) {
    num_nodes = static_cast<int64_t>(labels.size());
  } else {
    GNN_ASSIGN_OR_RETURN(num_nodes, edge_file.count_nodes());
  }
  if (!labels.empty() && static_cast<int64_t>(labels.size()) != num_nodes) {
    return fail(
        ErrorKind::Data,
        label_path + ": expected " + std::to_string(num_nodes) +
            " labels as there are feature rows, found " + std::to_string(labels.size())
    );
  }
  GNN_ASSIGN_OR_RETURN(SplitArrays split, read_plain_split(folder, options, num_nodes, storage));
  GNN_ASSIGN_OR_RETURN(
      const CscArrays edges, edge_file.sorted(num_nodes, options, storage, progress)
  );
  Array label_array;
  int64_t num_classes = 0;
  if (!labels.empty()) {
    GNN_ASSIGN_OR_RETURN(num_classes, count_classes(labels, options, label_path + ": label "));
    GNN_ASSIGN_OR_RETURN(label_array, store_ids(storage, kLabelsName, labels));
  }
  DatasetArrays dataset = homogeneous(
      fs::path(folder + "/").lexically_normal().parent_path().filename().string(),
      num_nodes,
      std::move(features),
      std::move(label_array),
      edges
  );
  dataset.num_classes = num_classes;
  if (!label_path.empty()) {
    dataset.read_from[kLabelsName] = label_path;
  }
  take_split(dataset, std::move(split));
  dataset.origin.source = "EdgeList";
  dataset.origin.path = folder;
  dataset.origin.options = describe(options);
  return dataset;
}

}  // namespace gnn::data
