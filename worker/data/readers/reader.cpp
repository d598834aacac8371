#include "worker/data/readers/reader.h"

#include "worker/data/half.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <type_traits>
#include <utility>

namespace gnn::data {
namespace {

std::string_view name_of(SelfLoops self_loops) {
  switch (self_loops) {
    case SelfLoops::Keep:
      return "keep";
    case SelfLoops::Remove:
      return "remove";
    case SelfLoops::Add:
      return "add";
    case SelfLoops::AddRemaining:
      return "add-remaining";
  }
  return "keep";
}

bool is_blank(char character) {
  return character == ' ' || character == '\t';
}

// Reads a number at `at` and moves `at` behind it; false if there is none or it is not a T.
template <class T>
bool parse_number(const char*& at, const char* end, T& value) {
  if (at != end && *at == '+') {
    ++at;
  }
  if constexpr (std::is_integral_v<T>) {
    const auto [stop, code] = std::from_chars(at, end, value);
    if (code == std::errc() && (stop == end || (*stop != '.' && *stop != 'e' && *stop != 'E'))) {
      at = stop;
      return true;
    }
    double number = 0;
    const auto [float_stop, float_code] = std::from_chars(at, end, number);
    if (float_code != std::errc() || std::trunc(number) != number || std::abs(number) > 9.0e15) {
      return false;
    }
    at = float_stop;
    value = static_cast<T>(number);
    return true;
  } else {
    const auto [stop, code] = std::from_chars(at, end, value);
    at = stop;
    return code == std::errc() && std::isfinite(value);
  }
}

// Puts numbers into a span and knows whether it was filled exactly.
template <class T>
struct SpanOut {
  std::span<T> values;
  size_t count = 0;
  void add(T value) {
    if (count < values.size()) {
      values[count] = value;
    }
    ++count;
  }
  [[nodiscard]] bool complete() const { return count == values.size(); }
  [[nodiscard]] size_t expected() const { return values.size(); }
};

template <class T>
struct VectorOut {
  std::vector<T>& values;
  size_t count = 0;
  void add(T value) {
    values.push_back(value);
    ++count;
  }
  [[nodiscard]] static bool complete() { return true; }
  [[nodiscard]] size_t expected() const { return count; }
};

void normalize_row(std::span<float> row, float smallest) {
  double sum = 0;
  for (float& value : row) {
    value -= smallest;
    sum += static_cast<double>(value);
  }
  const auto divisor = static_cast<float>(std::max(sum, 1.0));
  for (float& value : row) {
    value /= divisor;
  }
}

}  // namespace

std::string describe(const ReadOptions& options) {
  std::string text = "split=" + options.split;
  text += std::string(", toUndirected=") + (options.to_undirected ? "true" : "false");
  text += std::string(", coalesce=") + (options.coalesce ? "true" : "false");
  text += ", selfLoops=" + std::string(name_of(options.self_loops));
  text += std::string(", rowNormalize=") + (options.normalize_rows ? "true" : "false");
  text += ", featureDtype=" + std::string(dtype_name(options.feature_dtype));
  if (options.num_classes) {
    text += ", classes=" + std::to_string(*options.num_classes);
  }
  if (options.link) {
    text += ", link=" + text_of(*options.link);
  }
  return text;
}

std::string find_csv(const std::string& folder, const std::string& stem) {
  const std::string table = folder + "/" + stem;
  for (const char* suffix : {".csv.gz", ".csv"}) {
    std::string path = table + suffix;
    std::error_code error;
    if (std::filesystem::is_regular_file(path, error)) {
      return path;
    }
  }
  return "";
}

Result<NumberReader> NumberReader::open(const std::string& path, char separator) {
  GNN_ASSIGN_OR_RETURN(auto source, open_by_suffix(path));
  return NumberReader(LineReader(std::move(source)), separator);
}

Result<bool> NumberReader::next_line() {
  while (true) {
    GNN_ASSIGN_OR_RETURN(const LineReader::Line line, lines_.next());
    if (line.at_end) {
      return false;
    }
    line_ = line.text;
    if (!std::all_of(line_.begin(), line_.end(), is_blank)) {
      return true;
    }
  }
}

template <class T, class Out>
Status NumberReader::parse_line(Out out) {
  const char* at = line_.data();
  const char* const end = at + line_.size();
  const auto skip_blanks = [&] {
    while (at != end && is_blank(*at)) {
      ++at;
    }
  };
  skip_blanks();
  while (at != end) {
    const char* const begin = at;
    T value{};
    if (!parse_number(at, end, value)) {
      const char* const stop = std::find(begin, end, separator_);
      const std::string found(begin, std::min<size_t>(static_cast<size_t>(stop - begin), 40));
      return fail(
          ErrorKind::Data,
          where() + ": value " + std::to_string(out.count + 1) + ": expected " +
              (std::is_integral_v<T> ? "an integer" : "a finite number") + ", found '" + found + "'"
      );
    }
    out.add(value);
    const char* const number_end = at;
    skip_blanks();
    if (at != end && *at == separator_) {
      ++at;
      skip_blanks();
    } else if (at != end && (separator_ != ' ' || at == number_end)) {
      return fail(
          ErrorKind::Data,
          where() + ": value " + std::to_string(out.count) + " is followed by '" + *at + "'"
      );
    }
  }
  if (!out.complete()) {
    return fail(
        ErrorKind::Data,
        where() + ": expected " + std::to_string(out.expected()) + " values, found " +
            std::to_string(out.count)
    );
  }
  return {};
}

Result<bool> NumberReader::next_integers(std::span<int64_t> out) {
  GNN_ASSIGN_OR_RETURN(const bool more, next_line());
  if (more) {
    GNN_RETURN_IF_ERROR(parse_line<int64_t>(SpanOut<int64_t>{out}));
  }
  return more;
}

Result<bool> NumberReader::next_integers(std::vector<int64_t>& out) {
  out.clear();
  GNN_ASSIGN_OR_RETURN(const bool more, next_line());
  if (more) {
    GNN_RETURN_IF_ERROR(parse_line<int64_t>(VectorOut<int64_t>{out}));
  }
  return more;
}

Result<bool> NumberReader::next_floats(std::span<float> out) {
  GNN_ASSIGN_OR_RETURN(const bool more, next_line());
  if (more) {
    GNN_RETURN_IF_ERROR(parse_line<float>(SpanOut<float>{out}));
  }
  return more;
}

Result<bool> NumberReader::next_floats(std::vector<float>& out) {
  out.clear();
  GNN_ASSIGN_OR_RETURN(const bool more, next_line());
  if (more) {
    GNN_RETURN_IF_ERROR(parse_line<float>(VectorOut<float>{out}));
  }
  return more;
}

Result<bool> NumberReader::next_doubles(std::vector<double>& out) {
  out.clear();
  GNN_ASSIGN_OR_RETURN(const bool more, next_line());
  if (more) {
    GNN_RETURN_IF_ERROR(parse_line<double>(VectorOut<double>{out}));
  }
  return more;
}

Result<Array> read_integer_lines(const std::string& path, int64_t count, ArrayStorage& storage) {
  GNN_ASSIGN_OR_RETURN(NumberReader reader, NumberReader::open(path));
  GNN_ASSIGN_OR_RETURN(Array numbers, storage.scratch(DType::Int64, {count}));
  for (int64_t& number : numbers.mutable_view<int64_t>()) {
    GNN_ASSIGN_OR_RETURN(const bool more, reader.next_integers({&number, 1}));
    if (!more) {
      return fail(
          ErrorKind::Data, path + ": became shorter than " + std::to_string(count) + " lines"
      );
    }
  }
  return numbers;
}

EdgeBuffer::EdgeBuffer(Array sources, Array destinations)
    : sources_(std::move(sources)),
      destinations_(std::move(destinations)),
      source_data_(sources_.mutable_bytes()),
      destination_data_(destinations_.mutable_bytes()),
      narrow_(sources_.dtype() == DType::Int32) {}

Result<EdgeBuffer> EdgeBuffer::create(ArrayStorage& storage, int64_t num_edges, int64_t num_nodes) {
  const DType dtype =
      num_nodes <= std::numeric_limits<int32_t>::max() ? DType::Int32 : DType::Int64;
  GNN_ASSIGN_OR_RETURN(Array sources, storage.scratch(dtype, {num_edges}));
  GNN_ASSIGN_OR_RETURN(Array destinations, storage.scratch(dtype, {num_edges}));
  return EdgeBuffer(std::move(sources), std::move(destinations));
}

Result<FeatureBuffer> FeatureBuffer::create(
    ArrayStorage& storage,
    std::string name,
    int64_t num_rows,
    int64_t width,
    const ReadOptions& options
) {
  if (width <= 0) {
    return fail(ErrorKind::Data, name + ": expected at least one feature a node");
  }
  if (options.feature_dtype != DType::Float32 && options.feature_dtype != DType::Float16) {
    return fail(
        ErrorKind::Configuration,
        "features can be stored as float32 or float16, not as " +
            std::string(dtype_name(options.feature_dtype))
    );
  }
  FeatureBuffer buffer;
  buffer.width_ = width;
  GNN_ASSIGN_OR_RETURN(
      buffer.result_, storage.create(std::move(name), options.feature_dtype, {num_rows, width})
  );
  return buffer;
}

Status FeatureBuffer::set_row(int64_t index, std::span<const float> values) {
  GNN_ASSERT(static_cast<int64_t>(values.size()) == width_, "readers know the width of the rows");
  const auto first = static_cast<size_t>(index * width_);
  if (result_.dtype() == DType::Float16) {
    return narrow(first, values);
  }
  std::copy(
      values.begin(),
      values.end(),
      result_.mutable_view<float>().subspan(first, values.size()).begin()
  );
  return {};
}

Status FeatureBuffer::narrow(size_t first, std::span<const float> values) {
  auto* to = reinterpret_cast<uint16_t*>(result_.mutable_bytes()) + first;
  for (size_t i = 0; i < values.size(); ++i) {
    to[i] = float_to_half(values[i]);
    if (!std::isfinite(half_to_float(to[i]))) {
      return fail(
          ErrorKind::Data,
          result_.name() + ": element " + std::to_string(first + i) + ": " +
              std::to_string(values[i]) + " is too large for float16"
      );
    }
  }
  return {};
}

Result<Array> store_features(
    const FeatureRows& rows, const ReadOptions& options, ArrayStorage& storage
) {
  GNN_ASSIGN_OR_RETURN(
      FeatureBuffer buffer,
      FeatureBuffer::create(storage, rows.name, rows.num_rows, rows.width, options)
  );
  if (!options.normalize_rows) {
    GNN_RETURN_IF_ERROR(rows.read([&](int64_t index, std::span<const float> values) {
      return buffer.set_row(index, values);
    }));
    return buffer.commit(storage);
  }
  float smallest = std::numeric_limits<float>::infinity();
  GNN_RETURN_IF_ERROR(rows.read([&](int64_t, std::span<const float> values) -> Status {
    smallest = std::min(smallest, *std::min_element(values.begin(), values.end()));
    return {};
  }));
  std::vector<float> row;
  GNN_RETURN_IF_ERROR(rows.read([&](int64_t index, std::span<const float> values) {
    row.assign(values.begin(), values.end());
    normalize_row(row, smallest);
    return buffer.set_row(index, row);
  }));
  return buffer.commit(storage);
}

void normalize_rows(std::span<float> values, int64_t width) {
  if (values.empty()) {
    return;
  }
  const float smallest = *std::min_element(values.begin(), values.end());
  const auto row_size = static_cast<size_t>(width);
  for (size_t begin = 0; begin < values.size(); begin += row_size) {
    normalize_row(values.subspan(begin, row_size), smallest);
  }
}

Result<Array> store_ids(
    ArrayStorage& storage, const std::string& name, std::span<const int64_t> ids
) {
  GNN_ASSIGN_OR_RETURN(Array found, storage.find(name));
  if (found.defined()) {
    return found;
  }
  GNN_ASSIGN_OR_RETURN(
      Array array, storage.create(name, DType::Int64, {static_cast<int64_t>(ids.size())})
  );
  std::copy(ids.begin(), ids.end(), array.mutable_view<int64_t>().begin());
  return storage.commit(std::move(array));
}

CscOptions csc_options(int64_t num_nodes, const ReadOptions& options) {
  return {
      .num_sources = num_nodes,
      .num_destinations = num_nodes,
      .to_undirected = options.to_undirected,
      .coalesce = options.coalesce,
      .self_loops = options.self_loops,
      .link_ids = options.link ? LinkIds::WithinType : LinkIds::No
  };
}

DatasetArrays homogeneous(
    std::string name, int64_t num_nodes, Array features, Array labels, const CscArrays& edges
) {
  DatasetArrays dataset;
  dataset.name = std::move(name);
  dataset.node_tables.push_back(
      {.name = kNodeType,
       .num_nodes = num_nodes,
       .features = std::move(features),
       .labels = std::move(labels)}
  );
  dataset.edge_tables.push_back(
      {.source = kNodeType,
       .relation = kRelation,
       .destination = kNodeType,
       .indptr = edges.indptr,
       .indices = edges.indices,
       .edge_ids = edges.edge_ids,
       .features = {}}
  );
  dataset.target_node_type = kNodeType;
  return dataset;
}

void take_split(DatasetArrays& dataset, SplitArrays split) {
  dataset.train = std::move(split.train);
  dataset.validation = std::move(split.validation);
  dataset.test = std::move(split.test);
  dataset.read_from.merge(split.read_from);
}

Result<int64_t> count_classes(
    std::span<const int64_t> labels, const ReadOptions& options, const std::string& where
) {
  int64_t largest = -1;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < -1 || (options.num_classes && labels[i] >= *options.num_classes)) {
      return fail(
          ErrorKind::Data,
          where + std::to_string(i) + ": expected a class " +
              (options.num_classes ? "below " + std::to_string(*options.num_classes) : "from 0 on"
              ) +
              " or -1 for none, found " + std::to_string(labels[i])
      );
    }
    largest = std::max(largest, labels[i]);
  }
  if (largest < 0) {
    return fail(ErrorKind::Data, where + "*: expected at least one label");
  }
  // A label beyond the number of items is damaged, and its output layer would not fit into memory.
  if (!options.num_classes && largest >= static_cast<int64_t>(labels.size())) {
    return fail(
        ErrorKind::Data,
        where + "*: the largest label, " + std::to_string(largest) +
            ", exceeds the number of labels, " + std::to_string(labels.size()) +
            "; if that is right, set the number of classes"
    );
  }
  return options.num_classes.value_or(largest + 1);
}

Result<CscArrays> build_csc_of(
    std::span<const EdgePair> edges,
    int64_t num_nodes,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress,
    const std::string& where_prefix
) {
  const auto count = static_cast<int64_t>(edges.size());
  GNN_ASSIGN_OR_RETURN(EdgeBuffer buffer, EdgeBuffer::create(storage, count, num_nodes));
  for (int64_t i = 0; i < count; ++i) {
    buffer.set(i, edges[static_cast<size_t>(i)].source, edges[static_cast<size_t>(i)].destination);
  }
  return build_csc(
      buffer.edges(count, where_prefix, 1),
      csc_options(num_nodes, options),
      storage,
      kEdgesName,
      progress
  );
}

}  // namespace gnn::data
