#include "worker/graph/csc_graph.h"

#include <ATen/Dispatch.h>

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

Status check_indptr(const at::Tensor& indptr, int64_t num_edges) {
  const auto* data = indptr.const_data_ptr<int64_t>();
  const int64_t count = indptr.numel();
  if (data[0] != 0) {
    return fail(ErrorKind::Data, "indptr[0]: expected 0, found " + std::to_string(data[0]));
  }
  for (int64_t i = 1; i < count; ++i) {
    if (data[i] < data[i - 1]) {
      return fail(
          ErrorKind::Data,
          "indptr[" + std::to_string(i) + "]: expected at least " + std::to_string(data[i - 1]) +
              ", found " + std::to_string(data[i])
      );
    }
  }
  if (data[count - 1] != num_edges) {
    return fail(
        ErrorKind::Data,
        "indptr[" + std::to_string(count - 1) + "]: expected the number of edges " +
            std::to_string(num_edges) + ", found " + std::to_string(data[count - 1])
    );
  }
  return {};
}

template <class Index>
Status check_indices(const at::Tensor& indices, int64_t num_sources) {
  const auto* data = indices.const_data_ptr<Index>();
  const int64_t count = indices.numel();
  for (int64_t i = 0; i < count; ++i) {
    if (data[i] < 0 || data[i] >= num_sources) {
      return fail(
          ErrorKind::Data,
          "indices[" + std::to_string(i) + "]: expected a node in [0, " +
              std::to_string(num_sources) + "), found " + std::to_string(data[i])
      );
    }
  }
  return {};
}

}  // namespace

Result<CscGraph> CscGraph::create(
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
  GNN_RETURN_IF_ERROR(check_indptr(indptr, indices.numel()));
  if (indices.scalar_type() == at::kInt) {
    GNN_RETURN_IF_ERROR(check_indices<int32_t>(indices, num_sources));
  } else {
    GNN_RETURN_IF_ERROR(check_indices<int64_t>(indices, num_sources));
  }
  CscGraph graph;
  graph.indptr_ = std::move(indptr);
  graph.indices_ = std::move(indices);
  graph.edge_ids_ = std::move(edge_ids);
  graph.num_sources_ = num_sources;
  return graph;
}

}  // namespace gnn::graph
