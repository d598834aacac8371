#include "worker/sampling/core/hop_draw.h"

#include "worker/sampling/core/chunk_filler.h"

#include <algorithm>

namespace gnn::sampling::core {

Philox4x32::Key draw_key(const StreamPosition& position, SamplingRule rule) {
  return derive_key(
      position, rule == SamplingRule::NewNodes ? StreamPurpose::NewNodes : StreamPurpose::AllSeen
  );
}

HopDraw::HopDraw(int64_t max_fanout, bool replace)
    : draw_(replace ? 1 : std::max<int64_t>(1, max_fanout)),
      drawn_(static_cast<size_t>(std::max<int64_t>(1, max_fanout))),
      positions_(static_cast<size_t>(kChunkCapacity)) {}

size_t HopDraw::how_many(
    const RelationView& relation,
    const HopOfRelation& hop,
    std::span<const int64_t> nodes,
    int64_t most_edges
) {
  const int64_t* const ends = ends_of(relation);
  int64_t edges = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const int64_t row = nodes[i] - relation.first_node;
    edges += drawn_of(ends[row] - relation.indptr[row], hop.fanout, hop.replace);
    if (edges > most_edges) return std::max<size_t>(i, 1);
  }
  return nodes.size();
}

void HopDraw::draw(
    const RelationView& relation,
    const HopOfRelation& hop,
    std::span<const int64_t> nodes,
    bool with_edge_ids,
    DrawnHop& out
) {
  offsets_.resize(nodes.size() + 1);
  ChunkFiller filler(
      {.relation = relation,
       .destinations = nodes,
       .offsets = offsets_.data(),
       .base = 0,
       .fanout = hop.fanout,
       .replace = hop.replace,
       .key = hop.key,
       .lane = hop_lane(relation, hop.hop)},
      draw_,
      drawn_.data()
  );
  int64_t done = 0;
  while (const int64_t size = filler.fill(positions_.data())) {
    out.sources.reserve(done + size);
    if (relation.indices32 != nullptr) {
      read_ahead(relation.indices32, positions_.data(), size, out.sources.data() + done);
    } else {
      read_ahead(relation.indices64, positions_.data(), size, out.sources.data() + done);
    }
    if (with_edge_ids) {
      out.edge_ids.reserve(done + size);
      if (relation.edge_ids != nullptr) {
        read_ahead(relation.edge_ids, positions_.data(), size, out.edge_ids.data() + done);
      } else {
        std::copy_n(positions_.data(), size, out.edge_ids.data() + done);
      }
    }
    done += size;
  }
  out.num_edges = done;
  out.counts.resize(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i)
    out.counts[i] = static_cast<uint32_t>(offsets_[i + 1] - offsets_[i]);
}

}  // namespace gnn::sampling::core
