#pragma once

#include "common/guarded.h"
#include "common/page_buffer.h"
#include "common/recycler.h"
#include "common/result.h"
#include "worker/shards/messages.h"
#include "worker/shards/part.h"
#include "worker/shards/part_sampler.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace gnn::shards {

/// The segments of a reply, one after the other.
struct ServiceReply {
  std::vector<std::span<const std::byte>> segments;
  std::shared_ptr<const void> owner;  ///< of their memory
};

/// Answers other nodes' requests for what this node's part owns: neighbours drawn for a hop, and rows.
/// Fan-outs and sizes come from this job's own samplers and matrices; every id of a request must be
/// one that the part owns, and every length is checked before memory is taken for it.
/// Local rank 0 of each node has one. It is there before any rank of another node asks, and until all
/// of them have made their last batch.
/// Threads: safe from any thread.
class Service {
 public:
  /// `samplers` in the order in which all nodes number them. `most_reply_bytes` bounds an answer to a
  /// hop: with more neighbours than that it is one to some of the ids.
  Service(
      std::shared_ptr<const Part> part,
      std::vector<std::shared_ptr<PartSampler>> samplers,
      int64_t most_reply_bytes = kMostReplyBytes
  )
      : part_(std::move(part)),
        samplers_(std::move(samplers)),
        most_reply_bytes_(most_reply_bytes) {}

  /// The reply to a request of Method `method`: any bytes, which are valid during the call alone.
  /// Errors: Data, which says what was wrong with the request.
  [[nodiscard]] Result<ServiceReply> answer(uint16_t method, std::span<const std::byte> request)
      const;

  /// Makes rows of this part's nodes readable as Method::Hidden `index`, in place of those that
  /// were.
  /// Shapes: rows.rows contiguous, on the CPU; nobody writes to it until it is withdrawn.
  void publish(uint32_t index, PartRows rows);
  void withdraw(uint32_t index);

 private:
  [[nodiscard]] Result<ServiceReply> answer_hop(MessageReader request) const;
  [[nodiscard]] Result<ServiceReply> answer_rows(Method method, MessageReader request) const;
  // The rows of a matrix that this part owns.
  [[nodiscard]] Result<PartRows> matrix_of(Method method, uint32_t index) const;

  const std::shared_ptr<const Part> part_;
  const std::vector<std::shared_ptr<PartSampler>> samplers_;
  const int64_t most_reply_bytes_;
  mutable Guarded<std::map<uint32_t, PartRows>> hidden_;
  // Of replies: as many as were under way at once.
  mutable Recycler<PageBuffer> buffers_{[] { return std::make_unique<PageBuffer>(); }};
};

}  // namespace gnn::shards
