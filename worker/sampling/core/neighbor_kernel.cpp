#include "worker/sampling/core/neighbor_kernel.h"

#include "worker/sampling/core/lane_draw.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace gnn::sampling::core {

namespace {

// A chunk is the unit of the passes of a hop: draw positions, read the ids there, relabel. Its
// positions and ids stay in the first-level cache, and passes as long as this keep the number of
// cache misses in flight at its maximum almost always.
constexpr int64_t kChunkEdges = 2048;
constexpr int64_t kNarrowFanout = 64;  // up to here a node's draw goes straight into the chunk
constexpr int64_t kChunkCapacity = kChunkEdges + kNarrowFanout;
constexpr int64_t kOffsetsAhead = 24;  // destinations whose indptr is prefetched before their turn
constexpr int64_t kIdsAhead = 64;      // edges whose global ids are
constexpr int64_t kSlotsAhead = 32;    // edges whose places in the id map are
constexpr int64_t kLooseBoundEdges = int64_t{1} << 24;

int64_t max_drawn(const std::vector<RelationView>& relations, const KernelOptions& options) {
  int64_t count = 1;
  for (const int64_t fanout : options.fanout) count = std::max(count, fanout);
  for (const RelationView& relation : relations) {
    for (const int64_t fanout : relation.fanout) count = std::max(count, fanout);
  }
  return count;
}

// Where the visible part of each list ends. Lists that are visible as a whole end where the next
// begins, so that one code serves both.
const int64_t* ends_of(const RelationView& relation) {
  return relation.ends != nullptr ? relation.ends : relation.indptr + 1;
}

// Writes values[positions[i]] to out[i].
template <class T>
void read_ahead(const T* values, const int64_t* positions, int64_t count, int64_t* out) {
  for (int64_t i = 0; i < std::min(kIdsAhead, count); ++i)
    __builtin_prefetch(values + positions[i]);
  for (int64_t i = 0; i < count; ++i) {
    __builtin_prefetch(values + positions[std::min(i + kIdsAhead, count - 1)]);
    out[i] = values[positions[i]];
  }
}

StreamPurpose purpose_of(SamplingRule rule) {
  return rule == SamplingRule::NewNodes ? StreamPurpose::NewNodes : StreamPurpose::AllSeen;
}

}  // namespace

size_t SampleArena::bytes() const {
  size_t total = 0;
  for (const NodeList& list : nodes) total += list.ids.bytes();
  for (const EdgeList& list : edges)
    total += list.indptr.bytes() + list.indices.bytes() + list.edge_ids.bytes();
  return total;
}

// Turns the destinations of a hop into chunks of positions in the relation's edge arrays.
class NeighborKernel::ChunkFiller {
 public:
  ChunkFiller(NeighborKernel& kernel, const HopContext& hop)
      : hop_(hop),
        indptr_(hop.relation.indptr),
        ends_(ends_of(hop.relation)),
        destinations_(hop.arena.nodes[static_cast<size_t>(hop.relation.destination_type)].ids.data()
        ),
        out_indptr_(
            hop.arena.edges[hop.edge_type].indptr.data() + hop.indptr_at - hop.destinations.begin
        ),
        draw_(kernel.draw_),
        lane_draw_(hop.key, hop.lane, hop.fanout),
        drawn_(kernel.drawn_.data()),
        replace_(kernel.options_.replace),
        next_(hop.destinations.begin),
        written_(hop.indptr_base) {
    out_indptr_[next_] = written_;
    const int64_t ahead = std::min(next_ + kOffsetsAhead, hop.destinations.end);
    for (int64_t i = next_; i < ahead; ++i) prefetch_offsets(destinations_[i]);
  }

  // Writes the next positions to `out`, which has room for kChunkCapacity, and returns how many; 0
  // when the hop is done.
  int64_t fill(int64_t* out) {
    int64_t size = 0;
    while (size < kChunkEdges) {
      if (pending_ > 0) {
        size += take_pending(out + size, kChunkEdges - size);
      } else if (next_ < hop_.destinations.end) {
        size += start_destination(out + size);
      } else {
        break;
      }
    }
    lane_draw_.flush();
    return size;
  }

 private:
  int64_t start_destination(int64_t* out) {
    const int64_t node = destinations_[next_];
    prefetch_offsets(destinations_[std::min(next_ + kOffsetsAhead, hop_.destinations.end - 1)]);
    const int64_t first = indptr_[node];
    const int64_t degree = ends_[node] - first;
    const bool all = hop_.fanout < 0 || degree == 0 || (!replace_ && degree <= hop_.fanout);
    const int64_t count = all ? degree : hop_.fanout;
    written_ += count;
    out_indptr_[++next_] = written_;
    if (count > kNarrowFanout) {
      pending_ = count;
      pending_drawn_ = all ? nullptr : drawn_;
      pending_first_ = first;
      if (!all) draw(node, degree, first, drawn_);
      return 0;
    }
    if (all) {
      copy_range(first, count, out);
    } else if (!replace_ && count <= LaneDraw::kMaxCount) {
      lane_draw_.add(node, degree, first, out);
    } else {
      draw(node, degree, first, out);
    }
    return count;
  }

  int64_t take_pending(int64_t* out, int64_t room) {
    const int64_t count = std::min(pending_, room);
    if (pending_drawn_ == nullptr) {
      copy_range(pending_first_, count, out);
      pending_first_ += count;
    } else {
      std::copy_n(pending_drawn_, count, out);
      pending_drawn_ += count;
    }
    pending_ -= count;
    return count;
  }

