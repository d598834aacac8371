#pragma once

#include "common/result.h"
#include "worker/sampling/core/rng.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace gnn::shards {

/// What a Service answers. Requests name what is wanted and for which ids; all else, such as fan-outs
/// and sizes, the service knows from its own job. Numbers are little-endian; ids have 4 bytes where
/// those of all nodes of their type fit, else 8.
enum class Method : uint16_t {
  /// A hop of a batch: u32 sampler, u32 hop, u64 seed, epoch and batch, u32 lists (of one relation
  /// each), u32 0; for each list u32 relation, u32 0, u64 ids; then the ids of all lists.
  /// Reply: u64 ids that are answered, the first ones, at least one; for each list that has some of
  /// them, one after the other, u32 counts, then sources, then i64 edge ids if the sampler has them.
  Hop = 1,
  /// Rows of a matrix: u32 its index, u32 0, u64 ids; then the ids, 8 bytes each.
  /// Reply: the rows, one after the other.
  Features = 2,  ///< index: the node type
  Labels = 3,    ///< index: the node type
  Hidden = 4,    ///< index: what Service::publish() was given
};

/// The most bytes of a reply to a hop that a service makes. One list may take more, since it is not
/// cut.
inline constexpr int64_t kMostReplyBytes = int64_t{64} << 20;
/// The most bytes of any reply.
inline constexpr int64_t kLargestReplyBytes = int64_t{1} << 30;
/// The most ids of a request.
inline constexpr int64_t kMostIds = int64_t{1} << 20;

/// Bytes of an id of a node type of so many nodes.
[[nodiscard]] constexpr int64_t id_bytes(int64_t num_nodes) {
  return num_nodes <= int64_t{1} << 32 ? 4 : 8;
}

/// The most bytes of rows in a reply, where a row is no larger: so few that they are still in the
/// core's cache when they are sent, and that the first are on their way while the last are gathered.
inline constexpr int64_t kMostRowBytes = int64_t{1} << 20;

/// The most rows that a message may ask for.
[[nodiscard]] constexpr int64_t rows_of_message(int64_t row_bytes) {
  const int64_t fit = kMostRowBytes / (row_bytes > 0 ? row_bytes : 1);
  return fit < 1 ? 1 : fit > kMostIds ? kMostIds : fit;
}

/// The ids of one relation in a request for a hop.
struct HopList {
  uint32_t relation = 0;
  std::span<const int64_t> ids;
  int64_t id_bytes = 8;
};

struct HopRequest {
  uint32_t sampler = 0;
  uint32_t hop = 0;
  sampling::core::StreamPosition position{};
};

struct RowsRequest {
  uint32_t index = 0;  ///< of the matrix, see Method
};

[[nodiscard]] std::vector<std::byte> encode(
    const HopRequest& request, std::span<const HopList> lists
);
[[nodiscard]] std::vector<std::byte> encode(
    const RowsRequest& request, std::span<const int64_t> ids
);

/// Writes a message piece by piece.
class MessageWriter {
 public:
  template <class T>
  void add(T number) {
    add_bytes(std::as_bytes(std::span(&number, 1)));
  }
  void add_bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void add_ids(std::span<const int64_t> ids, int64_t id_bytes);
  [[nodiscard]] std::vector<std::byte> take() && { return std::move(bytes_); }
  [[nodiscard]] std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads a message that a peer sent: any bytes. Nothing is read past its end, and no memory is taken
/// for what is not there.
/// Errors: Data.
class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> bytes) : left_(bytes) {}

  [[nodiscard]] int64_t bytes_left() const { return static_cast<int64_t>(left_.size()); }
  [[nodiscard]] Result<uint32_t> u32();
  [[nodiscard]] Result<uint64_t> u64();
  /// The next `count` elements of `element_bytes` each.
  [[nodiscard]] Result<std::span<const std::byte>> elements(uint64_t count, int64_t element_bytes);
  /// Writes the next `count` ids to `out`, which has room for them.
  /// Errors: Data also for an id outside [begin, end).
  [[nodiscard]] Status ids(
      uint64_t count, int64_t id_bytes, int64_t begin, int64_t end, int64_t* out
  );
  /// Errors: Data unless all has been read.
  [[nodiscard]] Status end() const;

 private:
  std::span<const std::byte> left_;
};

}  // namespace gnn::shards
