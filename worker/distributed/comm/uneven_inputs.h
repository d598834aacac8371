#pragma once

#include "common/result.h"
#include "worker/distributed/comm/communicator.h"

#include <cstdint>
#include <vector>

namespace gnn::comm {

/// Who has a batch in which step of an epoch, from batch counts that are known beforehand (the item
/// sampler gives them in closed form). Ranks that are out shadow the others' steps; nothing is sent
/// to find out.
class ShadowPlan {
 public:
  /// `batches_per_rank[r]` >= 0: how many batches rank r has in this epoch.
  explicit ShadowPlan(std::vector<int64_t> batches_per_rank);

  /// Steps that every rank takes part in: the largest batch count.
  [[nodiscard]] int64_t total_steps() const { return total_steps_; }
  /// Number of ranks with a batch in `step`.
  [[nodiscard]] int64_t active_ranks(int64_t step) const;
  /// The lowest rank that has a batch in `step`: whose buffers are sent to all.
  [[nodiscard]] int64_t buffer_source(int64_t step) const;

 private:
  std::vector<int64_t> batches_per_rank_;
  int64_t total_steps_ = 0;
};

/// What the ranks know about a step after Join's handshake: the same on every rank.
struct JoinedStep {
  int64_t active_ranks = 0;   ///< 0: everybody is out, the epoch is over.
  int64_t buffer_source = 0;  ///< The lowest active rank.
};

/// For loaders of unknown length: before each step the ranks tell each other whether they have a
/// batch (one small all-reduce a step). Use: `while (true) { auto batch = loader.next(); step =
/// join.handshake(batch.has_value());
///       if (step.active_ranks == 0) break; batch ? train(*batch) : ddp.shadow_step(); }`
class Join {
 public:
  explicit Join(std::shared_ptr<Communicator> communicator);

  /// Collective. Once a rank said false it must go on saying false until the epoch is over.
  [[nodiscard]] Result<JoinedStep> handshake(bool has_batch);

 private:
  std::shared_ptr<Communicator> communicator_;
};

}  // namespace gnn::comm
