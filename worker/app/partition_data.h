#pragma once

#include "common/result.h"
#include "worker/app/data_output.h"
#include "worker/data/link_split.h"
#include "worker/partition/partition.h"

#include <cstdint>
#include <optional>
#include <string>

namespace gnn::app {

enum class ReportFormat { Text, Json };

struct PartitionRequest {
  std::string input;
  DataOutput output;
  partition::PartitionOptions options;
  /// How to split the links, for jobs whose split is by the same options; nothing: they split them
  /// themselves.
  std::optional<data::LinkSplitOptions> link_split{};
  /// Whether a complete output with another split of its links, or none, is as good; and so is an input
  /// without links.
  bool takes_other_link_split = false;
  ReportFormat report = ReportFormat::Text;
  std::string picture;  ///< file to write as SVG; empty: none
};

/// Partitions a native data set, publishes the result in the native format and prints a report of it.
/// A complete output of the same input and options is kept and reported.
/// Errors: Configuration if the output is the input or holds it; Io for the picture; those of
/// partition::partition(), keep_link_split() and publish_dataset().
[[nodiscard]] Status partition_data(const PartitionRequest& request, const DataConsole& console);

struct ExtractRequest {
  std::string input;
  DataOutput output;
  int64_t part = 0;
};

/// Publishes one part of a partitioned data set.
/// Errors: those of partition::extract() and publish_dataset(); Configuration as above.
[[nodiscard]] Status extract_data(const ExtractRequest& request, const DataConsole& console);

}  // namespace gnn::app
