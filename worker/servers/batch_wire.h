#pragma once

#include "common/page_buffer.h"
#include "common/result.h"
#include "worker/loader/link_batch_maker.h"
#include "worker/loader/mini_batch.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace gnn::servers {

/// What a batch took on the server.
struct BatchTimes {
  double queue_seconds = 0;  ///< from the request to its begin
  double sample_seconds = 0;
  double gather_seconds = 0;
};

/// A batch in pieces: tensors, and the numbers without which nobody knows what they are.
struct Parcel {
  std::vector<int64_t> numbers;
  std::vector<at::Tensor> tensors;  ///< CPU, contiguous, or undefined
  BatchTimes times;

  /// Bytes of all tensors.
  [[nodiscard]] int64_t bytes() const;
};

/// The most bytes of a parcel's head.
inline constexpr int64_t kMostHeadBytes = int64_t{64} << 10;
/// The most bytes of a parcel, head included.
inline constexpr int64_t kMostParcelBytes = int64_t{1} << 30;
/// Bytes that say how long the head is.
inline constexpr int64_t kHeadSizeBytes = 8;

/// All that stands before the tensors' bytes: u32 "GNNb", u32 bytes of the rest of the head; u32
/// numbers, u32 tensors, 3 doubles of BatchTimes; the numbers, 8 bytes each; for each tensor u8 type,
/// u8 dimensions, u16 0, u32 0, and i64 for each size. Little-endian.
/// Errors: Internal if it would have more than kMostHeadBytes.
[[nodiscard]] Result<std::vector<std::byte>> encode_head(const Parcel& parcel);

/// The tensors' memory, in the order of the wire.
[[nodiscard]] std::vector<std::span<const std::byte>> segments_of(const Parcel& parcel);
[[nodiscard]] std::vector<std::span<std::byte>> places_in(Parcel& parcel);

/// Bytes that follow the first kHeadSizeBytes of a head.
/// Errors: Data, for any bytes that are no head's start.
[[nodiscard]] Result<int64_t> head_rest(std::span<const std::byte> first);
/// A parcel whose tensors are not filled yet. They lie in `memory` and hold it. `head`: what follows
/// the first kHeadSizeBytes. Memory is taken only if `tensor_bytes`, which are still to come, are just
/// what the tensors have.
/// Errors: Data for any other bytes; OutOfMemory.
[[nodiscard]] Result<Parcel> decode_head(
    std::span<const std::byte> head, int64_t tensor_bytes, const std::shared_ptr<PageBuffer>& memory
);

/// A batch as a parcel, without copies, and back.
/// Errors: Data if the parcel is none of a batch: numbers, shapes and types are held against each
/// other, and every index against what it points into.
[[nodiscard]] Parcel pack(const loader::MiniBatch& batch);
[[nodiscard]] Parcel pack(const loader::LinkMiniBatch& batch);
template <class Batch>
[[nodiscard]] Result<Batch> unpack(Parcel parcel);
template <>
[[nodiscard]] Result<loader::MiniBatch> unpack(Parcel parcel);
template <>
[[nodiscard]] Result<loader::LinkMiniBatch> unpack(Parcel parcel);

}  // namespace gnn::servers
