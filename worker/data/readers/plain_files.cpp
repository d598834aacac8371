#include "worker/data/readers/plain_files.h"

#include "worker/data/items.h"
#include "worker/data/readers/npy_arrays.h"

#include <filesystem>
#include <span>
#include <utility>

namespace gnn::data {

namespace fs = std::filesystem;

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

Result<Array> read_plain_features(
    const std::string& path,
    const std::string& name,
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
    return read_npy_features(
        std::move(reader), {.name = name, .num_nodes = num_nodes}, options, storage, progress
    );
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
          name,
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

Result<SplitArrays> read_plain_split(
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

}  // namespace gnn::data
