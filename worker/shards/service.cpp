#include "worker/shards/service.h"

#include "worker/data/gather.h"

#include <algorithm>
#include <string>
#include <utility>

namespace gnn::shards {
namespace {

// A reply of one segment.
ServiceReply reply_of(std::vector<std::byte> bytes) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {.segments = {std::span(*owner)}, .owner = owner};
}

// What a request for a hop asks of one relation.
struct AskedList {
  size_t relation = 0;
  std::vector<int64_t> ids;
};

struct AskedHop {
  uint32_t sampler = 0;
  uint32_t hop = 0;
  sampling::core::StreamPosition position;
  uint32_t lists = 0;
};

Result<AskedHop> read_hop(MessageReader& request) {
  AskedHop asked;
  GNN_ASSIGN_OR_RETURN(asked.sampler, request.u32());
  GNN_ASSIGN_OR_RETURN(asked.hop, request.u32());
  GNN_ASSIGN_OR_RETURN(asked.position.seed, request.u64());
  GNN_ASSIGN_OR_RETURN(asked.position.epoch, request.u64());
  GNN_ASSIGN_OR_RETURN(asked.position.batch, request.u64());
  GNN_ASSIGN_OR_RETURN(asked.lists, request.u32());
  GNN_RETURN_IF_ERROR(request.u32());
  return asked;
}

tl::unexpected<Error> bad_number(const char* what, uint64_t found, size_t count) {
  return fail(
      ErrorKind::Data,
      std::string("request: expected ") + what + " below " + std::to_string(count) + ", found " +
          std::to_string(found)
  );
}

tl::unexpected<Error> too_many(uint64_t found, int64_t most) {
  return fail(
      ErrorKind::Data,
      "request: expected at most " + std::to_string(most) + " ids, found " + std::to_string(found)
  );
}

// The ids of each list, which this part owns.
Result<std::vector<AskedList>> read_lists(
    MessageReader& request, uint32_t count, const PartSampler& sampler
) {
  const std::vector<PartRelation>& relations = sampler.relations();
  if (count > relations.size()) return bad_number("a number of lists", count, relations.size() + 1);
  std::vector<uint64_t> sizes;
  std::vector<AskedList> lists;
  uint64_t total = 0;
  for (uint32_t i = 0; i < count; ++i) {
    GNN_ASSIGN_OR_RETURN(const uint32_t relation, request.u32());
    GNN_RETURN_IF_ERROR(request.u32());
    GNN_ASSIGN_OR_RETURN(const uint64_t size, request.u64());
    if (relation >= relations.size()) return bad_number("a relation", relation, relations.size());
    if (size > static_cast<uint64_t>(kMostIds) - total) return too_many(total + size, kMostIds);
    total += size;
    lists.push_back({.relation = relation, .ids = {}});
    sizes.push_back(size);
  }
  for (size_t i = 0; i < lists.size(); ++i) {
    const int64_t type = relations[lists[i].relation].destination_type;
    const int64_t bytes = id_bytes(sampler.part().num_nodes()[static_cast<size_t>(type)]);
    if (sizes[i] > static_cast<uint64_t>(request.bytes_left() / bytes))
      return fail(ErrorKind::Data, "request: its ids are cut off");
    lists[i].ids.resize(sizes[i]);
    const data::IdRange own = sampler.part().own(type);
    GNN_RETURN_IF_ERROR(request.ids(sizes[i], bytes, own.begin, own.end, lists[i].ids.data()));
  }
  GNN_RETURN_IF_ERROR(request.end());
  return lists;
}

}  // namespace

Result<ServiceReply> Service::answer(uint16_t method, std::span<const std::byte> request) const {
  switch (static_cast<Method>(method)) {
    case Method::Hop:
      return answer_hop(MessageReader(request));
    case Method::Features:
    case Method::Labels:
    case Method::Hidden:
      return answer_rows(static_cast<Method>(method), MessageReader(request));
  }
  return fail(ErrorKind::Data, "request: unknown method " + std::to_string(method));
}

