#pragma once

#include "common/result.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gnn::rpc {

/// What a frame, after the handshake, is for.
enum class FrameType : uint8_t {
  Heartbeat = 1,  ///< says that its sender lives; no body
  Request = 2,    ///< client to server
  Reply = 3,      ///< server to client
  Failure = 4,    ///< server to client: why there is no reply
};

/// What stands before a frame's body.
struct FrameHeader {
  static constexpr size_t kBytes = 24;

  FrameType type = FrameType::Heartbeat;
  uint16_t method = 0;  ///< a request's method, a failure's ErrorKind
  uint64_t call = 0;    ///< given by the client; its reply or failure has the same
  uint64_t length = 0;  ///< bytes of the body
};

/// 4 bytes "GNNf", the type, a zero, the method (2 bytes), the call (8), the length (8); little-endian.
[[nodiscard]] std::array<std::byte, FrameHeader::kBytes> encode_header(const FrameHeader& header);

/// Errors: PeerLost if it is no header. Any length passes: it is for the receiver to bound.
[[nodiscard]] Result<FrameHeader> decode_header(
    std::span<const std::byte, FrameHeader::kBytes> bytes
);

/// Longest message of a failure; the rest of a longer one is cut off.
inline constexpr size_t kMostFailureBytes = 2048;

/// An error as the method and the body of a failure, and back. A kind that this version does not
/// know becomes Internal; a message is made one printable line.
[[nodiscard]] uint16_t failure_kind(const Error& error);
[[nodiscard]] Error decode_failure(uint16_t kind, std::span<const std::byte> message);

}  // namespace gnn::rpc
