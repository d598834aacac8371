#pragma once

#include "worker/partition/report.h"

#include <string>

namespace gnn::partition {

/// An SVG picture of a report: what each part has beside the mean of all, and the hit rate of each
/// part's cache by its size.
std::string report_picture(const Report& report);

}  // namespace gnn::partition
