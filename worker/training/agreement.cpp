#include "worker/training/agreement.h"

#include <ATen/ops/full.h>

#include <string>
#include <vector>

namespace gnn::training {

Status agree(comm::Communicator& communicator, const Status& mine, std::string_view failure) {
  const at::Tensor failed = at::full({1}, mine ? 0 : 1, at::kLong);
  Status status = communicator.all_reduce(failed, comm::ReduceOp::Max);
  if (!mine) return tl::unexpected(mine.error());
  if (!status) return status;
  if (failed.item<int64_t>() == 0) return {};
  return fail(ErrorKind::PeerLost, "rank 0 " + std::string(failure));
}

Result<bool> on_all(comm::Communicator& communicator, bool mine) {
  GNN_ASSIGN_OR_RETURN(
      const std::vector<double> without, comm::all_reduce_sums(communicator, {mine ? 0.0 : 1.0})
  );
  return without[0] == 0;
}

Result<bool> none_stops(comm::Communicator& communicator, const StopToken& stop) {
  return on_all(communicator, !stop.requested());
}

}  // namespace gnn::training
