#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/data/array.h"
#include "worker/data/csc_builder.h"
#include "worker/data/dataset_arrays.h"
#include "worker/data/io/byte_source.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gnn::data {

/// Options of all readers.
struct ReadOptions {
  std::string split;           ///< folder or name of the split; empty: the only one
  bool split_required = true;  ///< false: the data set may have no split
  bool to_undirected = false;
  bool coalesce = false;
  SelfLoops self_loops = SelfLoops::Keep;
  bool normalize_rows = false;           ///< PyG's NormalizeFeatures
  DType feature_dtype = DType::Float32;  ///< or Float16
  std::optional<int64_t> num_classes;    ///< absent: the largest label + 1
  /// The edge type whose edges are numbered as links, for set_links(); absent: none.
  std::optional<EdgeTypeName> link{};
};

/// "split=planetoid, toUndirected=true, …", for Origin::options.
std::string describe(const ReadOptions& options);

/// The path of `stem` + ".csv.gz" or ".csv" in `folder`, or "" if neither exists.
std::string find_csv(const std::string& folder, const std::string& stem);

/// Lines of numbers separated by `separator` and blanks; ' ' means blanks alone.
class NumberReader {
 public:
  /// Errors: NotFound, Io.
  static Result<NumberReader> open(const std::string& path, char separator = ',');
  NumberReader(LineReader lines, char separator)
      : lines_(std::move(lines)), separator_(separator) {}

  /// Reads the integers of the next non-blank line, which must be out.size(); false at the end.
  /// "3.0" counts as 3.
  /// Errors: Data with file and line.
  Result<bool> next_integers(std::span<int64_t> out);
  /// As above, for any number of integers in the line.
  Result<bool> next_integers(std::vector<int64_t>& out);
  /// As above, for finite floating-point numbers.
  Result<bool> next_floats(std::span<float> out);
  /// As above, for any number of them: the first line, whose length gives the width.
  Result<bool> next_floats(std::vector<float>& out);
  /// As above; integers are exact up to 2^53.
  Result<bool> next_doubles(std::vector<double>& out);

  [[nodiscard]] std::string where() const { return lines_.where(); }
  [[nodiscard]] const ByteSource& source() const { return lines_.source(); }

 private:
  Result<bool> next_line();
  template <class T, class Out>
  Status parse_line(Out out);

  LineReader lines_;
  char separator_;
  std::string_view line_;
};

/// The first `count` lines of a text with an integer in each, int64 [count] in scratch memory.
/// Errors: NotFound, Io, Data with file and line.
Result<Array> read_integer_lines(const std::string& path, int64_t count, ArrayStorage& storage);

/// A reader's edges before they are sorted: two scratch arrays, int32 if `num_nodes` allows.
class EdgeBuffer {
 public:
  static Result<EdgeBuffer> create(ArrayStorage& storage, int64_t num_edges, int64_t num_nodes);

  void set(int64_t edge, int64_t source, int64_t destination) {
    set_source(edge, source);
    set_destination(edge, destination);
  }
  void set_source(int64_t edge, int64_t id) { set_end(source_data_, edge, id); }
  void set_destination(int64_t edge, int64_t id) { set_end(destination_data_, edge, id); }

  /// The first `count` edges; messages name edge i as `where_prefix` followed by i + first_number.
  [[nodiscard]] ArrayEdges edges(int64_t count, std::string where_prefix, int64_t first_number)
      const {
    return {sources_, destinations_, count, std::move(where_prefix), first_number};
  }

 private:
  EdgeBuffer(Array sources, Array destinations);
  /// An id that does not fit becomes -1, which build_csc() reports with its place in the input.
  void set_end(void* data, int64_t edge, int64_t id) const {
    if (narrow_) {
      static_cast<int32_t*>(data)[edge] =
          id >= 0 && id <= INT32_MAX ? static_cast<int32_t>(id) : -1;
    } else {
      static_cast<int64_t*>(data)[edge] = id;
    }
  }

  Array sources_;
  Array destinations_;
  void* source_data_;
  void* destination_data_;
  bool narrow_;
};

/// Feature rows under construction, given as float32 and stored as the options say.
class FeatureBuffer {
 public:
  static Result<FeatureBuffer> create(
      ArrayStorage& storage,
      std::string name,
      int64_t num_rows,
      int64_t width,
      const ReadOptions& options
  );
  /// `values`: as many as a row is wide. A row that is never set is zero.
  /// Errors: Data for a number that is too large for float16.
  Status set_row(int64_t index, std::span<const float> values);
  Result<Array> commit(ArrayStorage& storage) { return storage.commit(std::move(result_)); }

 private:
  Status narrow(size_t first, std::span<const float> values);

  Array result_;
  int64_t width_ = 0;
};

/// A feature matrix that is read row by row.
struct FeatureRows {
  using Visit = std::function<Status(int64_t index, std::span<const float> values)>;

  std::string name;  ///< of the array that is committed
  int64_t num_rows = 0;
  int64_t width = 0;
  /// Calls `visit` with all rows in their order.
  std::function<Status(const Visit& visit)> read;
};
/// Stores the rows, normalised if the options say so. That takes reading them twice, as each needs
/// the smallest value of all, and no memory for them.
/// Errors: those of `read` and of FeatureBuffer.
Result<Array> store_features(
    const FeatureRows& rows, const ReadOptions& options, ArrayStorage& storage
);

/// PyG's NormalizeFeatures: subtracts the smallest value of the matrix from all, then divides each
/// row by its sum where that is 1 or more.
void normalize_rows(std::span<float> values, int64_t width);

/// A one-dimensional int64 array with these elements, committed under `name`.
Result<Array> store_ids(
    ArrayStorage& storage, const std::string& name, std::span<const int64_t> ids
);

/// Names of the types and arrays of a homogeneous data set.
inline constexpr const char* kNodeType = "node";
inline constexpr const char* kRelation = "to";
inline constexpr const char* kFeaturesName = "nodes.node.features";
inline constexpr const char* kLabelsName = "nodes.node.labels";
inline constexpr const char* kEdgesName = "edges.node.to.node";
inline constexpr const char* kTrainName = "split.train";
inline constexpr const char* kValidationName = "split.validation";
inline constexpr const char* kTestName = "split.test";

/// Of the edges of a homogeneous data set.
CscOptions csc_options(int64_t num_nodes, const ReadOptions& options);

/// A homogeneous data set of these parts, without classes, split and origin.
DatasetArrays homogeneous(
    std::string name, int64_t num_nodes, Array features, Array labels, const CscArrays& edges
);

/// The parts of a data set's own split, and each one's file by the array's name.
struct SplitArrays {
  Array train;
  Array validation;
  Array test;
  std::map<std::string, std::string> read_from;
};
/// Makes it the split of `dataset`.
void take_split(DatasetArrays& dataset, SplitArrays split);

/// The number of classes: the option, or the largest label + 1. Messages name label i as `where`
/// followed by i.
/// Errors: Data unless all labels are in [-1, number of classes).
Result<int64_t> count_classes(
    std::span<const int64_t> labels, const ReadOptions& options, const std::string& where
);

struct EdgePair {
  int64_t source;
  int64_t destination;
};

/// build_csc() over edges that a reader collected; `where_prefix` as in EdgeBuffer::edges().
Result<CscArrays> build_csc_of(
    std::span<const EdgePair> edges,
    int64_t num_nodes,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress,
    const std::string& where_prefix
);

}  // namespace gnn::data
