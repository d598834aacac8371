#include "worker/rpc/frame.h"

#include "common/printable.h"
#include "worker/rpc/wire.h"

#include <string_view>

namespace gnn::rpc {
namespace {

constexpr uint32_t kFrameMark = 0x664e4e47;  // "GNNf"

}  // namespace

std::array<std::byte, FrameHeader::kBytes> encode_header(const FrameHeader& header) {
  std::array<std::byte, FrameHeader::kBytes> bytes{};
  WireWriter writer(bytes);
  writer.put(kFrameMark);
  writer.put(static_cast<uint8_t>(header.type));
  writer.put(uint8_t{0});
  writer.put(header.method);
  writer.put(header.call);
  writer.put(header.length);
  return bytes;
}

Result<FrameHeader> decode_header(std::span<const std::byte, FrameHeader::kBytes> bytes) {
  WireReader reader(bytes);
  const auto mark = reader.get<uint32_t>();
  const auto type = reader.get<uint8_t>();
  const auto zero = reader.get<uint8_t>();
  if (mark != kFrameMark || zero != 0 || type < static_cast<uint8_t>(FrameType::Heartbeat) ||
      type > static_cast<uint8_t>(FrameType::Failure)) {
    return fail(ErrorKind::PeerLost, "sent bytes that are no frame of this protocol");
  }
  FrameHeader header;
  header.type = static_cast<FrameType>(type);
  header.method = reader.get<uint16_t>();
  header.call = reader.get<uint64_t>();
  header.length = reader.get<uint64_t>();
  return header;
}

uint16_t failure_kind(const Error& error) {
  return static_cast<uint16_t>(error.kind);
}

Error decode_failure(uint16_t kind, std::span<const std::byte> message) {
  const std::string_view text(reinterpret_cast<const char*>(message.data()), message.size());
  const bool known = kind <= static_cast<uint16_t>(ErrorKind::Internal);
  return Error{
      .kind = known ? static_cast<ErrorKind>(kind) : ErrorKind::Internal,
      .message = printable_line(text, kMostFailureBytes)
  };
}

}  // namespace gnn::rpc
