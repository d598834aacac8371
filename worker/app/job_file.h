#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace gnn::app {

/// Reads a GNNJob manifest, fills its defaults and validates it. `overrides`: "training.epochs=3"
/// sets spec.training.epochs; the value is JSON, otherwise text.
/// Errors: Configuration, naming the file and every invalid field.
[[nodiscard]] Result<api::GnnJob> load_job(
    const std::string& path, const std::vector<std::string>& overrides = {}
);

/// The same for the text of a manifest.
[[nodiscard]] Result<api::GnnJob> parse_job(
    std::string_view text, const std::vector<std::string>& overrides
);

}  // namespace gnn::app
