#pragma once

#include "common/result.h"
#include "worker/gpu/kernels/batch_counters.h"
#include "worker/gpu/kernels/block_scan.h"
#include "worker/gpu/kernels/device_array.h"
#include "worker/gpu/kernels/draw_edges.h"
#include "worker/gpu/kernels/exclude_edges.h"
#include "worker/gpu/kernels/id_slots.h"
#include "worker/gpu/kernels/launch_shape.h"
#include "worker/gpu/kernels/relabel.h"
#include "worker/gpu/kernels/sampled_batch.h"
#include "worker/sampling/core/drawn_lists.h"
#include "worker/sampling/core/excluded_pairs.h"
#include "worker/sampling/core/hop_draw.h"
#include "worker/sampling/core/neighbor_kernel.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gnn::gpu {

/// How the steps use a device.
struct StepOptions {
  int threads = 256;              ///< of a block
  int scan_threads = 1024;        ///< of the block that scans the sums of tiles
  int64_t most_blocks = 1 << 20;  ///< of a launch
  /// Of a launch that reads the lists. Reads of host memory beyond what the bus takes only wait, and
  /// hold up what else the device has to do.
  int64_t most_reading_blocks = 1 << 20;
};

/// What core::NeighborKernel::sample() does, as a sequence of bodies on a device: the same ids,
/// offsets and order, bit for bit. begin() returns before the device is done; it waits for it only
/// at hops that take all neighbours, whose number the device alone knows.
/// `Device` runs bodies in their order and has memory: device_stream.cuh, or the tests' emulator.
template <class Device>
class NeighborSteps {
 public:
  /// As core::NeighborKernel; what `relations` points to is where the device can read it.
  NeighborSteps(
      Device& device,
      std::vector<int64_t> num_nodes,
      std::vector<sampling::core::RelationView> relations,
      sampling::core::KernelOptions options,
      StepOptions steps
  )
      : device_(device),
        num_nodes_(std::move(num_nodes)),
        relations_(std::move(relations)),
        options_(std::move(options)),
        steps_(steps),
        layout_{
            .types = static_cast<int64_t>(num_nodes_.size()),
            .relations = static_cast<int64_t>(relations_.size()),
            .hops = static_cast<int64_t>(options_.fanout.size())
        },
        starts_(device),
        degrees_(device),
        tile_sums_(device),
        positions_(device),
        kept_(device),
        edge_slots_(device),
        swapped_(device),
        pairs_(device),
        sent_(device),
        counters_(device),
        host_seeds_(device),
        host_pairs_(device),
        host_counters_(device) {
    counters_.reserve(layout_.size());
    host_counters_.reserve(layout_.size());
    int64_t left = options_.sampler_memory_bytes;
    for (const int64_t count : num_nodes_) {
      const int64_t direct_bytes = count * static_cast<int64_t>(sizeof(uint32_t));
      types_.emplace_back(device);
      types_.back().direct = direct_bytes <= left && count < int64_t{IdSlots::kUnused};
      if (!types_.back().direct) continue;
      left -= direct_bytes;
      types_.back().words.reserve(std::max<int64_t>(1, count));
      types_.back().words.fill(0xFF);
    }
    for (size_t i = 0; i < relations_.size(); ++i) edges_.emplace_back(device);
  }
  NeighborSteps(const NeighborSteps&) = delete;
  NeighborSteps& operator=(const NeighborSteps&) = delete;

  /// Has the device sample a batch; the one before is gone. The seeds are in [0, num_nodes), which
  /// the caller has checked. `excluded` as in core::NeighborKernel::sample().
  /// Errors: Configuration for a batch that may have 2^31 nodes of a type, or edges of a hop.
  [[nodiscard]] Status begin(
      std::span<const std::span<const int64_t>> seeds,
      const sampling::core::StreamPosition& position,
      std::span<const sampling::core::ExcludedPairs* const> excluded = {}
  ) {
    open(seeds, position, excluded);
    Status sampled;
    while (sampled && hop_ < options_.fanout.size()) {
      sampled = expand_all({});
      if (sampled) end_hop();
    }
    close();
    return sampled;
  }

