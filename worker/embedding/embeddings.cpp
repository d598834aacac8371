#include "worker/embedding/embeddings.h"

#include "common/hash.h"
#include "worker/checkpoint/finite.h"
#include "worker/comm/node_memory.h"
#include "worker/comm/sparse_rows.h"
#include "worker/embedding/initial_values.h"
#include "worker/embedding/state_names.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <map>
#include <sstream>
#include <utility>

namespace gnn::embedding {
namespace {

constexpr const char* kSteps = "embeddings/steps";
constexpr const char* kLearningRates = "embeddings/learning_rates";
constexpr int64_t kPartElements = int64_t{1} << 20;

std::string last_steps_name(const TableOptions& table) {
  return "embeddings/" + table.name + "/last_steps";
}

Status check_optimizer(const api::Optimizer& optimizer) {
  if (optimizer.type != api::OptimizerType::Adam)
    return fail(
        ErrorKind::Configuration,
        "spec.training.optimizer.type: expected Adam with embeddings, found another optimizer"
    );
  if (optimizer.weight_decay.value() != 0)
    return fail(
        ErrorKind::Configuration,
        "spec.training.optimizer.weightDecay: expected 0 with embeddings, found " +
            optimizer.weight_decay.text + "; it would move every row of every table in each step"
    );
  return {};
}

// What must be equal on all ranks.
std::string describe(const EmbeddingOptions& options) {
  std::ostringstream text;
  text << (options.update == api::EmbeddingUpdate::Dense ? "Dense" : "Lazy") << ", seed "
       << options.seed << ", " << options.dtype;
  for (const TableOptions& table : options.tables)
    text << ", " << table.name << " [" << table.rows << ", " << table.width << ']';
  return text.str();
}

Status check_same(comm::Communicator& communicator, const EmbeddingOptions& options) {
  if (communicator.world_size() == 1) return {};
  GNN_ASSIGN_OR_RETURN(
      const std::vector<std::string> ranks, comm::all_gather_bytes(communicator, describe(options))
  );
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    if (ranks[rank] == ranks[0]) continue;
    return fail(
        ErrorKind::Configuration,
        "the embeddings differ between ranks: expected on rank " + std::to_string(rank) +
            ", as on rank 0, '" + ranks[0] + "', found '" + ranks[rank] + "'"
    );
  }
  return {};
}

TableRows make_table(const TableOptions& table, const EmbeddingOptions& options) {
  TORCH_CHECK(
      table.rows >= 0 && table.width > 0,
      "embeddings: ",
      table.name,
      ": expected rows and a width, found [",
      table.rows,
      ", ",
      table.width,
      ']'
  );
  TableRows rows;
  rows.state = comm::empty_on_large_pages({table.rows, 3, table.width}, options.dtype);
  const uint64_t key = splitmix64(fnv1a(table.name), static_cast<uint64_t>(options.seed));
  fill_with_normal(rows.state.select(1, 0), key);
  rows.state.narrow(1, 1, 2).zero_();
  if (options.update == api::EmbeddingUpdate::Dense)
    rows.last_steps = at::zeros({table.rows}, at::kInt);
  return rows;
}

tl::unexpected<Error> mismatch(const std::string& what) {
  return fail(ErrorKind::Configuration, "the checkpoint does not fit this job: " + what);
}

std::string describe(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << ' ' << tensor.sizes();
  return text.str();
}

// Takes tensors by name, one after another.
class Saved {
 public:
  explicit Saved(const std::vector<checkpoint::CheckpointTensor>& tensors) {
    for (const auto& entry : tensors) by_name_.emplace(entry.name, entry.tensor);
  }

  // `size` may have -1 for any.
  Result<at::Tensor> take(const std::string& name, at::IntArrayRef sizes, at::ScalarType dtype) {
    const auto found = by_name_.extract(name);
    if (!found) return mismatch(name + " is missing");
    const at::Tensor& tensor = found.mapped();
    bool same = tensor.scalar_type() == dtype && tensor.dim() == static_cast<int64_t>(sizes.size());
    for (size_t i = 0; same && i < sizes.size(); ++i)
      same = sizes[i] < 0 || sizes[i] == tensor.size(static_cast<int64_t>(i));
    if (same) return tensor.contiguous();  // itself, of a checkpoint
    std::ostringstream expected;
    expected << dtype << ' ' << sizes;
    return mismatch(name + ": expected " + expected.str() + ", found " + describe(tensor));
  }
  [[nodiscard]] Status check_all_taken() const {
    if (by_name_.empty()) return {};
    return mismatch("the job has no " + by_name_.begin()->first);
  }

