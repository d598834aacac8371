#pragma once

#include "worker/graph/dataset.h"
#include "worker/report/run_record.h"

#include <cstdint>
#include <optional>

namespace gnn::tasks {

/// The most nodes of a type that a record counts; of more it takes evenly spaced runs of them.
inline constexpr int64_t kMaxRecordedNodes = int64_t{1} << 22;

/// In-degrees by edge type, and labels by class: of the nodes whose lists and labels are here, or with
/// `part` of that part's alone, as nothing else may have been checked.
[[nodiscard]] report::DataRecord data_record_of(
    const graph::Dataset& dataset,
    std::optional<int64_t> part = std::nullopt,
    int64_t most = kMaxRecordedNodes
);

}  // namespace gnn::tasks
