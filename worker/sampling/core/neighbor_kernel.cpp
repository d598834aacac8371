#include "worker/sampling/core/neighbor_kernel.h"

#include "worker/sampling/core/chunk_filler.h"
#include "worker/sampling/core/hop_draw.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace gnn::sampling::core {

namespace {

constexpr int64_t kSlotsAhead = 32;  // edges whose places in the id map are prefetched
constexpr int64_t kLooseBoundEdges = int64_t{1} << 24;

int64_t max_drawn(const std::vector<RelationView>& relations, const KernelOptions& options) {
  int64_t count = 1;
  for (const int64_t fanout : options.fanout) count = std::max(count, fanout);
  for (const RelationView& relation : relations) {
    for (const int64_t fanout : relation.fanout) count = std::max(count, fanout);
  }
  return count;
}

// Where a hop's offsets go: those of its destinations, in order.
int64_t* offsets_of(const SampleArena& arena, size_t edge_type, int64_t indptr_at) {
  return arena.edges[edge_type].indptr.data() + indptr_at;
}

}  // namespace

size_t SampleArena::bytes() const {
  size_t total = 0;
  for (const NodeList& list : nodes) total += list.ids.bytes();
  for (const EdgeList& list : edges)
    total += list.indptr.bytes() + list.indices.bytes() + list.edge_ids.bytes();
  return total;
}

// The edges of a hop, drawn from the relation's own lists.
class NeighborKernel::GraphSource {
 public:
  GraphSource(NeighborKernel& kernel, const HopContext& hop, Philox4x32::Key key)
      : relation_(hop.relation),
        filler_(
            {.relation = hop.relation,
             .destinations = destinations_of(hop),
             .offsets = offsets_of(hop.arena, hop.edge_type, hop.indptr_at),
             .base = hop.indptr_base,
             .fanout = hop.fanout,
             .replace = kernel.options_.replace,
             .key = key,
             .lane = hop_lane(hop.relation, hop.index)},
            kernel.draw_,
            kernel.drawn_.data()
        ) {}

  // Writes the sources of the next edges and what tells their ids, and returns how many there are; 0
  // when the hop is done. There is room for kChunkCapacity.
  int64_t fill(int64_t* sources, int64_t* positions) {
    const int64_t size = filler_.fill(positions);
    if (relation_.indices32 != nullptr) {
      read_ahead(relation_.indices32, positions, size, sources);
    } else {
      read_ahead(relation_.indices64, positions, size, sources);
    }
    return size;
  }

  void edge_ids(const int64_t* positions, int64_t size, int64_t* out) const {
    if (relation_.edge_ids != nullptr) {
      read_ahead(relation_.edge_ids, positions, size, out);
    } else {
      std::copy_n(positions, size, out);
    }
  }

 private:
  const RelationView& relation_;
  ChunkFiller filler_;
};

// The edges of a hop that others have drawn. What tells an edge's id is the id.
class NeighborKernel::DrawnSource {
 public:
  DrawnSource(const HopContext& hop, const DrawnLists& drawn, bool with_edge_ids)
      : pieces_(drawn.pieces.begin(), drawn.pieces.end()),
        owners_(drawn.owners),
        offsets_(offsets_of(hop.arena, hop.edge_type, hop.indptr_at)),
        count_(hop.destinations.end - hop.destinations.begin),
        with_edge_ids_(with_edge_ids),
        written_(hop.indptr_base) {
    offsets_[0] = written_;
  }

  int64_t fill(int64_t* sources, int64_t* positions) {
    int64_t size = 0;
    while (size < kChunkEdges) {
      if (left_ > 0) {
        const int64_t taken = std::min(left_, kChunkEdges - size);
        std::copy_n(piece_->sources, taken, sources + size);
        piece_->sources += taken;
        if (with_edge_ids_) {
          std::copy_n(piece_->edge_ids, taken, positions + size);
          piece_->edge_ids += taken;
        }
        left_ -= taken;
        size += taken;
      } else if (next_ < count_) {
        if (!owners_.empty()) {
          piece_ = &pieces_[static_cast<size_t>(owners_[static_cast<size_t>(next_)])];
          left_ = *piece_->counts++;
        }
        written_ += left_;
        offsets_[++next_] = written_;
      } else {
        break;
      }
    }
    return size;
  }

  static void edge_ids(const int64_t* positions, int64_t size, int64_t* out) {
    std::copy_n(positions, size, out);
  }

