#pragma once

#include "common/progress.h"
#include "common/result.h"
#include "worker/graph/array.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace gnn::graph {

/// Edges in a fixed order that can be gone through more than once.
class EdgeSource {
 public:
  using Chunk =
      std::function<void(std::span<const int64_t> sources, std::span<const int64_t> destinations)>;

  virtual ~EdgeSource() = default;
  [[nodiscard]] virtual int64_t num_edges() const = 0;
  /// Calls `chunk` with all edges, some thousand at a time, in the same order each time.
  virtual void for_each_chunk(const Chunk& chunk) const = 0;
  /// Where edge `index` of that order stands in the input, for messages.
  [[nodiscard]] virtual std::string where(int64_t index) const {
    return "edge " + std::to_string(index);
  }
};

/// Edges kept as two arrays of the same integer type (int32 or int64).
class ArrayEdges final : public EdgeSource {
 public:
  /// `count` of the elements are used. `where_prefix` begins messages ("raw/edge.csv.gz: line "),
  /// to which the number of the edge plus `first_number` is added.
  ArrayEdges(
      Array sources,
      Array destinations,
      int64_t count,
      std::string where_prefix,
      int64_t first_number
  );

  [[nodiscard]] int64_t num_edges() const override { return count_; }
  void for_each_chunk(const Chunk& chunk) const override;
  [[nodiscard]] std::string where(int64_t index) const override;

 private:
  Array sources_;
  Array destinations_;
  int64_t count_;
  std::string where_prefix_;
  int64_t first_number_;
};

/// The edges of in-neighbour lists, in their order.
class CscEdges final : public EdgeSource {
 public:
  /// indptr int64 [n + 1], indices int32 or int64.
  CscEdges(Array indptr, Array indices);

  [[nodiscard]] int64_t num_edges() const override { return indices_.num_elements(); }
  void for_each_chunk(const Chunk& chunk) const override;

 private:
  Array indptr_;
  Array indices_;
};

enum class SelfLoops {
  Keep,          // as they are in the input
  Remove,        // none
  Add,           // one more on every node (PyG's add_self_loops)
  AddRemaining,  // exactly one on every node (PyG's add_remaining_self_loops)
};

struct CscOptions {
  int64_t num_sources = 0;
  int64_t num_destinations = 0;
  /// Adds every edge's reverse and then removes duplicates, as PyG's to_undirected does.
  bool to_undirected = false;
  /// Removes duplicate edges; the first of them stays.
  bool coalesce = false;
  SelfLoops self_loops = SelfLoops::Keep;
  /// Also gives the position of each edge in the input; a reverse has the position of its edge.
  bool edge_ids = false;
  /// With to_undirected: leaves out pairs, evenly spread, until at most this many undirected edges
  /// are left; 0 keeps all. The edges must have no self loops then, and no edge ids are given.
  int64_t max_pairs = 0;
};

struct CscArrays {
  Array indptr;    // int64 [num_destinations + 1]
  Array indices;   // int32 when num_sources fits, else int64 [E]; ascending in each list
  Array edge_ids;  // int64 [E], or undefined
};

/// Sorts the edges by destination with a counting sort: two passes over `edges`, no memory beside
/// the result. The arrays are committed to `storage` as NAME.indptr, NAME.indices and
/// NAME.edge_ids; if an earlier run left them whole, they are taken as they are. Errors: Data for
/// an id out of range, naming the edge; Configuration for options that contradict.
Result<CscArrays> build_csc(
    const EdgeSource& edges,
    const CscOptions& options,
    ArrayStorage& storage,
    const std::string& name,
    Progress& progress
);

/// The arrays that build_csc() committed under `name` in an earlier run, if all are there.
Result<CscArrays> find_csc(ArrayStorage& storage, const std::string& name, bool edge_ids);

}  // namespace gnn::graph
