#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/checkpoint/checkpoint_state.h"
#include "worker/comm/communicator.h"
#include "worker/embedding/adam_rows.h"
#include "worker/embedding/idle_steps.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gnn::embedding {

/// A table: one row for each node of a type.
struct TableOptions {
  std::string name;  ///< the node type's
  int64_t rows = 0;
  int64_t width = 0;
};

struct EmbeddingOptions {
  std::vector<TableOptions> tables;
  /// How the rows change that a step does not touch: as torch's Adam moves them, or not at all.
  api::EmbeddingUpdate update = api::EmbeddingUpdate::Dense;
  api::Optimizer optimizer{};
  int64_t seed = 0;
  at::ScalarType dtype = at::kFloat;  ///< or float64
  c10::Device device{c10::kCPU};      ///< where read() leaves rows; tables are on the CPU
};

/// What the update of a step needs.
struct StepUpdate {
  double factor = 1;  ///< DistributedDataParallel::factor_of_sums()
  double learning_rate = 0;
};

/// Tables of trained rows, the same on all ranks, outside the gradient reducer: ranks exchange the
/// rows that a step touched, and no others. A step is: any number of read(), backward from losses of
/// what they gave, then apply() on all ranks, also on those that read nothing; or discard().
/// Nothing but apply() changes a table: what is read, when it is evaluated and when a checkpoint is
/// written leaves no trace in the bits of later steps.
/// Threads: one.
class Embeddings {
 public:
  /// Tables with draws from N(0, 1) that depend on the seed, the table's name and its width alone.
  /// Collective.
  /// Errors: Configuration, with the field, for another optimizer than Adam and for weight decay,
  /// which would move all rows in each step; the same naming a rank whose tables differ from rank
  /// 0's; PeerLost.
  [[nodiscard]] static Result<Embeddings> create(
      const EmbeddingOptions& options, comm::Communicator& communicator
  );

  [[nodiscard]] size_t count() const { return tables_.size(); }
  [[nodiscard]] const TableOptions& options_of(size_t table) const {
    return options_.tables[table];
  }
  [[nodiscard]] int64_t steps() const { return steps_; }

  /// The present values of rows, [K, width] on the options' device. Where gradients are enabled, it
  /// is a leaf that needs one, and counts as read in this step; one that gets no gradient is as not
  /// read. `ids` are int64 [K] on the CPU, ascending and unique.
  [[nodiscard]] at::Tensor read(size_t table, const at::Tensor& ids);

  /// The gradients of all that was read since the last step, of each table, added on all ranks in the
  /// order of the reads and of the ranks: equal bits on all. Collective.
  /// Errors: PeerLost.
  [[nodiscard]] Result<std::vector<RowGradients>> sum_gradients(comm::Communicator& communicator
  ) const;
  /// Ends a step: multiplies these sums by the factor, and updates the tables.
  /// Errors: Configuration naming table and row if a gradient holds a NaN or an infinity, the same
  /// on all ranks; then training cannot go on.
  [[nodiscard]] Status apply(std::vector<RowGradients> sums, const StepUpdate& step);
  /// Both, with equal bits on all ranks. Collective.
  [[nodiscard]] Status apply(comm::Communicator& communicator, const StepUpdate& step);
  /// Forgets what was read in a step that is given up.
  void discard() { reads_.clear(); }

  /// A copy of all rows of a table at present, [rows, width] on the CPU.
  [[nodiscard]] at::Tensor values(size_t table) const;
  /// Passes all tables' present rows to `use`, in order, some thousands at a time.
  void for_each_part(const std::function<void(const at::Tensor&)>& use) const;

  /// Of tables and optimizer state.
  [[nodiscard]] int64_t bytes() const;
  /// The name, as in state(), of a part that holds a NaN or an infinity; nothing if all are finite.
  [[nodiscard]] std::optional<std::string> find_not_finite() const;

  /// All that a resumed run needs, named "embeddings/...". The tables' own memory, not copies: they
  /// hold until the next apply().
  [[nodiscard]] std::vector<checkpoint::CheckpointTensor> state() const;
  /// Copies what state() gave into the tables.
  /// Errors: Configuration naming the first tensor that is missing, unknown, of another shape or
  /// dtype, or holds what no run can have left; then nothing was changed.
  [[nodiscard]] Status restore(const std::vector<checkpoint::CheckpointTensor>& tensors);

 private:
  // Rows that were read in this step.
  struct Read {
    size_t table = 0;
    at::Tensor ids;
    at::Tensor leaf;
  };

  explicit Embeddings(EmbeddingOptions options);

  [[nodiscard]] const IdleSteps* idle() const { return idle_ ? &*idle_ : nullptr; }
  [[nodiscard]] Result<RowGradients> sum_gradients_of(
      size_t table, comm::Communicator& communicator
  ) const;
  // Gives the first row whose gradient is not finite.
  std::optional<int64_t> apply_to(
      size_t table, const RowGradients& gradients, const StepUpdate& step
  );

  EmbeddingOptions options_;
  AdamOptions adam_;
  std::vector<TableRows> tables_;
  std::optional<IdleSteps> idle_;  // for EmbeddingUpdate::Dense
  int64_t steps_ = 0;
  std::vector<Read> reads_;
};

}  // namespace gnn::embedding
