#pragma once

#include "common/result.h"
#include "worker/app/data_output.h"
#include "worker/data/generate.h"

namespace gnn::app {

struct GenerateRequest {
  DataOutput output;
  data::GenerateOptions options;
};

/// Generates a data set and publishes it in the native format.
/// Errors: those of publish_dataset().
[[nodiscard]] Status generate_data(const GenerateRequest& request, const DataConsole& console);

}  // namespace gnn::app
