#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace gnn::api {

struct FieldError {
  std::string path;  ///< e.g. "spec.sampling.fanout[2]"
  std::string message;
  friend bool operator==(const FieldError&, const FieldError&) = default;
};

/// Everything that is wrong with a job: fields out of bounds and broken rules between fields. These
/// checks repeat the CRD's schema and CEL rules, for manifests that no API server has checked and
/// for clusters whose CRD is older than the controller.
[[nodiscard]] std::vector<FieldError> validate(const GnnJob& job);

/// Configuration with all errors in one message, or success.
[[nodiscard]] Status check(const GnnJob& job);

/// Whether a user may set the variable in workers.template.env.
[[nodiscard]] bool is_reserved_env(std::string_view name);

}  // namespace gnn::api
