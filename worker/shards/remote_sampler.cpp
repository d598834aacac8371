#include "worker/shards/remote_sampler.h"

#include "worker/shards/messages.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gnn::shards {

using sampling::HopBatch;
using sampling::HopSampler;
using sampling::core::DrawnHop;
using sampling::core::DrawnLists;
using sampling::core::DrawnPiece;

struct RemoteSampler::Shared {
  uint32_t number = 0;
  std::shared_ptr<PartSampler> own;
  Peers peers;
  std::shared_ptr<std::atomic<int64_t>> received;
  std::shared_ptr<const sampling::HopBatches> hops;

  [[nodiscard]] const Part& part() const { return own->part(); }
  [[nodiscard]] size_t num_relations() const { return own->relations().size(); }
  [[nodiscard]] int64_t nodes_of(int64_t type) const {
    return part().num_nodes()[static_cast<size_t>(type)];
  }
};

// A batch under way. One thread at a time works on it; replies come beside it.
class RemoteSampler::Run : public std::enable_shared_from_this<Run> {
 public:
  Run(std::shared_ptr<const Shared> shared,
      const sampling::core::StreamPosition& position,
      std::shared_ptr<HopBatch> batch,
      Executor executor,
      Done done)
      : shared_(std::move(shared)),
        position_(position),
        batch_(std::move(batch)),
        executor_(std::move(executor)),
        done_(std::move(done)),
        owners_(shared_->num_relations()),
        asked_(static_cast<size_t>(shared_->part().book().parts)) {
    for (Asked& asked : asked_) asked.lists.resize(shared_->num_relations());
  }

  // Goes on until something has to come from a peer, or the batch is done.
  void advance() {
    while (batch_->hop() < shared_->own->options().fanout.size()) {
      deal();
      std::vector<size_t> remote;
      for (size_t part = 0; part < asked_.size(); ++part) {
        if (static_cast<int64_t>(part) != shared_->part().index() && asked_[part].left > 0)
          remote.push_back(part);
      }
      ask(remote);
      if (!shared_->hops->draws_own_part()) draw_own();
      if (!remote.empty()) return arrived();  // for the one that ask() counted for this thread
      const Status added = add_hop();
      if (!added) return fail_with(added.error());
    }
    done_(batch_->finish());
  }

 private:
  // What a part is asked for, or draws itself, of one relation in this hop.
  struct AskedList {
    std::vector<int64_t> ids;
    size_t answered = 0;
    std::shared_ptr<DrawnHop> drawn;  // of the answered ids
  };
  struct Asked {
    std::vector<AskedList> lists;  // by relation
    size_t left = 0;               // ids that are not answered yet
    std::vector<std::pair<size_t, size_t>>
        sent;  // relations and numbers of ids of the last message
    std::optional<PeerReply> reply;
  };

  // Deals the nodes whose neighbours are wanted to their owners.
  void deal() {
    for (Asked& asked : asked_) {
      asked.left = 0;
      for (AskedList& list : asked.lists) {
        list.ids.clear();
        list.answered = 0;
      }
    }
    for (auto& owners : owners_) owners.clear();
    for (const HopBatch::Wanted& wanted : batch_->wanted()) {
      const auto type =
          static_cast<size_t>(shared_->own->relations()[wanted.relation].destination_type);
      const data::PartitionBook& book = shared_->part().book();
      std::vector<int32_t>& owners = owners_[wanted.relation];
      owners.reserve(wanted.nodes.size());
      for (const int64_t node : wanted.nodes) {
        const auto owner = static_cast<size_t>(book.part_of(type, node));
        owners.push_back(static_cast<int32_t>(owner));
        asked_[owner].lists[wanted.relation].ids.push_back(node);
        ++asked_[owner].left;
      }
    }
    for (size_t part = 0; part < asked_.size(); ++part) {
      const bool drawn_there =
          shared_->hops->draws_own_part() && static_cast<int64_t>(part) == shared_->part().index();
      for (AskedList& list : asked_[part].lists) {
        if (list.ids.empty() || drawn_there) {
          list.drawn.reset();
          continue;
        }
        if (list.drawn == nullptr) list.drawn = shared_->own->borrow_drawn();
        list.drawn->counts.clear();
        list.drawn->num_edges = 0;
      }
    }
  }

