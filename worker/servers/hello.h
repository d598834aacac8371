#pragma once

#include "common/result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gnn::servers {

/// What a server answers, beside shards::Method: numbers of both share a field.
enum class Method : uint16_t {
  Batch = 5,  ///< request: BatchRequest; reply: a parcel, see batch_wire.h
  Hello = 6,  ///< no body; reply: Hello, at once
  Ready = 7,  ///< no body; reply: none, as soon as the server makes batches
};

/// Version of requests and answers of this module; part of Hello.
inline constexpr int64_t kServersVersion = 1;
inline constexpr int64_t kMostDescriptionBytes = int64_t{1} << 20;

/// What a server says of itself before anything is asked of it.
struct Hello {
  int64_t version = kServersVersion;
  int64_t server = 0;
  int64_t restart = 0;
  int64_t partitions = 1;
  int64_t part = 0;  ///< that it holds
  /// Of the data set and the job, written by tasks: the same on all servers of a job.
  std::string description;
};

[[nodiscard]] std::vector<std::byte> encode(const Hello& hello);
/// Errors: Data for any bytes that are no hello.
[[nodiscard]] Result<Hello> decode_hello(std::span<const std::byte> bytes);

}  // namespace gnn::servers
