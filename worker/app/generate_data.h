#pragma once

#include "common/result.h"
#include "worker/app/data_output.h"
#include "worker/data/generate.h"

namespace gnn::app {

/// The forms that `data generate` writes.
enum class DataForm {
  Native,
  OgbNpz,  ///< as OGB publishes its large data sets; see data::write_ogb()
};

struct GenerateRequest {
  DataOutput output;
  DataForm form = DataForm::Native;
  data::GenerateOptions options;
};

/// Generates a data set and publishes it. A complete output is kept if it is native.
/// Errors: those of publish_dataset() and data::write_ogb().
[[nodiscard]] Status generate_data(const GenerateRequest& request, const DataConsole& console);

}  // namespace gnn::app