 private:
  std::vector<DrawnPiece> pieces_;  // each from where it goes on
  std::span<const int32_t> owners_;
  int64_t* offsets_;
  int64_t count_;
  bool with_edge_ids_;
  DrawnPiece* piece_ = nullptr;
  int64_t next_ = 0;
  int64_t left_ = 0;  // edges of destination next_ - 1 that are not handed out yet
  int64_t written_;
};

// Leaves excluded edges out of the chunks of a hop and corrects the hop's offsets. Their source has
// written the offsets up to the end of the destination whose edges it handed out last, and reads
// none of them again.
class NeighborKernel::EdgeExclusion {
 public:
  explicit EdgeExclusion(const HopContext& hop)
      : hop_(hop),
        destinations_(hop.arena.nodes[static_cast<size_t>(hop.relation.destination_type)].ids.data()
        ),
        offsets_(
            hop.arena.edges[hop.edge_type].indptr.data() + hop.indptr_at - hop.destinations.begin
        ),
        at_(hop.destinations.begin - 1),
        end_(hop.indptr_base),
        drawn_(hop.indptr_base),
        kept_(hop.indptr_base) {}

  // Removes the excluded ones of the next `size` drawn edges, given by their sources and positions;
  // returns how many are left.
  int64_t filter(int64_t* sources, int64_t* positions, int64_t size) {
    int64_t left = 0;
    for (int64_t begin = 0, end = 0; begin < size; begin = end) {
      while (drawn_ == end_) close();
      end = std::min(size, begin + end_ - drawn_);
      const int64_t before = left;
      if (!excluded_.empty()) {
        for (int64_t i = begin; i < end; ++i) {
          sources[left] = sources[i];
          positions[left] = positions[i];
          left += excluded_.contains(sources[i]) ? 0 : 1;
        }
      } else if (left == begin) {  // nothing has been removed so far
        left = end;
      } else {
        std::copy(sources + begin, sources + end, sources + left);
        std::copy(positions + begin, positions + end, positions + left);
        left += end - begin;
      }
      drawn_ += end - begin;
      kept_ += left - before;
    }
    return left;
  }

  // After the last chunk.
  void finish() {
    while (at_ < hop_.destinations.end) close();
  }

 private:
  // Ends the edges of destination at_ and goes on to the next.
  void close() {
    offsets_[++at_] = kept_;
    if (at_ == hop_.destinations.end) return;
    end_ = offsets_[at_ + 1];
    excluded_ = hop_.excluded->of(destinations_[at_]);
  }

  const HopContext& hop_;
  const int64_t* destinations_;
  int64_t* offsets_;
  int64_t at_;   // the destination whose edges come now; before the first, one less
  int64_t end_;  // where its drawn edges end
  int64_t drawn_;
  int64_t kept_;
  ExcludedPairs::Sources excluded_;
};

NeighborKernel::NeighborKernel(
    std::vector<int64_t> num_nodes, std::vector<RelationView> relations, KernelOptions options
)
    : num_nodes_(std::move(num_nodes)),
      relations_(std::move(relations)),
      options_(std::move(options)),
      num_local_(num_nodes_.size()),
      draw_(options_.replace ? 1 : max_drawn(relations_, options_)),
      drawn_(static_cast<size_t>(max_drawn(relations_, options_))),
      positions_(static_cast<size_t>(kChunkCapacity)),
      global_ids_(static_cast<size_t>(kChunkCapacity)) {
  int64_t left = options_.sampler_memory_bytes - static_cast<int64_t>(state_bytes());
  for (const int64_t count : num_nodes_) {
    const int64_t direct_bytes = count * static_cast<int64_t>(sizeof(uint32_t));
    if (direct_bytes <= left && count < DirectIdMap::kMaxLocal / 2) {
      maps_.emplace_back(std::in_place_type<DirectIdMap>, count);
      left -= direct_bytes;
    } else if (count <= int64_t{std::numeric_limits<uint32_t>::max()}) {
      maps_.emplace_back(std::in_place_type<HashIdMap<uint32_t>>, int64_t{1} << 16);
    } else {
      maps_.emplace_back(std::in_place_type<HashIdMap<uint64_t>>, int64_t{1} << 16);
    }
  }
}

