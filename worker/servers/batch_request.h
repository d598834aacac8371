#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gnn::servers {

/// What a batch is for: an evaluation of the training items has other batches than training.
enum class Use : uint8_t { Training = 0, Evaluation = 1 };

/// Names a batch of the job. All else (the seeds or links, negatives, fan-outs) the server knows from
/// its own job: the same request gets the same bits from every server.
struct BatchRequest {
  Use use = Use::Training;
  api::Part of = api::Part::Train;
  int64_t epoch = 0;
  int64_t partition = -1;      ///< whose items it has; -1: items are not dealt by their owner
  int64_t first_position = 0;  ///< of its first item, in the epoch's global order
  int64_t count = 0;           ///< items
  int64_t rank = 0;            ///< that trains on it
  int64_t index = 0;           ///< that rank's batch in the epoch, from 0

  friend bool operator==(const BatchRequest&, const BatchRequest&) = default;
};

/// The most items of a batch.
inline constexpr int64_t kMostBatchItems = int64_t{1} << 24;

/// "batch 7 of rank 1 in epoch 3: 50 training items of part 0 from position 350".
[[nodiscard]] std::string describe(const BatchRequest& request);

/// u8 use, u8 part, u16 0, u32 0, then i64 epoch, partition, first position, count, rank, index;
/// little-endian.
[[nodiscard]] std::vector<std::byte> encode(const BatchRequest& request);

/// Reads what a client sent: any bytes. What the numbers must be in this job is for the maker to see.
/// Errors: Data naming the field.
[[nodiscard]] Result<BatchRequest> decode_batch_request(std::span<const std::byte> bytes);

}  // namespace gnn::servers
