#include "worker/shards/messages.h"

#include <cstring>
#include <string>
#include <utility>

namespace gnn::shards {
namespace {

template <class T>
T read(const std::byte* bytes) {
  T number;
  std::memcpy(&number, bytes, sizeof(T));
  return number;
}

template <class T>
Status read_ids(std::span<const std::byte> bytes, int64_t begin, int64_t end, int64_t* out) {
  const size_t count = bytes.size() / sizeof(T);
  bool in_range = true;
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<int64_t>(read<T>(bytes.data() + i * sizeof(T)));
    in_range = in_range && out[i] >= begin && out[i] < end;
  }
  if (in_range) return {};
  size_t bad = 0;
  while (out[bad] >= begin && out[bad] < end) ++bad;
  return fail(
      ErrorKind::Data,
      "id " + std::to_string(bad) + " of a list: expected one in [" + std::to_string(begin) + ", " +
          std::to_string(end) + "), found " + std::to_string(out[bad])
  );
}

}  // namespace

void MessageWriter::add_ids(std::span<const int64_t> ids, int64_t id_bytes) {
  if (id_bytes == 8) return add_bytes(std::as_bytes(ids));
  const size_t at = bytes_.size();
  bytes_.resize(at + ids.size() * sizeof(uint32_t));
  std::byte* out = bytes_.data() + at;
  for (const int64_t id : ids) {
    const auto narrow = static_cast<uint32_t>(id);
    std::memcpy(out, &narrow, sizeof(narrow));
    out += sizeof(narrow);
  }
}

std::vector<std::byte> encode(const HopRequest& request, std::span<const HopList> lists) {
  MessageWriter message;
  message.add(request.sampler);
  message.add(request.hop);
  message.add(request.position.seed);
  message.add(request.position.epoch);
  message.add(request.position.batch);
  message.add(static_cast<uint32_t>(lists.size()));
  message.add(uint32_t{0});
  for (const HopList& list : lists) {
    message.add(list.relation);
    message.add(uint32_t{0});
    message.add(static_cast<uint64_t>(list.ids.size()));
  }
  for (const HopList& list : lists) message.add_ids(list.ids, list.id_bytes);
  return std::move(message).take();
}

std::vector<std::byte> encode(const RowsRequest& request, std::span<const int64_t> ids) {
  MessageWriter message;
  message.add(request.index);
  message.add(uint32_t{0});
  message.add(static_cast<uint64_t>(ids.size()));
  message.add_ids(ids, 8);
  return std::move(message).take();
}

Result<std::span<const std::byte>> MessageReader::elements(uint64_t count, int64_t element_bytes) {
  const auto size = static_cast<uint64_t>(element_bytes);
  // By division: the product may overflow.
  if (count > left_.size() / size) {
    return fail(
        ErrorKind::Data,
        "message too short: expected " + std::to_string(count) + " elements of " +
            std::to_string(element_bytes) + " bytes, found " + std::to_string(left_.size()) +
            " bytes"
    );
  }
  const auto taken = left_.first(count * size);
  left_ = left_.subspan(count * size);
  return taken;
}

Result<uint32_t> MessageReader::u32() {
  GNN_ASSIGN_OR_RETURN(const auto bytes, elements(1, sizeof(uint32_t)));
  return read<uint32_t>(bytes.data());
}

Result<uint64_t> MessageReader::u64() {
  GNN_ASSIGN_OR_RETURN(const auto bytes, elements(1, sizeof(uint64_t)));
  return read<uint64_t>(bytes.data());
}

Status MessageReader::ids(
    uint64_t count, int64_t id_bytes, int64_t begin, int64_t end, int64_t* out
) {
  GNN_ASSIGN_OR_RETURN(const auto bytes, elements(count, id_bytes));
  return id_bytes == 4 ? read_ids<uint32_t>(bytes, begin, end, out)
                       : read_ids<int64_t>(bytes, begin, end, out);
}

Status MessageReader::end() const {
  if (left_.empty()) return {};
  return fail(ErrorKind::Data, "message too long by " + std::to_string(left_.size()) + " bytes");
}

}  // namespace gnn::shards
