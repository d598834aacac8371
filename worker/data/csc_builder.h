#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/data/array.h"
#include "worker/data/link_ids.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace gnn::data {

/// Edges in a fixed order, which can be read more than once.
class EdgeSource {
 public:
  using Chunk =
      std::function<void(std::span<const int64_t> sources, std::span<const int64_t> destinations)>;

  virtual ~EdgeSource() = default;
  [[nodiscard]] virtual int64_t num_edges() const = 0;
  /// Calls `chunk` with all edges, some thousands at a time, in the same order each time.
  virtual void for_each_chunk(const Chunk& chunk) const = 0;
  /// Where edge `index` of that order is in the input, for messages.
  [[nodiscard]] virtual std::string where(int64_t index) const {
    return "edge " + std::to_string(index);
  }
};

/// Edges kept as two arrays of the same integer type (int32 or int64).
class ArrayEdges final : public EdgeSource {
 public:
  /// Uses the first `count` elements. Messages name edge i as `where_prefix` ("raw/edge.csv.gz:
  /// line ") followed by i + first_number.
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

/// Other edges with their ends exchanged.
class ReversedEdges final : public EdgeSource {
 public:
  /// `edges` must outlive it.
  explicit ReversedEdges(const EdgeSource& edges) : edges_(edges) {}

  [[nodiscard]] int64_t num_edges() const override { return edges_.num_edges(); }
  void for_each_chunk(const Chunk& chunk) const override;
  [[nodiscard]] std::string where(int64_t index) const override { return edges_.where(index); }

 private:
  const EdgeSource& edges_;
};

enum class SelfLoops {
  Keep,          ///< as in the input
  Remove,        ///< none
  Add,           ///< adds one to every node (PyG's add_self_loops)
  AddRemaining,  ///< exactly one on every node (PyG's add_remaining_self_loops)
};

struct CscOptions {
  int64_t num_sources = 0;
  int64_t num_destinations = 0;
  /// Adds every edge's reverse and then removes duplicates, as PyG's to_undirected does.
  bool to_undirected = false;
  /// Removes duplicate edges; the first stays.
  bool coalesce = false;
  SelfLoops self_loops = SelfLoops::Keep;
  /// Also returns each edge's position in the input; a reverse edge has that of its original.
  bool edge_ids = false;
  /// Returns edge ids that number the edges left as links (see number_links()).
  LinkIds link_ids = LinkIds::No;
  /// With edge_ids: the id of each edge of the input, int64 [edges]; undefined: its position.
  Array input_ids{};
  /// With to_undirected: drops evenly spread pairs until at most this many undirected edges remain;
  /// 0 keeps all. The edges must then be free of self-loops, and no edge ids are returned.
  int64_t max_pairs = 0;
};

struct CscArrays {
  Array indptr;    ///< int64 [num_destinations + 1]
  Array indices;   ///< int32 when num_sources fits, else int64 [E]; ascending in each list
  Array edge_ids;  ///< int64 [E], or undefined
};

/// Sorts the edges by destination. A storage without a limit of memory: by a counting sort in the
/// result's own memory, which reads `edges` twice. Otherwise `edges` are read once and dealt to ranges
/// of destinations in scratch memory, in blocks; the lists of a range, or of a part of it, are made in
/// storage.memory_bytes() (one list may exceed it) and appended to the result. The results are
/// the same. Commits the arrays to `storage` as NAME.indptr, NAME.indices and NAME.edge_ids; arrays
/// that an earlier run completed are reused.
/// Errors: Data for an id out of range, naming the edge, and those of number_links(); Configuration for
/// contradictory options.
Result<CscArrays> build_csc(
    const EdgeSource& edges,
    const CscOptions& options,
    ArrayStorage& storage,
    const std::string& name,
    ProgressBar& progress
);

/// The arrays that build_csc() committed under `name` in an earlier run, if all are there.
Result<CscArrays> find_csc(ArrayStorage& storage, const std::string& name, bool edge_ids);

}  // namespace gnn::data
