#pragma once

#include "worker/gpu/kernels/host_device.h"

#include <cstdint>

namespace gnn::gpu {

/// Where a batch's numbers lie in one array of int64. They stay on the device while the batch is
/// sampled, so that no hop waits for the host.
struct CounterLayout {
  int64_t types = 0;
  int64_t relations = 0;
  int64_t hops = 0;

  /// Nodes of a type that are known after so many hops.
  [[nodiscard]] GNN_HOST_DEVICE int64_t nodes_up_to(int64_t type, int64_t hop) const {
    return type * (hops + 1) + hop;
  }
  /// Edges of a relation after so many hops.
  [[nodiscard]] GNN_HOST_DEVICE int64_t edges_up_to(int64_t relation, int64_t hop) const {
    return (types + relation) * (hops + 1) + hop;
  }
  /// Nodes of a type that are known now.
  [[nodiscard]] GNN_HOST_DEVICE int64_t num_local(int64_t type) const {
    return (types + relations) * (hops + 1) + type;
  }
  /// What num_local() of the source type was before the relation's edges were relabelled.
  [[nodiscard]] GNN_HOST_DEVICE int64_t first_new() const {
    return (types + relations) * (hops + 1) + types;
  }
  [[nodiscard]] GNN_HOST_DEVICE int64_t size() const { return first_new() + 1; }
};

/// One hop by one relation. What the device knows only as it runs is read from the counters.
struct HopView {
  int64_t* counters = nullptr;
  CounterLayout layout{};
  int64_t relation = 0;
  int64_t source_type = 0;
  int64_t destination_type = 0;
  int64_t hop = 0;
  bool all_seen = false;

  /// The destinations, as local ids.
  [[nodiscard]] GNN_HOST_DEVICE int64_t begin() const {
    return all_seen || hop == 0 ? 0 : counters[layout.nodes_up_to(destination_type, hop - 1)];
  }
  [[nodiscard]] GNN_HOST_DEVICE int64_t end() const {
    return counters[layout.nodes_up_to(destination_type, hop)];
  }
  [[nodiscard]] GNN_HOST_DEVICE int64_t num_destinations() const { return end() - begin(); }
  /// The hop's edges. Their number is known once they are counted.
  [[nodiscard]] GNN_HOST_DEVICE int64_t first_edge() const {
    return counters[layout.edges_up_to(relation, hop)];
  }
  [[nodiscard]] GNN_HOST_DEVICE int64_t num_edges() const {
    return counters[layout.edges_up_to(relation, hop + 1)] - first_edge();
  }
  /// Where the hop's offsets start.
  [[nodiscard]] GNN_HOST_DEVICE int64_t indptr_at() const {
    if (!all_seen) return begin();
    int64_t at = 0;
    for (int64_t before = 0; before < hop; ++before)
      at += counters[layout.nodes_up_to(destination_type, before)] + 1;
    return at;
  }
  /// The first offset.
  [[nodiscard]] GNN_HOST_DEVICE int64_t indptr_base() const { return all_seen ? 0 : first_edge(); }
};

}  // namespace gnn::gpu
