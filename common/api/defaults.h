#pragma once

#include "common/api/gnn_job.h"

namespace gnn::api {

/// Fills in absent fields whose defaults depend on other fields: the model's options, split.seed,
/// training.sharding, evaluation.fanout and metric; parts, fanout, batchSize and hotRows of
/// prepare.partition; and those that only LinkPrediction has: the split's
/// negativeRatio and disjointTrain, sampling.negatives, training.embeddings and model.decoder. Other
/// defaults are the structs' member initializers and, in a cluster, the CRD's.
void apply_defaults(GnnJobSpec& spec);

}  // namespace gnn::api