  void draw(int64_t node, int64_t degree, int64_t first, int64_t* out) {
    const CounterRng rng(hop_.key, hop_.lane, static_cast<uint64_t>(node));
    if (replace_) {
      NeighborDraw::with_replacement(rng, degree, hop_.fanout, first, out);
    } else {
      draw_.distinct(rng, degree, hop_.fanout, first, out);
    }
  }

  void prefetch_offsets(int64_t node) const {
    __builtin_prefetch(indptr_ + node);
    __builtin_prefetch(ends_ + node);
  }

  static void copy_range(int64_t first, int64_t count, int64_t* out) {
    for (int64_t i = 0; i < count; ++i) out[i] = first + i;
  }

  const HopContext& hop_;
  const int64_t* indptr_;
  const int64_t* ends_;
  const int64_t* destinations_;
  int64_t* out_indptr_;
  NeighborDraw& draw_;
  LaneDraw lane_draw_;
  int64_t* drawn_;
  bool replace_;
  int64_t next_;
  int64_t written_;
  int64_t pending_ = 0;
  int64_t pending_first_ = 0;
  const int64_t* pending_drawn_ = nullptr;
};

// Leaves excluded edges out of the chunks of a hop and corrects the hop's offsets. The filler has
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
  arena.nodes.resize(num_nodes_.size());
  arena.edges.resize(relations_.size());
  for (auto& list : arena.edges) {
    list.up_to.assign(1, 0);
    list.indptr_at.clear();
  }
  place_seeds(seeds, arena);
  const Philox4x32::Key key = derive_key(position, purpose_of(options_.rule));
  for (size_t hop = 0; hop < options_.fanout.size(); ++hop) {
    for (size_t edge_type = 0; edge_type < relations_.size(); ++edge_type) {
      HopContext context{relations_[edge_type], arena};
      context.edge_type = edge_type;
      context.key = key;
      if (!excluded.empty() && excluded[edge_type] != nullptr && !excluded[edge_type]->empty())
        context.excluded = excluded[edge_type];
      expand(context, hop);
    }
    for (size_t type = 0; type < num_nodes_.size(); ++type)
      arena.nodes[type].up_to.push_back(num_local_[type]);
  }
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

const std::vector<int64_t>& NeighborKernel::fanout_of(const RelationView& relation) const {
  return relation.fanout.empty() ? options_.fanout : relation.fanout;
}

void NeighborKernel::expand(HopContext hop, size_t hop_index) {
  const RelationView& relation = hop.relation;
  const auto source_type = static_cast<size_t>(relation.source_type);
  const auto& destinations = hop.arena.nodes[static_cast<size_t>(relation.destination_type)].up_to;
  SampleArena::EdgeList& edges = hop.arena.edges[hop.edge_type];
  SampleArena::NodeList& sources = hop.arena.nodes[source_type];

  hop.fanout = fanout_of(relation)[hop_index];
  hop.lane = static_cast<uint32_t>(hop_index) | relation.lane << 8;
  hop.first_edge = edges.up_to.back();
  hop.destinations.end = destinations[hop_index];
  if (options_.rule == SamplingRule::AllSeen) {
    hop.indptr_at = hop_index == 0 ? 0 : edges.indptr_at.back() + destinations[hop_index - 1] + 1;
    edges.indptr_at.push_back(hop.indptr_at);
  } else {
    hop.destinations.begin = hop_index == 0 ? 0 : destinations[hop_index - 1];
    hop.indptr_at = hop.destinations.begin;
    hop.indptr_base = hop.first_edge;
    edges.indptr_at.push_back(0);
  }

  const int64_t bound = edge_bound(hop);
  edges.indptr.reserve(hop.indptr_at + hop.destinations.end - hop.destinations.begin + 1);
  edges.indices.reserve(hop.first_edge + bound);
  if (options_.with_edge_ids) edges.edge_ids.reserve(hop.first_edge + bound);
  int64_t& num_local = num_local_[source_type];
  sources.ids.reserve(
      std::min(num_local + bound, num_nodes_[source_type] + sources.up_to.front()) + 1
  );

  const int64_t num_edges = std::visit(
      [&](auto& map) {
        return relation.indices32 != nullptr ? expand_with(hop, relation.indices32, map, num_local)
                                             : expand_with(hop, relation.indices64, map, num_local);
      },
      maps_[source_type]
  );
  edges.up_to.push_back(hop.first_edge + num_edges);
}

template <class Id, class Map>
int64_t NeighborKernel::expand_with(
    const HopContext& hop, const Id* indices, Map& map, int64_t& num_local_out
) {
  SampleArena::EdgeList& edges = hop.arena.edges[hop.edge_type];
  int64_t* const nodes = hop.arena.nodes[static_cast<size_t>(hop.relation.source_type)].ids.data();
  int32_t* const out = edges.indices.data();
  int64_t* const out_edge_ids = options_.with_edge_ids ? edges.edge_ids.data() : nullptr;
  const int64_t* const edge_ids = hop.relation.edge_ids;
  ChunkFiller filler(*this, hop);
  std::optional<EdgeExclusion> exclusion;
  if (hop.excluded != nullptr) exclusion.emplace(hop);

  int64_t num_local = num_local_out;
  int64_t done = hop.first_edge;
  int64_t* const positions = positions_.data();
  int64_t* const ids = global_ids_.data();
  while (int64_t size = filler.fill(positions)) {
    read_ahead(indices, positions, size, ids);
    if (exclusion) size = exclusion->filter(ids, positions, size);
    if (out_edge_ids != nullptr) {
      if (edge_ids != nullptr) {
        read_ahead(edge_ids, positions, size, out_edge_ids + done);
      } else {
        std::copy_n(positions, size, out_edge_ids + done);
      }
    }
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