  /// The same in steps, where a relation's lists may lie elsewhere: begin_hops(), then for each hop in
  /// turn destinations() of every relation, and add_hop(). No other batch comes in between.
  /// A hop's nodes come to the host once, for which begin_hops() and add_hop() wait for the device.
  void begin_hops(
      std::span<const std::span<const int64_t>> seeds,
      const sampling::core::StreamPosition& position,
      std::span<const sampling::core::ExcludedPairs* const> excluded = {}
  ) {
    open(seeds, position, excluded);
    for (size_t i = 0; i < types_.size(); ++i) {
      Type& type = types_[i];
      type.host_ids.reserve(type.seeds);
      std::copy(seeds[i].begin(), seeds[i].end(), type.host_ids.data());
      type.on_host = type.seeds;
    }
  }

  /// Whose in-neighbours by a relation the next hop draws; empty if its fan-out there is 0. Valid until
  /// the hop is added.
  [[nodiscard]] std::span<const int64_t> destinations(size_t relation) const {
    if (fanout(relation) == 0) return {};
    const Type& type = types_[static_cast<size_t>(relations_[relation].destination_type)];
    const int64_t end = type.known[hop_];
    const int64_t begin = all_seen() ? 0 : end - type.fresh[hop_];
    return {type.host_ids.data() + begin, static_cast<size_t>(end - begin)};
  }

  /// Ends the hop: one element of `drawn` per relation, for its destinations in their order, as
  /// core::NeighborKernel::add_hop() takes them. For the nodes of a piece without counts the device
  /// draws itself: their lists are in the relation.
  /// Errors: those of begin(). The batch is over then.
  [[nodiscard]] Status add_hop(std::span<const sampling::core::DrawnLists> drawn) {
    Status added = expand_all(drawn);
    if (added) {
      end_hop();
      if (hop_ < options_.fanout.size()) learn_hop();
    }
    if (!added || hop_ == options_.fanout.size()) close();
    return added;
  }

  /// The batch, once the device has done all that begin() gave it.
  [[nodiscard]] SampledBatch batch() const {
    SampledBatch batch;
    int64_t* const counted = host_counters_.data();
    const auto up_to = [&](int64_t first) {
      return std::vector<int64_t>(counted + first, counted + first + layout_.hops + 1);
    };
    for (int64_t type = 0; type < layout_.types; ++type) {
      batch.nodes.push_back(
          {types_[static_cast<size_t>(type)].ids.data(), up_to(layout_.nodes_up_to(type, 0))}
      );
    }
    for (int64_t relation = 0; relation < layout_.relations; ++relation) {
      const Edges& edges = edges_[static_cast<size_t>(relation)];
      batch.edges.push_back(
          {.indptr = edges.indptr.data(),
           .indices = edges.indices.data(),
           .edge_ids = options_.with_edge_ids ? edges.edge_ids.data() : nullptr,
           .up_to = up_to(layout_.edges_up_to(relation, 0)),
           .indptr_at = {}}
      );
      for (int64_t hop = 0; hop < layout_.hops; ++hop) {
        const HopView view =
            view_of(static_cast<size_t>(hop), static_cast<size_t>(relation), counted);
        batch.edges.back().indptr_at.push_back(all_seen() ? view.indptr_at() : 0);
      }
    }
    return batch;
  }

  /// Bytes of device memory.
  [[nodiscard]] size_t bytes() const {
    size_t total = 0;
    for_each_array(*this, [&](const auto& array) { total += array.bytes(); });
    return total;
  }
  /// Of pinned memory of the host.
  [[nodiscard]] size_t host_bytes() const {
    size_t total = 0;
    for_each_host_array(*this, [&](const auto& array) { total += array.bytes(); });
    return total;
  }

