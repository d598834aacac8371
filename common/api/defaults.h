#pragma once

#include "common/api/gnn_job.h"

namespace gnn::api {

/// Fills what depends on other fields and was left out: the model's options, split.seed,
/// training.sharding, evaluation.fanout. Defaults that depend on nothing are the structs' member
/// initializers and, in the cluster, the CRD's.
void apply_defaults(GnnJobSpec& spec);

}  // namespace gnn::api
