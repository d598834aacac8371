#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/app/data_output.h"

namespace gnn::app {

/// Makes the data at dataset.path as spec.prepare says; nothing without it. Data that were made from
/// the same inputs with the same options stay as they are, those of the import and those of the
/// partition apart. The job must have its defaults.
/// Errors: those of import_data() and partition_data(), with wrong inputs as Data and an output that
/// may not be replaced as Configuration.
[[nodiscard]] Status prepare_data(const api::GnnJob& job, const DataConsole& console);

}  // namespace gnn::app
