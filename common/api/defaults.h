#pragma once

#include "common/api/gnn_job.h"

namespace gnn::api {

/// Fills in absent fields whose defaults depend on other fields: the model's options, split.seed,
/// training.sharding and evaluation.fanout. Other defaults are the structs' member initializers
/// and, in a cluster, the CRD's.
void apply_defaults(GnnJobSpec& spec);

}  // namespace gnn::api