void NeighborKernel::sample(
    std::span<const std::span<const int64_t>> seeds,
    const StreamPosition& position,
    SampleArena& arena,
    std::span<const ExcludedPairs* const> excluded
) {
  begin(seeds, arena);
  const Philox4x32::Key key = draw_key(position, options_.rule);
  for (size_t hop = 0; hop < options_.fanout.size(); ++hop) {
    for (size_t edge_type = 0; edge_type < relations_.size(); ++edge_type) {
      HopContext context = context_of(edge_type, hop, arena, excluded);
      reserve(context, edge_bound(context));
      GraphSource source(*this, context, key);
      expand(context, source);
    }
    end_hop(arena);
  }
}

void NeighborKernel::begin(std::span<const std::span<const int64_t>> seeds, SampleArena& arena) {
  arena.nodes.resize(num_nodes_.size());
  arena.edges.resize(relations_.size());
  for (auto& list : arena.edges) {
    list.up_to.assign(1, 0);
    list.indptr_at.clear();
  }
  place_seeds(seeds, arena);
}

std::span<const int64_t> NeighborKernel::destinations(
    size_t relation, size_t hop, const SampleArena& arena
) const {
  if (fanout(relation, hop) == 0) return {};
  const RelationView& view = relations_[relation];
  const HopRange range = range_of(view, hop, arena);
  return {
      arena.nodes[static_cast<size_t>(view.destination_type)].ids.data() + range.begin,
      static_cast<size_t>(range.end - range.begin)
  };
}

void NeighborKernel::add_hop(
    size_t hop,
    std::span<const DrawnLists> drawn,
    SampleArena& arena,
    std::span<const ExcludedPairs* const> excluded
) {
  for (size_t edge_type = 0; edge_type < relations_.size(); ++edge_type) {
    HopContext context = context_of(edge_type, hop, arena, excluded);
    reserve(context, drawn[edge_type].num_edges);
    DrawnSource source(context, drawn[edge_type], options_.with_edge_ids);
    expand(context, source);
  }
  end_hop(arena);
}

void NeighborKernel::end_hop(SampleArena& arena) {
  for (size_t type = 0; type < num_nodes_.size(); ++type)
    arena.nodes[type].up_to.push_back(num_local_[type]);
}

void NeighborKernel::place_seeds(
    std::span<const std::span<const int64_t>> seeds, SampleArena& arena
) {
  for (size_t type = 0; type < num_nodes_.size(); ++type) {
    const auto count = static_cast<int64_t>(seeds[type].size());
    auto& list = arena.nodes[type];
    list.ids.reserve(count + 1);
    std::copy(seeds[type].begin(), seeds[type].end(), list.ids.data());
    std::visit(
        [&](auto& map) {
          map.begin_batch(num_nodes_[type] + count);
          map.make_room(0, count, nullptr);
          for (int64_t local = 0; local < count; ++local) map.insert_first(list.ids[local], local);
        },
        maps_[type]
    );
    num_local_[type] = count;
    list.up_to.assign(1, count);
  }
}

int64_t NeighborKernel::edge_bound(const HopContext& hop) const {
  const int64_t num_destinations = hop.destinations.end - hop.destinations.begin;
  if (num_destinations == 0) return 0;
  if (hop.fanout >= 0 && (options_.replace || hop.fanout <= kLooseBoundEdges / num_destinations)) {
    return num_destinations * hop.fanout;
  }
  const int64_t* destinations =
      hop.arena.nodes[static_cast<size_t>(hop.relation.destination_type)].ids.data();
  const int64_t* indptr = hop.relation.indptr;
  const int64_t* ends = ends_of(hop.relation);
  int64_t bound = 0;
  for (int64_t i = hop.destinations.begin; i < hop.destinations.end; ++i) {
    const int64_t ahead = destinations[std::min(i + kOffsetsAhead, hop.destinations.end - 1)];
    __builtin_prefetch(indptr + ahead);
    __builtin_prefetch(ends + ahead);
    const int64_t degree = ends[destinations[i]] - indptr[destinations[i]];
    bound += hop.fanout < 0 ? degree : std::min(degree, hop.fanout);
  }
  return bound;
}

NeighborKernel::HopRange NeighborKernel::range_of(
    const RelationView& relation, size_t hop, const SampleArena& arena
) const {
  const auto& known = arena.nodes[static_cast<size_t>(relation.destination_type)].up_to;
  const bool all_seen = options_.rule == SamplingRule::AllSeen;
  return {.begin = all_seen || hop == 0 ? 0 : known[hop - 1], .end = known[hop]};
}