Result<ServiceReply> Service::answer_hop(MessageReader request) const {
  GNN_ASSIGN_OR_RETURN(const AskedHop asked, read_hop(request));
  if (asked.sampler >= samplers_.size())
    return bad_number("a sampler", asked.sampler, samplers_.size());
  PartSampler& sampler = *samplers_[asked.sampler];
  const size_t hops = sampler.options().fanout.size();
  if (asked.hop >= hops) return bad_number("a hop", asked.hop, hops);
  GNN_ASSIGN_OR_RETURN(
      const std::vector<AskedList> lists, read_lists(request, asked.lists, sampler)
  );
  const bool with_edge_ids = sampler.options().with_edge_ids;
  const auto drawn = sampler.borrow_drawn();
  MessageWriter reply;
  reply.add(uint64_t{0});
  uint64_t answered = 0;
  for (const AskedList& list : lists) {
    const int64_t source_type = sampler.relations()[list.relation].source_type;
    const int64_t source_bytes =
        id_bytes(sampler.part().num_nodes()[static_cast<size_t>(source_type)]);
    const int64_t left = most_reply_bytes_ - static_cast<int64_t>(reply.bytes().size());
    const int64_t most = left / (source_bytes + (with_edge_ids ? 8 : 0));
    if (most <= 0 && answered > 0) break;
    // The counts may take what is left beyond the bound; they are at most 4 MiB.
    const size_t count = sampler.draw(
        list.relation, asked.hop, asked.position, list.ids, std::max<int64_t>(most, 1), *drawn
    );
    const auto edges = static_cast<size_t>(drawn->num_edges);
    reply.add_bytes(std::as_bytes(std::span(drawn->counts)));
    reply.add_ids({drawn->sources.data(), edges}, source_bytes);
    if (with_edge_ids) reply.add_ids({drawn->edge_ids.data(), edges}, 8);
    answered += count;
    if (count < list.ids.size()) break;
  }
  const auto number = std::as_bytes(std::span(&answered, 1));
  std::copy(number.begin(), number.end(), reply.bytes().begin());
  return reply_of(std::move(reply).take());
}

Result<PartRows> Service::matrix_of(Method method, uint32_t index) const {
  if (method == Method::Hidden) {
    const auto hidden = hidden_.lock();
    const auto found = hidden->find(index);
    if (found != hidden->end()) return found->second;
    return fail(
        ErrorKind::Data, "request: there are no hidden rows " + std::to_string(index) + " now"
    );
  }
  if (index >= part_->num_nodes().size())
    return bad_number("a node type", index, part_->num_nodes().size());
  const PartRows& held = method == Method::Features ? part_->features(index) : part_->labels(index);
  if (!held.rows.defined())
    return fail(
        ErrorKind::Data, "request: node type " + std::to_string(index) + " has no such rows"
    );
  const data::IdRange own = part_->own(index);
  return PartRows{
      .nodes = own, .rows = held.rows.narrow(0, own.begin - held.nodes.begin, own.size())
  };
}

Result<ServiceReply> Service::answer_rows(Method method, MessageReader request) const {
  GNN_ASSIGN_OR_RETURN(const uint32_t index, request.u32());
  GNN_RETURN_IF_ERROR(request.u32());
  GNN_ASSIGN_OR_RETURN(const uint64_t count, request.u64());
  GNN_ASSIGN_OR_RETURN(const PartRows rows, matrix_of(method, index));
  const int64_t row_bytes =
      rows.nodes.size() == 0 ? 1 : static_cast<int64_t>(rows.rows.nbytes()) / rows.nodes.size();
  const int64_t most = rows_of_message(row_bytes);
  if (count > static_cast<uint64_t>(most)) return too_many(count, most);
  if (count > static_cast<uint64_t>(request.bytes_left()) / sizeof(int64_t))
    return fail(ErrorKind::Data, "request: its ids are cut off");
  std::vector<int64_t> places(count);
  GNN_RETURN_IF_ERROR(request.ids(count, 8, rows.nodes.begin, rows.nodes.end, places.data()));
  GNN_RETURN_IF_ERROR(request.end());
  for (int64_t& id : places) id -= rows.nodes.begin;
  const size_t bytes = count * static_cast<size_t>(row_bytes);
  if (bytes == 0) return ServiceReply();
  // Gathered here rather than written from where they are: their pages may have to come from a disk,
  // and single rows are small. Into memory that has its pages: fresh ones cost more than the copy.
  const auto reply = buffers_.borrow();
  reply->reserve(bytes);
  auto* const data = static_cast<std::byte*>(reply->data());
  data::gather_rows(
      static_cast<const std::byte*>(rows.rows.const_data_ptr()),
      static_cast<size_t>(row_bytes),
      places,
      data
  );
  return ServiceReply{.segments = {{data, bytes}}, .owner = reply};
}

void Service::publish(uint32_t index, PartRows rows) {
  (*hidden_.lock())[index] = std::move(rows);
}

void Service::withdraw(uint32_t index) {
  hidden_.lock()->erase(index);
}

}  // namespace gnn::shards
