#pragma once

#include "common/api/gnn_job.h"
#include "worker/loader/feature_fetcher.h"

namespace gnn::tasks {

/// What feature rows of this node's memory are gathered as for a model of this precision.
[[nodiscard]] inline loader::RowType row_type(const api::Training& training) {
  return training.precision == api::Precision::BFloat16 ? loader::RowType::BFloat16
                                                        : loader::RowType::AsStored;
}

}  // namespace gnn::tasks
