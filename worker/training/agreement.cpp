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

Result<bool> none_stops(comm::Communicator& communicator, const StopToken& stop) {
  GNN_ASSIGN_OR_RETURN(
      const std::vector<double> stops,
      comm::all_reduce_sums(communicator, {stop.requested() ? 1.0 : 0.0})
  );
  return stops[0] == 0;
}

}  // namespace gnn::training
