#include "worker/servers/batch_request.h"

#include "worker/shards/messages.h"

#include <array>
#include <limits>
#include <string>
#include <utility>

namespace gnn::servers {
namespace {

struct Bounds {
  const char* name;
  int64_t least;
  int64_t most;
};

// The numbers of a request, in the order of the wire.
constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
constexpr int64_t kMostRanks = int64_t{1} << 32;
constexpr std::array kParts{"training", "validation", "test"};  // of the split

Status check(const Bounds& bounds, int64_t value) {
  if (value >= bounds.least && value <= bounds.most) return {};
  return fail(
      ErrorKind::Data,
      std::string("request for a batch: expected ") + bounds.name + " from " +
          std::to_string(bounds.least) + " to " + std::to_string(bounds.most) + ", found " +
          std::to_string(value)
  );
}

Result<int64_t> read(shards::MessageReader& reader, const Bounds& bounds) {
  GNN_ASSIGN_OR_RETURN(const uint64_t value, reader.u64());
  GNN_RETURN_IF_ERROR(check(bounds, static_cast<int64_t>(value)));
  return static_cast<int64_t>(value);
}

}  // namespace

std::string describe(const BatchRequest& request) {
  std::string text = "batch " + std::to_string(request.index) + " of rank " +
                     std::to_string(request.rank) + " in epoch " + std::to_string(request.epoch) +
                     ": " + std::to_string(request.count) + " " +
                     kParts[static_cast<size_t>(request.of)] + " items";
  if (request.partition >= 0) text += " of part " + std::to_string(request.partition);
  text += " from position " + std::to_string(request.first_position);
  return text + (request.use == Use::Evaluation ? ", to evaluate" : "");
}

std::vector<std::byte> encode(const BatchRequest& request) {
  shards::MessageWriter writer;
  writer.add(static_cast<uint32_t>(request.use) | static_cast<uint32_t>(request.of) << 8);
  writer.add(uint32_t{0});
  for (const int64_t value :
       {request.epoch,
        request.partition,
        request.first_position,
        request.count,
        request.rank,
        request.index})
    writer.add(value);
  return std::move(writer).take();
}

Result<BatchRequest> decode_batch_request(std::span<const std::byte> bytes) {
  shards::MessageReader reader(bytes);
  BatchRequest request;
  GNN_ASSIGN_OR_RETURN(const uint32_t kinds, reader.u32());
  GNN_ASSIGN_OR_RETURN(const uint32_t zero, reader.u32());
  GNN_RETURN_IF_ERROR(check({"use", 0, 1}, kinds & 0xff));
  GNN_RETURN_IF_ERROR(check({"part of the split", 0, 2}, kinds >> 8));
  GNN_RETURN_IF_ERROR(check({"zero", 0, 0}, zero));
  request.use = static_cast<Use>(kinds & 0xff);
  request.of = static_cast<api::Part>(kinds >> 8);
  GNN_ASSIGN_OR_RETURN(request.epoch, read(reader, {"epoch", 0, kAny}));
  GNN_ASSIGN_OR_RETURN(request.partition, read(reader, {"partition", -1, kAny}));
  GNN_ASSIGN_OR_RETURN(request.first_position, read(reader, {"first position", 0, kAny}));
  GNN_ASSIGN_OR_RETURN(request.count, read(reader, {"count", 0, kMostBatchItems}));
  GNN_ASSIGN_OR_RETURN(request.rank, read(reader, {"rank", 0, kMostRanks}));
  GNN_ASSIGN_OR_RETURN(request.index, read(reader, {"index", 0, kAny}));
  GNN_RETURN_IF_ERROR(reader.end());
  return request;
}

}  // namespace gnn::servers
