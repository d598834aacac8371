#pragma once

#include "common/result.h"
#include "worker/app/data_output.h"

#include <string>

namespace gnn::app {

/// How `data inspect` prints.
enum class InspectFormat { Text, Json };

/// Prints what a published data set contains.
/// Errors: those of data::open_native().
[[nodiscard]] Status inspect_data(
    const std::string& folder, InspectFormat format, const DataConsole& console
);

/// Checks the digests, ids, labels, features and split of a published data set.
/// Errors: Data naming what is wrong; those of data::open_native().
[[nodiscard]] Status verify_data(const std::string& folder, const DataConsole& console);

}  // namespace gnn::app