  void draw_own() {
    Asked& own = asked_[static_cast<size_t>(shared_->part().index())];
    for (size_t relation = 0; relation < own.lists.size(); ++relation) {
      AskedList& list = own.lists[relation];
      if (list.ids.empty()) continue;
      shared_->own->draw(
          relation,
          batch_->hop(),
          position_,
          list.ids,
          std::numeric_limits<int64_t>::max(),
          *list.drawn
      );
    }
  }

  // Sends each of `parts` a message for what it has not answered yet.
  void ask(const std::vector<size_t>& parts) {
    if (parts.empty()) return;
    waiting_.store(parts.size() + 1);  // one for this thread
    for (const size_t part : parts) {
      PeerCall call;
      call.method = static_cast<uint16_t>(Method::Hop);
      call.request = message_to(asked_[part]);
      call.most_rest = kLargestReplyBytes;
      shared_->peers[part]->call(
          std::move(call),
          [run = shared_from_this(), part](Result<PeerReply> reply) {
            if (!reply) return run->fail_with(std::move(reply).error());
            // Only its value counts.
            if (const auto& received = run->shared_->received)
              received->fetch_add(reply->size, std::memory_order_relaxed);
            run->asked_[part].reply = std::move(*reply);
            run->arrived();
          }
      );
    }
  }

  std::vector<std::byte> message_to(Asked& asked) const {
    std::vector<HopList> lists;
    asked.sent.clear();
    auto room = static_cast<size_t>(kMostIds);
    for (size_t relation = 0; relation < asked.lists.size() && room > 0; ++relation) {
      const AskedList& list = asked.lists[relation];
      const size_t count = std::min(room, list.ids.size() - list.answered);
      if (count == 0) continue;
      const int64_t type = shared_->own->relations()[relation].destination_type;
      lists.push_back(
          {.relation = static_cast<uint32_t>(relation),
           .ids = std::span(list.ids).subspan(list.answered, count),
           .id_bytes = id_bytes(shared_->nodes_of(type))}
      );
      asked.sent.emplace_back(relation, count);
      room -= count;
    }
    return encode(
        HopRequest{
            .sampler = shared_->number,
            .hop = static_cast<uint32_t>(batch_->hop()),
            .position = position_
        },
        lists
    );
  }

  // The last that arrives, a reply or this hop's own draws, goes on.
  void arrived() {
    if (waiting_.fetch_sub(1) > 1) return;
    executor_([run = shared_from_this()] {
      if (!run->failed_.load()) run->take_replies();
    });
  }

  void take_replies() {
    std::vector<size_t> again;
    for (size_t part = 0; part < asked_.size(); ++part) {
      Asked& asked = asked_[part];
      if (!asked.reply) continue;
      const Status taken = take(asked, std::exchange(asked.reply, std::nullopt)->rest);
      if (!taken)
        return fail_with(with_context(taken.error(), shared_->peers[part]->name() + ": hop"));
      if (asked.left > 0) again.push_back(part);
    }
    if (!again.empty()) {
      ask(again);
      return arrived();
    }
    const Status added = add_hop();
    if (!added) return fail_with(added.error());
    advance();
  }

  Status take(Asked& asked, std::span<const std::byte> bytes) {
    MessageReader reply(bytes);
    GNN_ASSIGN_OR_RETURN(const uint64_t answered, reply.u64());
    uint64_t left = answered;
    for (const auto& [relation, sent] : asked.sent) {
      const uint64_t count = std::min<uint64_t>(left, sent);
      if (count == 0) break;
      GNN_RETURN_IF_ERROR(take_list(asked.lists[relation], relation, count, reply));
      left -= count;
    }
    if (answered == 0 || left > 0) {
      return fail(
          ErrorKind::Data,
          "expected an answer to at least one id and at most to all, found " +
              std::to_string(answered)
      );
    }
    asked.left -= answered;
    return reply.end();
  }

