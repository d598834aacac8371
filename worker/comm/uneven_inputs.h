#pragma once

#include "common/result.h"
#include "worker/comm/communicator.h"

#include <cstdint>
#include <vector>

namespace gnn::comm {

/// Which ranks have a batch in which step of an epoch, from batch counts known beforehand (the item
/// sampler has them in closed form): the ranks need not tell each other. Ranks without a batch
/// shadow the others' steps.
class ShadowPlan {
 public:
  /// `batches_per_rank[r]` >= 0: the batches of rank r in this epoch.
  explicit ShadowPlan(std::vector<int64_t> batches_per_rank);

  /// Steps of the epoch on every rank: the largest batch count.
  [[nodiscard]] int64_t total_steps() const { return total_steps_; }
  /// Number of ranks with a batch in `step`.
  [[nodiscard]] int64_t active_ranks(int64_t step) const;
  /// The lowest rank with a batch in `step`: its buffers are sent to all.
  [[nodiscard]] int64_t buffer_source(int64_t step) const;

 private:
  std::vector<int64_t> batches_per_rank_;
  int64_t total_steps_ = 0;
};

/// What Join's handshake agreed on: the same on every rank.
struct JoinedStep {
  int64_t active_ranks = 0;   ///< 0: no rank has a batch, the epoch is over
  int64_t buffer_source = 0;  ///< the lowest active rank
};

/// For loaders of unknown length: before each step the ranks tell each other whether they have a
/// batch, by one small all-reduce.
///
///     while (true) {
///       auto batch = loader.next();
///       auto step = join.handshake(batch.has_value());
///       if (step.active_ranks == 0) break;
///       batch ? train(*batch) : ddp.shadow_step();
///     }
class Join {
 public:
  explicit Join(std::shared_ptr<Communicator> communicator);

  /// A rank that said false says false until the epoch is over. Collective.
  [[nodiscard]] Result<JoinedStep> handshake(bool has_batch);

 private:
  std::shared_ptr<Communicator> communicator_;
};

}  // namespace gnn::comm