 private:
  std::map<std::string, at::Tensor> by_name_;
};

Result<IdleSteps> replayed_steps(const AdamOptions& adam, const at::Tensor& learning_rates) {
  IdleSteps idle(adam);
  const auto* const rates = learning_rates.const_data_ptr<double>();
  for (int64_t i = 0; i < learning_rates.numel(); ++i) idle.advance(rates[i]);
  return idle;
}

}  // namespace

Embeddings::Embeddings(EmbeddingOptions options) : options_(std::move(options)) {
  for (const TableOptions& table : options_.tables) tables_.push_back(make_table(table, options_));
  if (options_.update == api::EmbeddingUpdate::Dense) idle_.emplace(adam_);
}

Result<Embeddings> Embeddings::create(
    const EmbeddingOptions& options, comm::Communicator& communicator
) {
  GNN_RETURN_IF_ERROR(check_optimizer(options.optimizer));
  GNN_RETURN_IF_ERROR(check_same(communicator, options));
  return Embeddings(options);
}

at::Tensor Embeddings::read(size_t table, const at::Tensor& ids) {
  at::Tensor rows = [&] {
    const at::NoGradGuard no_grad;
    return read_rows(tables_.at(table), ids, idle()).to(options_.device);
  }();
  if (!at::GradMode::is_enabled()) return rows;
  rows.requires_grad_(true);
  reads_.push_back({.table = table, .ids = ids, .leaf = rows});
  return rows;
}

Result<RowGradients> Embeddings::sum_gradients_of(size_t table, comm::Communicator& communicator)
    const {
  std::vector<comm::SparseRows> mine;
  for (const Read& read : reads_) {
    if (read.table == table && read.leaf.grad().defined())
      mine.push_back({read.ids, read.leaf.grad().contiguous()});
  }
  if (mine.empty()) {
    mine.push_back(
        {at::empty({0}, at::kLong),
         at::empty(
             {0, options_.tables[table].width},
             at::TensorOptions().dtype(options_.dtype).device(options_.device)
         )}
    );
  }
  comm::SparseRows sum = comm::sum_rows(mine);
  if (communicator.world_size() > 1) {
    GNN_ASSIGN_OR_RETURN(const auto ranks, comm::all_gather_rows(communicator, sum));
    sum = comm::sum_rows(ranks);
  }
  return RowGradients{.ids = sum.ids, .gradients = sum.values.to(at::kCPU)};
}

std::optional<int64_t> Embeddings::apply_to(
    size_t table, const RowGradients& gradients, const StepUpdate& step
) {
  if (idle_) return update_all_rows(tables_[table], gradients, *idle_, step.learning_rate);
  return update_touched_rows(
      tables_[table], gradients, adam_, adam_step(adam_, steps_ + 1, step.learning_rate)
  );
}

Result<std::vector<RowGradients>> Embeddings::sum_gradients(comm::Communicator& communicator
) const {
  const at::NoGradGuard no_grad;
  std::vector<RowGradients> sums;
  for (size_t table = 0; table < tables_.size(); ++table) {
    GNN_ASSIGN_OR_RETURN(RowGradients sum, sum_gradients_of(table, communicator));
    sums.push_back(std::move(sum));
  }
  return sums;
}

Status Embeddings::apply(comm::Communicator& communicator, const StepUpdate& step) {
  GNN_ASSIGN_OR_RETURN(std::vector<RowGradients> sums, sum_gradients(communicator));
  return apply(std::move(sums), step);
}

Status Embeddings::apply(std::vector<RowGradients> sums, const StepUpdate& step) {
  TORCH_CHECK(
      sums.size() == tables_.size(),
      "embeddings: expected the gradients of ",
      tables_.size(),
      " tables, found ",
      sums.size()
  );
  const at::NoGradGuard no_grad;
  std::optional<std::string> not_finite;
  for (size_t table = 0; table < tables_.size(); ++table) {
    sums[table].factor = step.factor;
    const std::optional<int64_t> bad_row = apply_to(table, sums[table], step);
    if (bad_row && !not_finite) {
      not_finite =
          "the gradient of row " + std::to_string(*bad_row) + " of the embeddings of " +
          options_.tables[table].name +
          " holds a NaN or an infinity; spec.training.optimizer.learningRate may be too high";
    }
  }
  reads_.clear();
  ++steps_;
  if (idle_) idle_->advance(step.learning_rate);
  if (not_finite) return fail(ErrorKind::Configuration, *not_finite);
  return {};
}

