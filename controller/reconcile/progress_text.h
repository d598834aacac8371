#pragma once

#include "common/api/gnn_job.h"

#include <cstdint>
#include <string>

namespace gnn::reconcile {

/// A time as kubectl shows ages: "45s", "3m20s", "2h5m", "4d3h".
[[nodiscard]] std::string short_time(int64_t seconds);

/// "Epoch 12 of 50, loss 0.4312, 3 min 20 s left", as far as it is known; empty if no epoch is.
[[nodiscard]] std::string progress_text(const api::JobProgress& progress);

}  // namespace gnn::reconcile
