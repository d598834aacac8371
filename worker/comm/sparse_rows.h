#pragma once

#include "common/result.h"
#include "worker/comm/communicator.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace gnn::comm {

/// Some rows of a table, such as those of an embedding's gradient that are not zero.
/// Shapes: ids int64 [K] on the CPU, ascending and unique; values [K, D], float32 or float64,
/// contiguous. K may be 0.
struct SparseRows {
  at::Tensor ids;
  at::Tensor values;
};

/// The rows of all ranks, by rank; their numbers may differ. Collective: a rank without rows takes
/// part with none. Rows travel as many as those of the rank that has most, so that the ranks tell
/// each other only their numbers before.
/// Devices: values as Communicator has them; the result's are on the same device.
/// Errors: PeerLost as in Communicator; Internal on all ranks, naming one, if the ranks' values have
/// different widths or dtypes.
[[nodiscard]] Result<std::vector<SparseRows>> all_gather_rows(
    Communicator& communicator, const SparseRows& mine
);

/// One row for each id that some part has: the sum of the parts' rows, added in the order of
/// `parts`, so that equal parts give equal bits. At least one part; all of the same width, dtype and
/// device. A single part is the sum itself and shares its memory.
[[nodiscard]] SparseRows sum_rows(const std::vector<SparseRows>& parts);

}  // namespace gnn::comm