at::Tensor Embeddings::values(size_t table) const {
  return read_range(tables_.at(table), 0, options_.tables[table].rows, idle());
}

void Embeddings::for_each_part(const std::function<void(const at::Tensor&)>& use) const {
  for (size_t i = 0; i < tables_.size(); ++i) {
    const auto& [name, rows, width] = options_.tables[i];
    const int64_t part = std::max<int64_t>(1, kPartElements / width);
    for (int64_t begin = 0; begin < rows; begin += part)
      use(read_range(tables_[i], begin, std::min(rows, begin + part), idle()));
  }
}

int64_t Embeddings::bytes() const {
  size_t bytes = 0;
  for (const TableRows& table : tables_) {
    bytes += table.state.nbytes();
    if (table.last_steps.defined()) bytes += table.last_steps.nbytes();
  }
  return static_cast<int64_t>(bytes) + (idle_ ? idle_->bytes() : 0);
}

std::optional<std::string> Embeddings::find_not_finite() const {
  return checkpoint::first_not_finite(state());
}

std::vector<checkpoint::CheckpointTensor> Embeddings::state() const {
  std::vector<checkpoint::CheckpointTensor> result;
  for (size_t i = 0; i < tables_.size(); ++i) {
    result.push_back({.name = state_name(options_.tables[i].name), .tensor = tables_[i].state});
    if (idle_)
      result.push_back(
          {.name = last_steps_name(options_.tables[i]), .tensor = tables_[i].last_steps}
      );
  }
  if (idle_) {
    at::Tensor rates = at::empty({idle_->steps()}, at::kDouble);
    std::ranges::copy(idle_->learning_rates(), rates.mutable_data_ptr<double>());
    result.push_back({.name = kLearningRates, .tensor = rates});
  } else {
    result.push_back({.name = kSteps, .tensor = at::scalar_tensor(steps_, at::kLong)});
  }
  return result;
}

Status Embeddings::restore(const std::vector<checkpoint::CheckpointTensor>& tensors) {
  const at::NoGradGuard no_grad;
  Saved saved(tensors);
  std::optional<IdleSteps> idle;
  int64_t steps = 0;
  if (idle_) {
    GNN_ASSIGN_OR_RETURN(const at::Tensor rates, saved.take(kLearningRates, {-1}, at::kDouble));
    GNN_ASSIGN_OR_RETURN(idle, replayed_steps(adam_, rates));
    steps = idle->steps();
  } else {
    GNN_ASSIGN_OR_RETURN(const at::Tensor found, saved.take(kSteps, {}, at::kLong));
    steps = found.item<int64_t>();
    if (steps < 0) return mismatch(std::string(kSteps) + ": expected 0 or more");
  }
  std::vector<TableRows> tables;
  for (const TableOptions& table : options_.tables) {
    TableRows rows;
    GNN_ASSIGN_OR_RETURN(
        rows.state, saved.take(state_name(table.name), {table.rows, 3, table.width}, options_.dtype)
    );
    if (idle_) {
      GNN_ASSIGN_OR_RETURN(
          rows.last_steps, saved.take(last_steps_name(table), {table.rows}, at::kInt)
      );
      const auto* const last = rows.last_steps.const_data_ptr<int32_t>();
      if (std::any_of(last, last + table.rows, [&](int32_t of) { return of < 0 || of > steps; }))
        return mismatch(
            last_steps_name(table) + ": expected steps from 0 to " + std::to_string(steps)
        );
    }
    tables.push_back(std::move(rows));
  }
  GNN_RETURN_IF_ERROR(saved.check_all_taken());
  for (size_t i = 0; i < tables.size(); ++i) {
    tables_[i].state.copy_(tables[i].state);
    if (idle_) tables_[i].last_steps.copy_(tables[i].last_steps);
  }
  idle_ = std::move(idle);
  steps_ = steps;
  reads_.clear();
  return {};
}

}  // namespace gnn::embedding
