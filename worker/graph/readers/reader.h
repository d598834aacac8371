#pragma once

#include "common/progress.h"
#include "common/result.h"
#include "worker/graph/array.h"
#include "worker/graph/csc_builder.h"
#include "worker/graph/dataset_arrays.h"
#include "worker/graph/io/byte_source.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::graph {

/// What all readers can be asked for.
struct ReadOptions {
  std::string split;           // folder or name of the split; empty: the only one there is
  bool split_required = true;  // false: a data set that comes without a split is fine
  bool to_undirected = false;
  bool coalesce = false;
  SelfLoops self_loops = SelfLoops::Keep;
  bool normalize_rows = false;           // PyG's NormalizeFeatures
  DType feature_dtype = DType::Float32;  // or Float16
  std::optional<int64_t> num_classes;    // absent: the largest label + 1
};

/// "split=planetoid, toUndirected=true, …": what Origin::options records.
std::string describe(const ReadOptions& options);

/// The path of `stem` + ".csv.gz" or ".csv" in `folder`, or "" when there is neither.
std::string find_csv(const std::string& folder, const std::string& stem);

/// Lines of numbers parted by `separator` and blanks; ' ' means blanks alone.
class NumberReader {
 public:
  /// Errors: NotFound, Io.
  static Result<NumberReader> open(const std::string& path, char separator = ',');
  NumberReader(LineReader lines, char separator)
      : lines_(std::move(lines)), separator_(separator) {}

  /// The integers of the next line that is not blank, exactly out.size() of them; false at the end.
  /// "3.0" is taken for 3. Errors: Data with file and line.
  Result<bool> next_integers(std::span<int64_t> out);
  /// As many integers as there are in the next line.
  Result<bool> next_integers(std::vector<int64_t>& out);
  /// Finite floating-point numbers, exactly out.size() of them.
  Result<bool> next_floats(std::span<float> out);
  /// As many as there are; for the first line, whose length gives the width.
  Result<bool> next_floats(std::vector<float>& out);
  /// As many as there are, integers up to 2^53 exactly.
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

/// A reader's edges before they are sorted: two scratch arrays, int32 when `num_nodes` allows.
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
  /// An id that doesn't fit becomes -1, which build_csc() then reports with the place it stands at.
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

/// Feature rows on their way into storage: filled as float32, normalised and narrowed at the end as
/// the options say.
class FeatureBuffer {
 public:
  static Result<FeatureBuffer> create(
      ArrayStorage& storage,
      std::string name,
      int64_t num_rows,
      int64_t width,
      const ReadOptions& options
  );
  [[nodiscard]] std::span<float> row(int64_t index) {
    return all().subspan(static_cast<size_t>(index * width_), static_cast<size_t>(width_));
  }
  [[nodiscard]] std::span<float> all() { return values_.mutable_view<float>(); }
  Result<Array> commit(ArrayStorage& storage);

 private:
  Array values_;    // the result itself, or scratch when it is to be narrowed
  Array narrowed_;  // float16 result, or undefined
  int64_t width_ = 0;
  bool normalize_rows_ = false;
};

/// PyG's NormalizeFeatures: subtracts the smallest value of the matrix from all, then divides each
/// row by its sum where that is 1 or more.
void normalize_rows(std::span<float> values, int64_t width);

/// A one-dimensional int64 array with these elements, committed under `name`.
Result<Array> store_ids(
    ArrayStorage& storage, const std::string& name, std::span<const int64_t> ids
);

/// Names in a homogeneous data set: of its types, and of the arrays in storage.
inline constexpr const char* kNodeType = "node";
inline constexpr const char* kRelation = "to";
inline constexpr const char* kFeaturesName = "nodes.node.features";
inline constexpr const char* kLabelsName = "nodes.node.labels";
inline constexpr const char* kEdgesName = "edges.node.to.node";

CscOptions csc_options(int64_t num_nodes, const ReadOptions& options);

/// A homogeneous data set of these parts, without labels' classes, split and origin.
DatasetArrays homogeneous(
    std::string name, int64_t num_nodes, Array features, Array labels, const CscArrays& edges
);

/// Fails unless all labels lie in [-1, num_classes) and returns the number of classes: the option,
/// or the largest label + 1. Messages name label i as `where` followed by i.
Result<int64_t> count_classes(
    std::span<const int64_t> labels, const ReadOptions& options, const std::string& where
);

/// An EdgeBuffer's worth of edges that a reader collected one by one, sorted.
struct EdgePair {
  int64_t source;
  int64_t destination;
};
/// The edges of a text file, source and destination a line, whose ids start at `first_id`.
Result<std::vector<EdgePair>> read_text_edges(
    const std::string& path, int64_t first_id, Progress& progress
);
Result<CscArrays> build_csc_of(
    std::span<const EdgePair> edges,
    int64_t num_nodes,
    const ReadOptions& options,
    ArrayStorage& storage,
    Progress& progress,
    const std::string& where_prefix
);

/// One-hot rows for `category` of each row, in columns [first, first + number of categories).
void one_hot(FeatureBuffer& features, std::span<const int64_t> categories, int64_t first);

/// Checks ids of a split one by one: in range, none twice.
class SplitIds {
 public:
  explicit SplitIds(int64_t num_items) : seen_(static_cast<size_t>(num_items)) {}
  /// `where` says where the id stands.
  Status add(int64_t id, const std::string& where);
  [[nodiscard]] const std::vector<int64_t>& ids() const { return ids_; }

 private:
  std::vector<bool> seen_;
  std::vector<int64_t> ids_;
};

}  // namespace gnn::graph