  /// What batches so far have asked for, in bytes, but for room to grow.
  [[nodiscard]] size_t asked_bytes() const {
    size_t total = 0;
    for_each_array(*this, [&](const auto& array) { total += array.asked_bytes(); });
    return total;
  }
  [[nodiscard]] size_t asked_host_bytes() const {
    size_t total = 0;
    for_each_host_array(*this, [&](const auto& array) { total += array.asked_bytes(); });
    return total;
  }
  /// Of those arrays that batch() has.
  [[nodiscard]] size_t asked_batch_bytes() const {
    size_t total = 0;
    for (const Type& type : types_) total += type.ids.asked_bytes();
    for (const Edges& edges : edges_) {
      total +=
          edges.indptr.asked_bytes() + edges.indices.asked_bytes() + edges.edge_ids.asked_bytes();
    }
    return total;
  }
  /// Elements of each array that batches so far have asked for, as reserve() takes them.
  [[nodiscard]] std::vector<int64_t> asked() const {
    std::vector<int64_t> sizes;
    const auto add = [&](const auto& array) { sizes.push_back(array.asked()); };
    for_each_array(*this, add);
    for_each_host_array(*this, add);
    return sizes;
  }

  /// Takes room for what the batches of another one, of the same shape, have asked for: batches that
  /// ask for no more take no more memory. Before the first batch.
  void reserve(std::span<const int64_t> sizes) {
    size_t at = 0;
    const auto take = [&](auto& array) { array.reserve(sizes[at++]); };
    for_each_array(*this, take);
    for_each_host_array(*this, take);
    for (Type& type : types_) {
      if (!type.direct) forget_all_of(type);
    }
  }
  /// From now on begin() also asks for what begin_hops() and add_hop() take, if others have drawn any
  /// of the batch's edges.
  void ask_for_steps() { asks_for_steps_ = true; }

 private:
  template <class T>
  using Array = DeviceArray<Device, T>;

  // What the host knows of a batch are bounds.
  struct Type {
    explicit Type(Device& device) : ids(device), words(device), keys(device), host_ids(device) {}
    Array<int64_t> ids;
    Array<uint32_t> words;
    Array<uint64_t> keys;
    bool direct = false;
    int64_t seeds = 0;
    int64_t bound = 0;                      // nodes known now
    int64_t added = 0;                      // by the hop under way
    std::vector<int64_t> known;             // after each hop
    std::vector<int64_t> fresh;             // added by each hop; the seeds first
    PinnedArray<Device, int64_t> host_ids;  // of a batch in steps
    int64_t on_host = 0;
  };
  struct Edges {
    explicit Edges(Device& device)
        : indptr(device), indices(device), edge_ids(device), host_sent(device) {}
    Array<int64_t> indptr;
    Array<int32_t> indices;
    Array<int64_t> edge_ids;
    int64_t bound = 0;
    int64_t offsets = 0;
    ExcludedView excluded{};  // of the batch
    PinnedArray<Device, int64_t> host_sent;
  };
  // What was sent of a hop's lists.
  struct Sent {
    int64_t edges = 0;
    int64_t destinations = 0;  // that have them
  };

  // Those of the device. `Self`: this class, or const.
  template <class Self, class Each>
  static void for_each_array(Self& self, const Each& each) {
    each(self.starts_);
    each(self.degrees_);
    each(self.tile_sums_);
    each(self.positions_);
    each(self.kept_);
    each(self.edge_slots_);
    each(self.swapped_);
    each(self.pairs_);
    each(self.sent_);
    each(self.counters_);
    for (auto& type : self.types_) {
      each(type.ids);
      each(type.words);
      each(type.keys);
    }
    for (auto& edges : self.edges_) {
      each(edges.indptr);
      each(edges.indices);
      each(edges.edge_ids);
    }
  }
  template <class Self, class Each>
  static void for_each_host_array(Self& self, const Each& each) {
    each(self.host_seeds_);
    each(self.host_pairs_);
    each(self.host_counters_);
    for (auto& type : self.types_) each(type.host_ids);
    for (auto& edges : self.edges_) each(edges.host_sent);
  }

