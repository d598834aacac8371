#include "worker/training/meters.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <limits>
#include <vector>

namespace gnn::training {

void EpochSums::add(double mean_loss, int64_t batch_items, int64_t batch_correct) {
  loss += mean_loss * static_cast<double>(batch_items);
  items += batch_items;
  correct += batch_correct;
}

double EpochSums::average_loss() const {
  if (items == 0) return std::numeric_limits<double>::quiet_NaN();
  return loss / static_cast<double>(items);
}

Result<EpochSums> reduce(comm::Communicator& communicator, const EpochSums& mine) {
  // Counts are exact in float64 up to 2^53.
  GNN_ASSIGN_OR_RETURN(
      const std::vector<double> sums,
      comm::all_reduce_sums(
          communicator,
          {mine.loss, static_cast<double>(mine.items), static_cast<double>(mine.correct)}
      )
  );
  return EpochSums{
      .loss = sums[0],
      .items = static_cast<int64_t>(sums[1]),
      .correct = static_cast<int64_t>(sums[2]),
  };
}

int64_t count_correct(const Scores& scores) {
  const at::NoGradGuard no_grad;
  return scores.logits.argmax(1).eq(scores.labels).sum().item<int64_t>();
}

StepSeconds& operator+=(StepSeconds& sum, const StepSeconds& more) {
  sum.wait += more.wait;
  sum.forward += more.forward;
  sum.backward += more.backward;
  sum.reduce += more.reduce;
  sum.optimizer += more.optimizer;
  sum.total += more.total;
  return sum;
}

}  // namespace gnn::training