NeighborKernel::HopContext NeighborKernel::context_of(
    size_t edge_type, size_t hop, SampleArena& arena, std::span<const ExcludedPairs* const> excluded
) const {
  HopContext context{relations_[edge_type], arena};
  context.edge_type = edge_type;
  context.index = hop;
  context.fanout = fanout(edge_type, hop);
  context.destinations = range_of(context.relation, hop, arena);
  if (!excluded.empty() && excluded[edge_type] != nullptr && !excluded[edge_type]->empty())
    context.excluded = excluded[edge_type];
  return context;
}

std::span<const int64_t> NeighborKernel::destinations_of(const HopContext& hop) {
  return {
      hop.arena.nodes[static_cast<size_t>(hop.relation.destination_type)].ids.data() +
          hop.destinations.begin,
      static_cast<size_t>(hop.destinations.end - hop.destinations.begin)
  };
}

void NeighborKernel::reserve(HopContext& hop, int64_t bound) {
  const auto source_type = static_cast<size_t>(hop.relation.source_type);
  SampleArena::EdgeList& edges = hop.arena.edges[hop.edge_type];
  SampleArena::NodeList& sources = hop.arena.nodes[source_type];
  hop.first_edge = edges.up_to.back();
  if (options_.rule == SamplingRule::AllSeen) {
    const auto& known = hop.arena.nodes[static_cast<size_t>(hop.relation.destination_type)].up_to;
    hop.indptr_at = hop.index == 0 ? 0 : edges.indptr_at.back() + known[hop.index - 1] + 1;
    edges.indptr_at.push_back(hop.indptr_at);
  } else {
    hop.indptr_at = hop.destinations.begin;
    hop.indptr_base = hop.first_edge;
    edges.indptr_at.push_back(0);
  }
  edges.indptr.reserve(hop.indptr_at + hop.destinations.end - hop.destinations.begin + 1);
  edges.indices.reserve(hop.first_edge + bound);
  if (options_.with_edge_ids) edges.edge_ids.reserve(hop.first_edge + bound);
  sources.ids.reserve(
      std::min(num_local_[source_type] + bound, num_nodes_[source_type] + sources.up_to.front()) + 1
  );
}

template <class Source>
void NeighborKernel::expand(const HopContext& hop, Source& source) {
  const auto source_type = static_cast<size_t>(hop.relation.source_type);
  const int64_t num_edges = std::visit(
      [&](auto& map) { return relabel(hop, source, map, num_local_[source_type]); },
      maps_[source_type]
  );
  hop.arena.edges[hop.edge_type].up_to.push_back(hop.first_edge + num_edges);
}

template <class Source, class Map>
int64_t NeighborKernel::relabel(
    const HopContext& hop, Source& source, Map& map, int64_t& num_local_out
) {
  SampleArena::EdgeList& edges = hop.arena.edges[hop.edge_type];
  int64_t* const nodes = hop.arena.nodes[static_cast<size_t>(hop.relation.source_type)].ids.data();
  int32_t* const out = edges.indices.data();
  int64_t* const out_edge_ids = options_.with_edge_ids ? edges.edge_ids.data() : nullptr;
  std::optional<EdgeExclusion> exclusion;
  if (hop.excluded != nullptr) exclusion.emplace(hop);

  int64_t num_local = num_local_out;
  int64_t done = hop.first_edge;
  int64_t* const positions = positions_.data();
  int64_t* const ids = global_ids_.data();
  while (int64_t size = source.fill(ids, positions)) {
    if (exclusion) size = exclusion->filter(ids, positions, size);
    if (out_edge_ids != nullptr) source.edge_ids(positions, size, out_edge_ids + done);
    map.make_room(num_local, size, nodes);
    for (int64_t i = 0; i < size; ++i) {
      map.prefetch(ids[std::min(i + kSlotsAhead, size - 1)]);
      out[done + i] = static_cast<int32_t>(map.find_or_insert(ids[i], num_local, nodes));
    }
    done += size;
  }
  if (exclusion) exclusion->finish();
  num_local_out = num_local;
  return done - hop.first_edge;
}

size_t NeighborKernel::state_bytes() const {
  size_t total = draw_.bytes() + (drawn_.capacity() + positions_.capacity() + global_ids_.capacity()
                                 ) * sizeof(int64_t);
  for (const IdMap& map : maps_) {
    total += std::visit([](const auto& each) { return each.bytes(); }, map);
  }
  return total;
}

}  // namespace gnn::sampling::core
