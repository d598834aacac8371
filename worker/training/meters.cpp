#include "worker/training/meters.h"

#include <cstdint>
#include <vector>

namespace gnn::training {

Result<progress::EpochSums> reduce(
    comm::Communicator& communicator, const progress::EpochSums& mine
) {
  // Counts are exact in float64 up to 2^53.
  GNN_ASSIGN_OR_RETURN(
      const std::vector<double> sums,
      comm::all_reduce_sums(
          communicator,
          {mine.loss,
           static_cast<double>(mine.items),
           static_cast<double>(mine.correct),
           mine.weight}
      )
  );
  return progress::EpochSums{
      .loss = sums[0],
      .items = static_cast<int64_t>(sums[1]),
      .correct = static_cast<int64_t>(sums[2]),
      .weight = sums[3],
  };
}

progress::StepSeconds& operator+=(progress::StepSeconds& sum, const progress::StepSeconds& more) {
  sum.wait += more.wait;
  sum.forward += more.forward;
  sum.backward += more.backward;
  sum.reduce += more.reduce;
  sum.optimizer += more.optimizer;
  sum.total += more.total;
  return sum;
}

}  // namespace gnn::training