  Status take_list(AskedList& list, size_t relation, uint64_t count, MessageReader& reply) {
    const PartRelation& shape = shared_->own->relations()[relation];
    const int64_t sources = shared_->nodes_of(shape.source_type);
    DrawnHop& drawn = *list.drawn;
    GNN_ASSIGN_OR_RETURN(const auto counts, reply.elements(count, sizeof(uint32_t)));
    const size_t before = drawn.counts.size();
    drawn.counts.resize(before + count);
    std::memcpy(drawn.counts.data() + before, counts.data(), counts.size());
    int64_t edges = 0;
    for (size_t i = before; i < drawn.counts.size(); ++i) edges += drawn.counts[i];
    const bool with_edge_ids = shared_->own->options().with_edge_ids;
    const int64_t edge_bytes = id_bytes(sources) + (with_edge_ids ? 8 : 0);
    if (edges > reply.bytes_left() / edge_bytes)
      return fail(ErrorKind::Data, "message too short for " + std::to_string(edges) + " edges");
    drawn.sources.reserve(drawn.num_edges + edges);
    GNN_RETURN_IF_ERROR(reply.ids(
        static_cast<uint64_t>(edges),
        id_bytes(sources),
        0,
        sources,
        drawn.sources.data() + drawn.num_edges
    ));
    if (with_edge_ids) {
      drawn.edge_ids.reserve(drawn.num_edges + edges);
      GNN_RETURN_IF_ERROR(reply.ids(
          static_cast<uint64_t>(edges),
          8,
          0,
          std::numeric_limits<int64_t>::max(),
          drawn.edge_ids.data() + drawn.num_edges
      ));
    }
    drawn.num_edges += edges;
    list.answered += count;
    return {};
  }

  Status add_hop() {
    std::vector<std::vector<DrawnPiece>> pieces(shared_->num_relations());
    std::vector<DrawnLists> drawn(shared_->num_relations());
    for (size_t relation = 0; relation < drawn.size(); ++relation) {
      for (const Asked& asked : asked_) {
        const AskedList& list = asked.lists[relation];
        pieces[relation].push_back(list.drawn == nullptr ? DrawnPiece() : list.drawn->piece());
        if (list.drawn != nullptr) drawn[relation].num_edges += list.drawn->num_edges;
      }
      drawn[relation].pieces = pieces[relation];
      drawn[relation].owners = owners_[relation];
    }
    return batch_->add_hop(drawn);
  }

  // Once: what comes later is dropped.
  void fail_with(Error error) {
    if (failed_.exchange(true)) return;
    executor_([run = shared_from_this(), error = std::move(error)] {
      run->done_(tl::unexpected<Error>(error));
    });
  }

  const std::shared_ptr<const Shared> shared_;
  const sampling::core::StreamPosition position_;
  const std::shared_ptr<HopBatch> batch_;
  const Executor executor_;
  const Done done_;
  std::vector<std::vector<int32_t>> owners_;  // by relation: of the wanted nodes
  std::vector<Asked> asked_;                  // by part
  // What has to arrive before the batch goes on. Its last decrement orders all that was written
  // before the others (acquire and release).
  std::atomic<size_t> waiting_ = 0;
  std::atomic<bool> failed_ = false;
};

Result<std::shared_ptr<RemoteSampler>> RemoteSampler::create(
    uint32_t number,
    std::shared_ptr<PartSampler> own,
    Peers peers,
    std::shared_ptr<std::atomic<int64_t>> received,
    std::shared_ptr<const sampling::HopBatches> hops
) {
  const int64_t parts = own->part().book().parts;
  for (int64_t part = 0; part < parts; ++part) {
    const bool has_peer =
        static_cast<size_t>(part) < peers.size() && peers[static_cast<size_t>(part)] != nullptr;
    if (part == own->part().index() || has_peer) continue;
    return fail(
        ErrorKind::Configuration, "remote sampler: nobody to ask for part " + std::to_string(part)
    );
  }
  if (hops == nullptr) {
    GNN_ASSIGN_OR_RETURN(
        HopSampler relabelling,
        HopSampler::create(own->options(), own->part().num_nodes(), own->shapes())
    );
    hops = std::make_shared<const HopSampler>(std::move(relabelling));
  }
  return std::shared_ptr<RemoteSampler>(new RemoteSampler(std::make_shared<const Shared>(Shared{
      .number = number,
      .own = std::move(own),
      .peers = std::move(peers),
      .received = std::move(received),
      .hops = std::move(hops)
  })));
}

void RemoteSampler::start(sampling::SampleRequest request, const Executor& executor, Done done) {
  auto batch = shared_->hops->begin(request);
  if (!batch) return done(tl::unexpected(std::move(batch).error()));
  std::make_shared<Run>(shared_, request.position, std::move(*batch), executor, std::move(done))
      ->advance();
}

int64_t RemoteSampler::state_bytes_per_batch() const {
  return shared_->hops->state_bytes_per_batch();
}

}  // namespace gnn::shards
