#pragma once

#include "controller/reconcile/pass.h"

/// The pod that makes a job's data before its first gang starts. While it is at work it stands in the
/// gang's place, so that every policy holds for it as for a gang of one node: restarts and their
/// back-off, deadlines, suspension.
namespace gnn::reconcile {

/// Says in the status that the data are ready. The gang is created by a later pass, so that its pods
/// prove that this was written.
void finish_preparing(Pass& pass);

/// Says it again where pods of the gang show that it was written and lost.
void recover_preparation(Pass& pass);

/// Says in Prepared and Running how far the pod is. Scheduled must be described.
void describe_preparing(Pass& pass);

/// Lets go of the pods that have prepared the data. One that has ended stays, for its log.
void release_prepared(Pass& pass);

}  // namespace gnn::reconcile
