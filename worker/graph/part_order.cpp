#include "worker/graph/part_order.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

namespace gnn::graph {
namespace {

constexpr int64_t kMaxParts = 256;
constexpr int64_t kAhead = 64;  // edges whose parts are prefetched before their turn

struct Columns {
  at::Tensor indices;
  at::Tensor edge_ids;
  std::vector<at::Tensor> ends;
};

// The edge ids of a graph, which may be positions.
class EdgeIds {
 public:
  explicit EdgeIds(const CscGraph& graph)
      : ids_(graph.edge_ids().defined() ? graph.edge_ids().const_data_ptr<int64_t>() : nullptr) {}
  int64_t operator[](int64_t position) const { return ids_ == nullptr ? position : ids_[position]; }

 private:
  const int64_t* ids_;
};

// The parts of edges, by edge id.
class EdgeParts {
 public:
  EdgeParts(const at::Tensor& parts, int64_t num_parts)
      : parts_(parts.const_data_ptr<uint8_t>()), num_ids_(parts.numel()), num_parts_(num_parts) {}
  [[nodiscard]] bool is_valid(int64_t id) const {
    return id >= 0 && id < num_ids_ && parts_[id] < num_parts_;
  }
  uint8_t operator[](int64_t id) const { return parts_[id]; }
  void prefetch(int64_t id) const {
    // An id out of range is found at its turn; a prefetch of any address is harmless.
    __builtin_prefetch(parts_ + id);
  }

 private:
  const uint8_t* parts_;
  int64_t num_ids_;
  int64_t num_parts_;
};

// Returns the position of the first edge whose id or part is out of range, or -1.
template <class Index>
int64_t fill(const CscGraph& graph, const EdgeParts& part_of, Columns& out) {
  const auto* const indptr = graph.indptr().const_data_ptr<int64_t>();
  const auto* const indices = graph.indices().const_data_ptr<Index>();
  const EdgeIds ids(graph);
  auto* const out_indices = out.indices.mutable_data_ptr<Index>();
  auto* const out_ids = out.edge_ids.mutable_data_ptr<int64_t>();
  std::vector<int64_t*> ends;
  ends.reserve(out.ends.size());
  for (at::Tensor& each : out.ends) ends.push_back(each.mutable_data_ptr<int64_t>());

  std::array<int64_t, kMaxParts> next{};
  for (int64_t node = 0; node < graph.num_destinations(); ++node) {
    // A counting sort of one list: how many of each part, where each starts, each to its place.
    std::fill_n(next.begin(), ends.size() + 1, 0);
    for (int64_t e = indptr[node]; e < indptr[node + 1]; ++e) {
      part_of.prefetch(ids[std::min(e + kAhead, graph.num_edges() - 1)]);
      const int64_t id = ids[e];
      if (!part_of.is_valid(id)) return e;
      ++next[part_of[id]];
    }
    int64_t end = indptr[node];
    for (size_t part = 0; part <= ends.size(); ++part) {
      const int64_t count = std::exchange(next[part], end);
      end += count;
      if (part < ends.size()) ends[part][node] = end;
    }
    for (int64_t e = indptr[node]; e < indptr[node + 1]; ++e) {
      const int64_t id = ids[e];
      const int64_t place = next[part_of[id]]++;
      out_indices[place] = indices[e];
      out_ids[place] = id;
    }
  }
  return -1;
}

Error bad_edge(const CscGraph& graph, const at::Tensor& parts, int64_t num_parts, int64_t at) {
  const int64_t id = EdgeIds(graph)[at];
  const bool is_id = id >= 0 && id < parts.numel();
  return {
      .kind = ErrorKind::Data,
      .message = is_id ? "edge " + std::to_string(id) + ": expected a part in [0, " +
                             std::to_string(num_parts) + "), found " +
                             std::to_string(parts.const_data_ptr<uint8_t>()[id])
                       : "edge_ids[" + std::to_string(at) + "]: expected an edge id in [0, " +
                             std::to_string(parts.numel()) + "), found " + std::to_string(id)
  };
}

}  // namespace

Result<PartOrder> order_by_part(const CscGraph& graph, const at::Tensor& parts, int64_t num_parts) {
  TORCH_CHECK(num_parts >= 1 && num_parts <= kMaxParts, "expected 1 to 256 parts");
  TORCH_CHECK(
      parts.defined() && parts.dim() == 1 && parts.scalar_type() == at::kByte &&
          parts.is_contiguous() && parts.is_cpu(),
      "parts must be a contiguous uint8 vector on the CPU"
  );
  Columns out{
      .indices = at::empty_like(graph.indices()),
      .edge_ids = at::empty({graph.num_edges()}, at::kLong),
      .ends = {}
  };
  for (int64_t part = 1; part < num_parts; ++part)
    out.ends.push_back(at::empty({graph.num_destinations()}, at::kLong));
  const EdgeParts part_of(parts, num_parts);
  const int64_t bad = graph.indices().scalar_type() == at::kInt
                          ? fill<int32_t>(graph, part_of, out)
                          : fill<int64_t>(graph, part_of, out);
  if (bad >= 0) return tl::unexpected(bad_edge(graph, parts, num_parts, bad));
  // The elements are those of a graph that was checked.
  GNN_ASSIGN_OR_RETURN(
      CscGraph ordered,
      CscGraph::create_unchecked(graph.indptr(), out.indices, graph.num_sources(), out.edge_ids)
  );
  return PartOrder{.graph = std::move(ordered), .ends = std::move(out.ends)};
}

}  // namespace gnn::graph
