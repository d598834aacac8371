#pragma once

#include "common/api/pod_metadata.h"
#include "controller/reconcile/config.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::app {

/// What was found in a document of a manifest, or in an item of a List. No text of the file reaches a
/// terminal unescaped.
struct CheckedObject {
  int64_t line = 1;      ///< where its document begins in the file
  int64_t document = 1;  ///< its document's number in the file
  /// E.g. "GNNJob team-a/arxiv" or "ConfigMap settings"; empty: none can be read.
  std::string name = {};
  bool is_job = false;
  std::vector<std::string> errors = {};  ///< each starts with its field, where it has one
  /// What YAML's versions read differently, and what is said of jobs without errors.
  std::vector<std::string> warnings = {};
};

/// Judges each GNNJob of a YAML or JSON text as the controller would, and by what the API server has looked at before
/// the controller sees a job: unknown fields and metadata. Other kinds are named and not judged. Queues of Volcano are
/// judged where the job's namespace is known.
[[nodiscard]] std::vector<CheckedObject> check_manifest(
    std::string_view text,
    const api::AllowedKeys& allowed_keys,
    const std::optional<reconcile::VolcanoQueues>& volcano_queues = std::nullopt
);

}  // namespace gnn::app
