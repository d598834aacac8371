#include "worker/data/readers/edge_list.h"

#include "worker/data/io/npy.h"
#include "worker/data/items.h"
#include "worker/data/readers/edge_spool.h"
#include "worker/data/readers/npy_arrays.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

namespace gnn::data {
namespace {

namespace fs = std::filesystem;

// The path of NAME.npy, NAME.csv.gz or NAME.csv, or "".
std::string find_part(const std::string& folder, const std::string& name) {
  std::error_code error;
  std::string npy = folder + "/" + name + ".npy";
  return fs::is_regular_file(npy, error) ? npy : find_csv(folder, name);
}

Result<NpyReader> open_npy(const std::string& path) {
  GNN_ASSIGN_OR_RETURN(auto source, open_file(path));
  return NpyReader::open(std::move(source));
}

Result<std::vector<int64_t>> read_column(const std::string& path) {
  std::vector<int64_t> values;
  if (path.ends_with(".npy")) {
    GNN_ASSIGN_OR_RETURN(NpyReader reader, open_npy(path));
    const NpyHeader& header = reader.header();
    if (header.shape.empty() || header.shape[0] != header.num_elements()) {
      return fail(
          ErrorKind::Data,
          path + ": expected a column, [N] or [N, 1], found " + shape_text(header.shape)
      );
    }
    values.resize(static_cast<size_t>(header.num_elements()));
    const int64_t none = -1;
    GNN_RETURN_IF_ERROR(reader.read_integers(values, &none));
    GNN_RETURN_IF_ERROR(reader.finish());
    return values;
  }
  GNN_ASSIGN_OR_RETURN(NumberReader reader, NumberReader::open(path));
  int64_t value = 0;
  while (true) {
    GNN_ASSIGN_OR_RETURN(const bool more, reader.next_integers({&value, 1}));
    if (!more) {
      return values;
    }
    values.push_back(value);
  }
}

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

Result<Array> read_features(
    const std::string& path,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  if (path.empty()) {
    return Array();
  }
  if (path.ends_with(".npy")) {
    GNN_ASSIGN_OR_RETURN(NpyReader reader, open_npy(path));
    const std::vector<int64_t>& shape = reader.header().shape;
    const int64_t num_nodes = shape.empty() ? 0 : shape[0];
    return read_npy_features(std::move(reader), num_nodes, options, storage, progress);
  }
  GNN_ASSIGN_OR_RETURN(NumberReader reader, NumberReader::open(path));
  std::vector<float> row;
  std::vector<float> rows;
  size_t width = 0;
  while (true) {
    GNN_ASSIGN_OR_RETURN(const bool more, reader.next_floats(row));
    if (!more) {
      break;
    }
    if (!rows.empty() && row.size() != width) {
      return fail(
          ErrorKind::Data,
          reader.where() + ": expected " + std::to_string(width) + " values, found " +
              std::to_string(row.size())
      );
    }
    width = row.size();
    rows.insert(rows.end(), row.begin(), row.end());
  }
  if (rows.empty()) {
    return fail(ErrorKind::Data, path + ": empty");
  }
  GNN_ASSIGN_OR_RETURN(
      FeatureBuffer features,
      FeatureBuffer::create(
          storage,
          kFeaturesName,
          static_cast<int64_t>(rows.size() / width),
          static_cast<int64_t>(width),
          options
      )
  );
  for (size_t i = 0; i < rows.size() / width; ++i) {
    GNN_RETURN_IF_ERROR(
        features.set_row(static_cast<int64_t>(i), std::span(rows).subspan(i * width, width))
    );
  }
  return features.commit(storage);
}

Result<SplitArrays> read_split(
    const std::string& folder, const ReadOptions& options, int64_t num_nodes, ArrayStorage& storage
) {
  SplitArrays arrays;
  const std::string train = find_part(folder, "train");
  if (train.empty() && options.split_required) {
    return fail(
        ErrorKind::NotFound,
        folder + ": the split is missing, expected train.npy, train.csv.gz or train.csv"
    );
  }
  if (train.empty()) {
    return arrays;
  }
  struct Part {
    const char* name;
    const char* array_name;
    Array& array;
  };
  SplitIds split(num_nodes);
  for (const Part& part :
       {Part{"train", kTrainName, arrays.train},
        Part{"validation", kValidationName, arrays.validation},
        Part{"test", kTestName, arrays.test}}) {
    std::vector<int64_t> ids;
    if (const std::string path = find_part(folder, part.name); !path.empty()) {
      GNN_ASSIGN_OR_RETURN(ids, read_column(path));
      GNN_RETURN_IF_ERROR(split.add_part(part.name, path, ids));
      arrays.read_from[part.array_name] = path;
    }
    GNN_ASSIGN_OR_RETURN(part.array, store_ids(storage, part.array_name, ids));
  }
  GNN_RETURN_IF_ERROR(split.finish());
  return arrays;
}

}  // namespace

Result<DatasetArrays> read_edge_list(
    const std::string& folder,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  const std::string edge_path = find_part(folder, "edges");
  if (edge_path.empty()) {
    return fail(ErrorKind::NotFound, folder + ": expected edges.npy, edges.csv.gz or edges.csv");
  }
  GNN_ASSIGN_OR_RETURN(const EdgeFile edge_file, EdgeFile::open(edge_path, storage, progress));
  GNN_ASSIGN_OR_RETURN(Array features, storage.find(kFeaturesName));
  if (!features.defined()) {
    GNN_ASSIGN_OR_RETURN(
        features, read_features(find_part(folder, "features"), options, storage, progress)
    );
  }
  std::vector<int64_t> labels;
  const std::string label_path = find_part(folder, "labels");
  if (!label_path.empty()) {
    GNN_ASSIGN_OR_RETURN(labels, read_column(label_path));
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
  GNN_ASSIGN_OR_RETURN(SplitArrays split, read_split(folder, options, num_nodes, storage));
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
