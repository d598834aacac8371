#include "worker/graph/csc_graph.h"

#include <ATen/Dispatch.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>

namespace gnn::graph {
namespace {

std::string describe(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  std::ostringstream text;
  text << tensor.scalar_type() << " " << tensor.sizes();
  return text.str();
}

Status check_form(const char* name, const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.dim() != 1 || !tensor.device().is_cpu() ||
      !tensor.is_contiguous()) {
    return fail(
        ErrorKind::Data,
        std::string(name) + ": expected a contiguous 1-d CPU tensor, found " + describe(tensor)
    );
  }
  return {};
}

Status check_ends(const at::Tensor& indptr, int64_t num_edges) {
  const auto* data = indptr.const_data_ptr<int64_t>();
  const int64_t last = indptr.numel() - 1;
  if (data[0] != 0) {
    return fail(ErrorKind::Data, "indptr[0]: expected 0, found " + std::to_string(data[0]));
  }
  if (data[last] != num_edges) {
    return fail(
        ErrorKind::Data,
        "indptr[" + std::to_string(last) + "]: expected the number of edges " +
            std::to_string(num_edges) + ", found " + std::to_string(data[last])
    );
  }
  return {};
}

// Of [begin, end), elements 1 and later of indptr.
Status check_ascending(const int64_t* indptr, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    if (indptr[i] < indptr[i - 1]) {
      return fail(
          ErrorKind::Data,
          "indptr[" + std::to_string(i) + "]: expected at least " + std::to_string(indptr[i - 1]) +
              ", found " + std::to_string(indptr[i])
      );
    }
  }
  return {};
}

template <class Index>
Status check_range(const Index* indices, int64_t begin, int64_t end, int64_t num_sources) {
  for (int64_t i = begin; i < end; ++i) {
    if (indices[i] < 0 || indices[i] >= num_sources) {
      return fail(
          ErrorKind::Data,
          "indices[" + std::to_string(i) + "]: expected a node in [0, " +
              std::to_string(num_sources) + "), found " + std::to_string(indices[i])
      );
    }
  }
  return {};
}

// Calls check(begin, end) for [begin, end) in pieces, and tells `progress` after each.
template <class Check>
Status in_pieces(int64_t begin, int64_t end, ProgressBar& progress, const Check& check) {
  constexpr int64_t kPiece = int64_t{1} << 22;
  for (int64_t at = begin; at < end; at += kPiece) {
    GNN_RETURN_IF_ERROR(check(at, std::min(at + kPiece, end)));
    progress.advance_to(std::min(at + kPiece, end) - begin);
  }
  return {};
}

}  // namespace

Result<CscGraph> CscGraph::create(
    at::Tensor indptr, at::Tensor indices, int64_t num_sources, at::Tensor edge_ids
) {
  GNN_ASSIGN_OR_RETURN(
      CscGraph graph,
      create_unchecked(std::move(indptr), std::move(indices), num_sources, std::move(edge_ids))
  );
  SilentProgressBar silent;
  GNN_RETURN_IF_ERROR(graph.check_elements({}, silent));
  return graph;
}

Result<CscGraph> CscGraph::create_unchecked(
    at::Tensor indptr, at::Tensor indices, int64_t num_sources, at::Tensor edge_ids
) {
  GNN_RETURN_IF_ERROR(check_form("indptr", indptr));
  GNN_RETURN_IF_ERROR(check_form("indices", indices));
  if (indptr.scalar_type() != at::kLong || indptr.numel() < 1) {
    return fail(
        ErrorKind::Data, "indptr: expected int64 [num_destinations + 1], found " + describe(indptr)
    );
  }
  if (indices.scalar_type() != at::kLong && indices.scalar_type() != at::kInt) {
    return fail(ErrorKind::Data, "indices: expected int32 or int64, found " + describe(indices));
  }
  if (num_sources < 0) {
    return fail(
        ErrorKind::Data, "num_sources: expected at least 0, found " + std::to_string(num_sources)
    );
  }
  if (edge_ids.defined()) {
    GNN_RETURN_IF_ERROR(check_form("edge_ids", edge_ids));
    if (edge_ids.scalar_type() != at::kLong || edge_ids.numel() != indices.numel()) {
      return fail(
          ErrorKind::Data,
          "edge_ids: expected int64 [" + std::to_string(indices.numel()) + "], found " +
              describe(edge_ids)
      );
    }
  }
  GNN_RETURN_IF_ERROR(check_ends(indptr, indices.numel()));
  CscGraph graph;
  graph.indptr_ = std::move(indptr);
  graph.indices_ = std::move(indices);
  graph.edge_ids_ = std::move(edge_ids);
  graph.num_sources_ = num_sources;
  return graph;
}

Status CscGraph::check_elements(
    Share share, ProgressBar& progress, const std::optional<data::IdRange>& destinations
) const {
  const auto* indptr = indptr_.const_data_ptr<int64_t>();
  const data::IdRange nodes = destinations.value_or(data::IdRange{0, num_destinations()});
  const data::IdRange edges{
      destinations ? indptr[nodes.begin] : 0, destinations ? indptr[nodes.end] : num_edges()
  };
  if (edges.begin < 0 || edges.end > num_edges() || edges.begin > edges.end) {
    return fail(
        ErrorKind::Data,
        "indptr[" + std::to_string(nodes.begin) + "] and [" + std::to_string(nodes.end) +
            "]: expected positions in [0, " + std::to_string(num_edges()) + "], found " +
            std::to_string(edges.begin) + " and " + std::to_string(edges.end)
    );
  }
  const auto mine_of = [share](const data::IdRange& all) {
    return data::IdRange{
        all.begin + share.begin_of(all.size()), all.begin + share.end_of(all.size())
    };
  };
  const data::IdRange my_nodes = mine_of(nodes);
  progress.begin("checking nodes", my_nodes.size(), "nodes");
  GNN_RETURN_IF_ERROR(in_pieces(
      my_nodes.begin,
      my_nodes.end,
      progress,
      [&](int64_t begin, int64_t end) { return check_ascending(indptr, begin + 1, end + 1); }
  ));
  progress.end();
  const data::IdRange my_edges = mine_of(edges);
  progress.begin("checking edges", my_edges.size(), "edges");
  GNN_RETURN_IF_ERROR(in_pieces(
      my_edges.begin,
      my_edges.end,
      progress,
      [&](int64_t begin, int64_t end) {
        return indices_.scalar_type() == at::kInt
                   ? check_range(indices_.const_data_ptr<int32_t>(), begin, end, num_sources_)
                   : check_range(indices_.const_data_ptr<int64_t>(), begin, end, num_sources_);
      }
  ));
  progress.end();
  return {};
}

}  // namespace gnn::graph
