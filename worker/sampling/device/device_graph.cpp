#include "worker/sampling/device/device_graph.h"

#include "worker/sampling/sample_parts.h"

#include <set>
#include <span>
#include <string>

namespace gnn::sampling::device {

int64_t graph_bytes(const std::vector<Relation>& relations) {
  std::set<const void*> counted;
  int64_t bytes = 0;
  for (const Relation& relation : relations) {
    for (const at::Tensor& array :
         {relation.graph.indptr(), relation.graph.indices(), relation.ends}) {
      if (array.defined() && counted.insert(array.const_data_ptr()).second)
        bytes += static_cast<int64_t>(array.nbytes());
    }
  }
  return bytes;
}

template <class T>
Result<const T*> DeviceGraph::placed(const at::Tensor& host) {
  const auto arrays = arrays_.lock();
  auto found = arrays->find(host.const_data_ptr());
  if (found == arrays->end()) {
    const auto* const first = static_cast<const std::byte*>(host.const_data_ptr());
    GNN_ASSIGN_OR_RETURN(auto there, device_->place({first, host.nbytes()}));
    found = arrays->emplace(first, Array{.host = host, .placed = std::move(there)}).first;
  }
  // reinterpret_cast: the bytes are those of the tensor, whose type the caller has asked for.
  return reinterpret_cast<const T*>(found->second.placed.data);
}

Result<core::RelationView> DeviceGraph::view_of(
    const Relation& relation, size_t place, bool with_edge_ids
) {
  const graph::CscGraph& graph = relation.graph;
  core::RelationView view = sampling::view_of(relation, place);
  GNN_ASSIGN_OR_RETURN(view.indptr, placed<int64_t>(graph.indptr()));
  if (graph.indices().scalar_type() == at::kInt) {
    GNN_ASSIGN_OR_RETURN(view.indices32, placed<int32_t>(graph.indices()));
  } else {
    GNN_ASSIGN_OR_RETURN(view.indices64, placed<int64_t>(graph.indices()));
  }
  if (view.ends != nullptr) {
    GNN_ASSIGN_OR_RETURN(view.ends, placed<int64_t>(relation.ends));
  }
  if (!with_edge_ids) {
    view.edge_ids = nullptr;
  } else if (view.edge_ids != nullptr) {
    GNN_ASSIGN_OR_RETURN(view.edge_ids, placed<int64_t>(graph.edge_ids()));
  }
  return view;
}

int64_t DeviceGraph::bytes() const {
  int64_t bytes = 0;
  const auto arrays = arrays_.lock();
  for (const auto& [address, array] : *arrays) bytes += static_cast<int64_t>(array.host.nbytes());
  return bytes;
}

}  // namespace gnn::sampling::device