  [[nodiscard]] bool all_seen() const {
    return options_.rule == sampling::core::SamplingRule::AllSeen;
  }
  [[nodiscard]] size_t counter_bytes() const {
    return static_cast<size_t>(layout_.size()) * sizeof(int64_t);
  }

  template <class Body>
  void launch(const Body& body, int64_t items) {
    device_.launch(body, shape_for(items, steps_.threads, steps_.most_blocks));
  }
  template <class Body>
  void launch_tiles(const Body& body, int64_t items, int64_t most_blocks) {
    LaunchShape shape = shape_for(items, steps_.threads, most_blocks);
    shape.shared_bytes = block_scan_bytes(shape.threads);
    device_.launch(body, shape);
  }
  template <class Body>
  void launch_scan(const Body& body) {
    device_.launch(
        body,
        {.blocks = 1,
         .threads = steps_.scan_threads,
         .shared_bytes = block_scan_bytes(steps_.scan_threads)}
    );
  }

  void download_counters() {
    device_.download(host_counters_.data(), counters_.data(), counter_bytes());
  }

  [[nodiscard]] int64_t fanout(size_t relation) const {
    const std::vector<int64_t>& own = relations_[relation].fanout;
    return own.empty() ? options_.fanout[hop_] : own[hop_];
  }

  void open(
      std::span<const std::span<const int64_t>> seeds,
      const sampling::core::StreamPosition& position,
      std::span<const sampling::core::ExcludedPairs* const> excluded
  ) {
    if (open_) forget_all();  // of a batch that has not come to its end
    open_ = true;
    place_seeds(seeds);
    place_pairs(excluded);
    hop_ = 0;
    key_ = sampling::core::draw_key(position, options_.rule);
  }

  void close() {
    forget_ids();
    download_counters();
    open_ = false;
  }

  // `drawn` is empty where all lists are here.
  Status expand_all(std::span<const sampling::core::DrawnLists> drawn) {
    for (size_t relation = 0; relation < relations_.size(); ++relation) {
      GNN_RETURN_IF_ERROR(expand(hop_, relation, drawn.empty() ? nullptr : &drawn[relation]));
    }
    return {};
  }

  void end_hop() {
    launch(EndHop{counters_.data(), layout_, static_cast<int64_t>(hop_)}, layout_.types);
    ++hop_;
    for (size_t i = 0; i < types_.size(); ++i) {
      Type& type = types_[i];
      type.known.push_back(type.bound);
      type.fresh.push_back(std::min(type.added, num_nodes_[i]));
      type.added = 0;
      // The last hop's nodes stay on the device.
      if (asks_for_steps_ && hop_ < options_.fanout.size()) type.host_ids.reserve(type.bound);
    }
  }

  // Brings what the next hop may draw for to the host, and makes bounds numbers.
  void learn_hop() {
    download_counters();
    device_.wait();
    const int64_t* const counted = host_counters_.data();
    for (int64_t i = 0; i < layout_.types; ++i) {
      Type& type = types_[static_cast<size_t>(i)];
      type.bound = counted[layout_.num_local(i)];
      type.known[hop_] = type.bound;
      type.fresh[hop_] = type.bound - type.known[hop_ - 1];
      type.host_ids.reserve(type.bound, type.on_host);
      device_.download(
          type.host_ids.data() + type.on_host,
          type.ids.data() + type.on_host,
          static_cast<size_t>(type.bound - type.on_host) * sizeof(int64_t)
      );
      type.on_host = type.bound;
    }
    for (int64_t i = 0; i < layout_.relations; ++i) {
      edges_[static_cast<size_t>(i)].bound =
          counted[layout_.edges_up_to(i, static_cast<int64_t>(hop_))];
    }
    device_.wait();
  }

