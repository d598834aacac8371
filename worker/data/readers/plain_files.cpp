#include "worker/data/readers/plain_files.h"

#include "worker/data/items.h"
#include "worker/data/readers/npy_arrays.h"

#include <filesystem>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

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

namespace {

// Lines that are not blank.
Result<int64_t> count_lines(const std::string& path) {
  GNN_ASSIGN_OR_RETURN(auto source, open_by_suffix(path));
  LineReader lines(std::move(source));
  int64_t count = 0;
  while (true) {
    GNN_ASSIGN_OR_RETURN(const LineReader::Line line, lines.next());
    if (line.at_end) {
      return count;
    }
    count += line.text.find_first_not_of(" \t") != std::string_view::npos ? 1 : 0;
  }
}

// The rows of a text, all as wide as the first.
Result<Array> read_text_features(
    const std::string& path,
    const std::string& name,
    const ReadOptions& options,
    ArrayStorage& storage
) {
  std::vector<float> row;
  GNN_ASSIGN_OR_RETURN(NumberReader first, NumberReader::open(path));
  GNN_ASSIGN_OR_RETURN(const bool any, first.next_floats(row));
  if (!any) {
    return fail(ErrorKind::Data, path + ": empty");
  }
  GNN_ASSIGN_OR_RETURN(const int64_t num_rows, count_lines(path));
  const auto read = [&](const FeatureRows::Visit& visit) -> Status {
    GNN_ASSIGN_OR_RETURN(NumberReader reader, NumberReader::open(path));
    for (int64_t index = 0; index < num_rows; ++index) {
      GNN_ASSIGN_OR_RETURN(const bool more, reader.next_floats(std::span(row)));
      if (!more) {
        return fail(
            ErrorKind::Data, path + ": became shorter than " + std::to_string(num_rows) + " lines"
        );
      }
      GNN_RETURN_IF_ERROR(visit(index, row));
    }
    return {};
  };
  return store_features(
      {.name = name, .num_rows = num_rows, .width = static_cast<int64_t>(row.size()), .read = read},
      options,
      storage
  );
}

}  // namespace

Result<Array> read_column(const std::string& path, ArrayStorage& storage) {
  if (!path.ends_with(".npy")) {
    GNN_ASSIGN_OR_RETURN(const int64_t count, count_lines(path));
    return read_integer_lines(path, count, storage);
  }
  GNN_ASSIGN_OR_RETURN(NpyReader reader, open_npy(path));
  const NpyHeader& header = reader.header();
  if (header.shape.empty() || header.shape[0] != header.num_elements()) {
    return fail(
        ErrorKind::Data,
        path + ": expected a column, [N] or [N, 1], found " + shape_text(header.shape)
    );
  }
  GNN_ASSIGN_OR_RETURN(Array values, storage.scratch(DType::Int64, {header.num_elements()}));
  const int64_t none = -1;
  GNN_RETURN_IF_ERROR(reader.read_integers(values.mutable_view<int64_t>(), &none));
  GNN_RETURN_IF_ERROR(reader.finish());
  return values;
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
  if (!path.ends_with(".npy")) {
    return read_text_features(path, name, options, storage);
  }
  const auto open = [&path] { return open_npy(path); };
  return read_npy_features(open, name, -1, options, storage, progress);
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
    Array column;
    std::span<const int64_t> ids;
    if (const std::string path = find_part(folder, part.name); !path.empty()) {
      GNN_ASSIGN_OR_RETURN(column, read_column(path, storage));
      ids = std::as_const(column).view<int64_t>();
      GNN_RETURN_IF_ERROR(split.add_part(part.name, path, ids));
      arrays.read_from[part.array_name] = path;
    }
    GNN_ASSIGN_OR_RETURN(part.array, store_ids(storage, part.array_name, ids));
  }
  GNN_RETURN_IF_ERROR(split.finish());
  return arrays;
}

}  // namespace gnn::data