  void place_seeds(std::span<const std::span<const int64_t>> seeds) {
    int64_t total = 0;
    for (const auto& each : seeds) total += static_cast<int64_t>(each.size());
    host_seeds_.reserve(total);
    device_.fill(counters_.data(), 0, counter_bytes());
    int64_t at = 0;
    for (size_t i = 0; i < types_.size(); ++i) {
      Type& type = types_[i];
      type.seeds = static_cast<int64_t>(seeds[i].size());
      type.bound = type.seeds;
      type.added = 0;
      type.known.assign(1, type.seeds);
      type.fresh.assign(1, type.seeds);
      type.ids.reserve(type.seeds + 1);
      if (asks_for_steps_) type.host_ids.reserve(type.seeds);
      std::copy(seeds[i].begin(), seeds[i].end(), host_seeds_.data() + at);
      device_.upload(type.ids.data(), host_seeds_.data() + at, seeds[i].size_bytes());
      at += type.seeds;
      launch(CountSeeds{counters_.data(), layout_, static_cast<int64_t>(i), type.seeds}, 1);
      if (type.direct || !make_room(i, type.seeds)) insert_known(i);
    }
    for (Edges& edges : edges_) {
      edges.bound = 0;
      edges.offsets = 0;
    }
  }

  // The pairs of all relations lie one after the other: destinations, then sources, of each.
  void place_pairs(std::span<const sampling::core::ExcludedPairs* const> excluded) {
    for (Edges& edges : edges_) edges.excluded = {};
    int64_t total = 0;
    for (const auto* each : excluded)
      total += each == nullptr ? 0 : static_cast<int64_t>(each->pairs().size());
    if (total == 0) return;
    host_pairs_.reserve(2 * total);
    pairs_.reserve(2 * total);
    int64_t at = 0;
    for (size_t relation = 0; relation < excluded.size(); ++relation) {
      if (excluded[relation] == nullptr) continue;
      const auto pairs = excluded[relation]->pairs();
      const auto size = static_cast<int64_t>(pairs.size());
      int64_t* const destinations = host_pairs_.data() + at;
      for (int64_t i = 0; i < size; ++i) {
        destinations[i] = pairs[static_cast<size_t>(i)].first;
        destinations[size + i] = pairs[static_cast<size_t>(i)].second;
      }
      edges_[relation].excluded = {
          .destinations = pairs_.data() + at, .sources = pairs_.data() + at + size, .size = size
      };
      at += 2 * size;
    }
    upload(pairs_.data(), host_pairs_.data(), 2 * total);
  }

  // Room in a hashed type's slots for `count` ids at a load of one half. Whether it grew; what was
  // known is in it again.
  bool make_room(size_t index, int64_t count) {
    Type& type = types_[index];
    const auto wanted = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count) * 2 + 64));
    if (wanted <= type.keys.capacity()) return false;
    type.keys = Array<uint64_t>(device_);
    type.words = Array<uint32_t>(device_);
    Array<uint64_t> keys(device_);
    Array<uint32_t> words(device_);
    keys.reserve(wanted);
    words.reserve(wanted);
    keys.fill(0xFF);
    words.fill(0xFF);
    // Once nothing fails any more: slots without words, or with garbage, would be the next batch's.
    type.keys = std::move(keys);
    type.words = std::move(words);
    insert_known(index);
    return true;
  }

  void insert_known(size_t index) {
    const Type& type = types_[index];
    const int64_t* const size = counters_.data() + layout_.num_local(static_cast<int64_t>(index));
    launch(InsertKnown{slots_of(type), type.ids.data(), size}, type.bound);
  }

  [[nodiscard]] static IdSlots slots_of(const Type& type) {
    if (type.direct) return {.words = type.words.data()};
    const auto capacity = static_cast<uint64_t>(type.keys.capacity());
    return {
        .words = type.words.data(),
        .keys = type.keys.data(),
        .mask = capacity - 1,
        .shift = 64 - std::countr_zero(capacity)
    };
  }

  [[nodiscard]] HopView view_of(size_t hop, size_t relation, int64_t* counters) const {
    return {
        .counters = counters,
        .layout = layout_,
        .relation = static_cast<int64_t>(relation),
        .source_type = relations_[relation].source_type,
        .destination_type = relations_[relation].destination_type,
        .hop = static_cast<int64_t>(hop),
        .all_seen = all_seen()
    };
  }

  Status expand(size_t hop, size_t relation, const sampling::core::DrawnLists* drawn) {
    const sampling::core::RelationView& own = relations_[relation];
    const Type& destination = types_[static_cast<size_t>(own.destination_type)];
    const HopView view = view_of(hop, relation, counters_.data());
    ListsView lists = {
        .indptr = own.indptr,
        .ends = sampling::core::ends_of(own),
        .indices32 = own.indices32,
        .indices64 = own.indices64,
        .edge_ids = own.edge_ids,
        .first_node = own.first_node
    };
    const DrawRule rule = {
        .fanout = fanout(relation),
        .replace = options_.replace,
        .key = key_,
        .lane = sampling::core::hop_lane(own, hop)
    };
    const int64_t destinations = all_seen() ? destination.known[hop] : destination.fresh[hop];
    Edges& edges = edges_[relation];
    starts_.reserve(destinations);
    degrees_.reserve(destinations);
    tile_sums_.reserve(tiles(destinations));
    const int64_t offsets = (all_seen() ? edges.offsets : 0) + destination.known[hop] + 1;
    edges.indptr.reserve(offsets, edges.offsets);
    edges.offsets = offsets;
    const ListStarts starts = {.starts = starts_.data(), .degrees = degrees_.data()};
    const Sent sent = drawn == nullptr ? Sent() : send(*drawn, edges, destinations, lists);
    launch_tiles(
        CountDrawn{
            view, lists, rule, destination.ids.data(), starts, tile_sums_.data(), drawn != nullptr
        },
        destinations,
        steps_.most_reading_blocks
    );
    launch_scan(ScanDrawn{view, edges.indptr.data(), tile_sums_.data(), steps_.threads});

    GNN_ASSIGN_OR_RETURN(
        const int64_t most,
        edges_of(view, rule.fanout, destinations - sent.destinations, sent.edges)
    );
    if (asks_for_steps_) reserve_sent(edges, destinations, most);
    positions_.reserve(most);
    launch_tiles(
        DrawNarrow{
            view,
            rule,
            destination.ids.data(),
            starts,
            tile_sums_.data(),
            edges.indptr.data(),
            positions_.data()
        },
        destinations,
        steps_.most_blocks
    );
    if (most == 0) return {};
    if (rule.fanout < 0) {
      launch(TakeWhole{view, starts, edges.indptr.data(), positions_.data()}, most);
    } else if (rule.wide()) {
      swapped_.reserve(2 * most);
      launch(
          DrawWide{
              view,
              rule,
              destination.ids.data(),
              starts,
              edges.indptr.data(),
              positions_.data(),
              swapped_.data()
          },
          destinations * kWarpThreads
      );
    }
    const int64_t* positions = positions_.data();
    if (edges.excluded.size > 0) positions = leave_out(view, lists, relation, most);
    return relabel(view, lists, relation, positions, most);
  }

  // Takes the excluded ones out of a hop's drawn edges. The positions of those that stay.
  const int64_t* leave_out(
      const HopView& view, const ListsView& lists, size_t relation, int64_t most
  ) {
    const Edges& edges = edges_[relation];
    const Type& destination = types_[static_cast<size_t>(view.destination_type)];
    kept_.reserve(most);
    edge_slots_.reserve(most + 1);  // no slots yet: how many edges stay before each
    tile_sums_.reserve(tiles(most));
    launch_tiles(
        MarkExcluded{
            view,
            lists,
            edges.excluded,
            destination.ids.data(),
            edges.indptr.data(),
            positions_.data(),
            tile_sums_.data()
        },
        most,
        steps_.most_reading_blocks
    );
    launch_scan(ScanKept{view, tile_sums_.data(), edge_slots_.data(), steps_.threads});
    launch_tiles(
        CompactKept{view, positions_.data(), tile_sums_.data(), kept_.data(), edge_slots_.data()},
        most,
        steps_.most_blocks
    );
    launch(MoveOffsets{view, edge_slots_.data(), edges.indptr.data()}, destination.bound);
    return kept_.data();
  }

  // Room for what was sent of a hop's lists.
  void reserve_sent(Edges& edges, int64_t destinations, int64_t num_sent) {
    const int64_t arrays = options_.with_edge_ids ? 2 : 1;
    edges.host_sent.reserve(2 * destinations + arrays * num_sent);
    sent_.reserve(arrays * num_sent);
  }

  // Has the device know the lists that lie elsewhere: where each destination's begins among those that
  // were sent, in the order of the destinations, whoever sent them, and how long it is.
  Sent send(
      const sampling::core::DrawnLists& drawn, Edges& edges, int64_t destinations, ListsView& lists
  ) {
    int64_t num_sent = 0;
    for (const sampling::core::DrawnPiece& piece : drawn.pieces) num_sent += piece.num_edges;
    reserve_sent(edges, destinations, num_sent);
    int64_t* const starts = edges.host_sent.data();
    int64_t* const degrees = starts + destinations;
    int64_t* const sources = degrees + destinations;
    std::vector<int64_t> next;  // of each piece: where its next list begins
    Sent sent;
    for (const sampling::core::DrawnPiece& piece : drawn.pieces) {
      next.push_back(sent.edges);
      std::copy_n(piece.sources, piece.num_edges, sources + sent.edges);
      if (options_.with_edge_ids)
        std::copy_n(piece.edge_ids, piece.num_edges, sources + num_sent + sent.edges);
      sent.edges += piece.num_edges;
    }
    place_lists(drawn, next, {.starts = starts, .degrees = degrees}, destinations, sent);
    upload(starts_.data(), starts, destinations);
    upload(degrees_.data(), degrees, destinations);
    upload(sent_.data(), sources, (options_.with_edge_ids ? 2 : 1) * num_sent);
    lists.sent_sources = sent_.data();
    lists.sent_edge_ids = sent_.data() + num_sent;
    return sent;
  }

  static void place_lists(
      const sampling::core::DrawnLists& drawn,
      std::vector<int64_t>& next,
      const ListStarts& out,
      int64_t destinations,
      Sent& sent
  ) {
    if (drawn.owners.empty()) {  // of a fan-out of 0
      std::fill_n(out.starts, destinations, kSent);
      std::fill_n(out.degrees, destinations, 0);
      sent.destinations = destinations;
      return;
    }
    std::vector<const uint32_t*> counts;
    for (const sampling::core::DrawnPiece& piece : drawn.pieces) counts.push_back(piece.counts);
    for (int64_t i = 0; i < destinations; ++i) {
      const auto owner = static_cast<size_t>(drawn.owners[static_cast<size_t>(i)]);
      if (counts[owner] == nullptr) {
        out.starts[i] = 0;
        out.degrees[i] = 0;
        continue;
      }
      out.starts[i] = kSent + next[owner];
      out.degrees[i] = *counts[owner]++;
      next[owner] += out.degrees[i];
      ++sent.destinations;
    }
  }

  void upload(int64_t* to, const int64_t* from, int64_t count) {
    device_.upload(to, from, static_cast<size_t>(count) * sizeof(int64_t));
  }

  [[nodiscard]] int64_t tiles(int64_t items) const {
    return (items + steps_.threads - 1) / steps_.threads;
  }

  // A bound of the edges of a hop, of which `sent` were drawn elsewhere, and the others are drawn for
  // so many destinations.
  Result<int64_t> edges_of(
      const HopView& view, int64_t fanout, int64_t destinations, int64_t sent
  ) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    int64_t most = 0;
    if (fanout >= 0) {
      most = fanout > 0 && destinations > kMost / fanout ? kMost : destinations * fanout;
      most += sent;
    } else if constexpr (requires { device_.most_edges(view.relation, destinations); }) {
      most = device_.most_edges(view.relation, destinations);  // a device that draws nothing
    } else {
      download_counters();
      device_.wait();
      HopView counted = view;
      counted.counters = host_counters_.data();
      most = counted.num_edges();
    }
    if (most < kMost) return most;
    return fail(
        ErrorKind::Configuration,
        "sampling on a GPU: hop " + std::to_string(view.hop) + " may have 2^31 edges or more (" +
            std::to_string(destinations) + " nodes with fan-out " + std::to_string(fanout) +
            "): use smaller batches or fan-outs"
    );
  }

  // `positions`: of the hop's edges in their lists.
  Status relabel(
      const HopView& view,
      const ListsView& lists,
      size_t relation,
      const int64_t* positions,
      int64_t most
  ) {
    Edges& edges = edges_[relation];
    const auto source_type = static_cast<size_t>(view.source_type);
    Type& source = types_[source_type];
    const int64_t known = source.bound;
    const int64_t nodes = std::min(known + most, num_nodes_[source_type] + source.seeds);
    if (nodes >= std::numeric_limits<int32_t>::max()) {
      return fail(
          ErrorKind::Configuration,
          "sampling on a GPU: a batch may have 2^31 nodes of a type or more: use smaller batches "
          "or fan-outs"
      );
    }
    source.ids.reserve(nodes + 1, known);
    if (!source.direct) make_room(source_type, nodes);
    source.bound = nodes;
    source.added += most;
    edge_slots_.reserve(most);
    edges.indices.reserve(edges.bound + most, edges.bound);
    if (options_.with_edge_ids) edges.edge_ids.reserve(edges.bound + most, edges.bound);
    edges.bound += most;
    tile_sums_.reserve(tiles(most));

    const IdSlots slots = slots_of(source);
    device_.launch(
        ReadSources{
            view,
            lists,
            slots,
            positions,
            edge_slots_.data(),
            options_.with_edge_ids ? edges.edge_ids.data() : nullptr
        },
        shape_for(most, steps_.threads, steps_.most_reading_blocks)
    );
    launch_tiles(
        CountNew{view, slots, edge_slots_.data(), tile_sums_.data()}, most, steps_.most_blocks
    );
    launch_scan(ScanNew{view, tile_sums_.data(), steps_.threads});
    launch_tiles(
        AssignLocal{view, slots, edge_slots_.data(), tile_sums_.data(), source.ids.data()},
        most,
        steps_.most_blocks
    );
    launch(WriteIndices{view, slots, edge_slots_.data(), edges.indices.data()}, most);
    return {};
  }

  void forget_ids() {
    for (size_t i = 0; i < types_.size(); ++i) {
      Type& type = types_[i];
      if (type.direct) {
        const int64_t* const size = counters_.data() + layout_.num_local(static_cast<int64_t>(i));
        launch(ForgetIds{slots_of(type), type.ids.data(), size}, type.bound);
      } else {
        forget_all_of(type);
      }
    }
  }
  // Also ids that have slots and are not known yet: a call of the device failed between the two.
  void forget_all() {
    for (Type& type : types_) forget_all_of(type);
  }
  static void forget_all_of(Type& type) {
    type.keys.fill(0xFF);
    type.words.fill(0xFF);
  }

  Device& device_;
  std::vector<int64_t> num_nodes_;
  std::vector<sampling::core::RelationView> relations_;
  sampling::core::KernelOptions options_;
  StepOptions steps_;
  CounterLayout layout_;
  std::vector<Type> types_;
  std::vector<Edges> edges_;
  // Of the batch under way.
  sampling::core::Philox4x32::Key key_{};
  size_t hop_ = 0;
  bool open_ = false;  // its ids have slots
  bool asks_for_steps_ = false;
  Array<int64_t> starts_;
  Array<int64_t> degrees_;
  Array<int64_t> tile_sums_;
  Array<int64_t> positions_;
  Array<int64_t> kept_;  // the positions that stay, where edges are excluded
  Array<uint32_t> edge_slots_;
  Array<uint32_t> swapped_;
  Array<int64_t> pairs_;
  Array<int64_t> sent_;  // sources, then edge ids
  Array<int64_t> counters_;
  PinnedArray<Device, int64_t> host_seeds_;
  PinnedArray<Device, int64_t> host_pairs_;
  PinnedArray<Device, int64_t> host_counters_;
};

}  // namespace gnn::gpu
