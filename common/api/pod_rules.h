#pragma once

#include "common/api/gnn_job.h"
#include "common/api/validation.h"

#include <string>
#include <string_view>
#include <vector>

namespace gnn::api {

/// What keeps every API server from taking a pod with these resources, limits and requests compared as
/// quantities. `path` is theirs. The CRD has the same rules in CEL, with the same messages.
[[nodiscard]] std::vector<FieldError> resource_errors(
    const Resources& resources, const std::string& path
);

/// The same of a template's image, tolerations, node affinity and resources, and of the words of Kubernetes in it.
[[nodiscard]] std::vector<FieldError> pod_errors(const PodTemplate& pod, const std::string& path);

/// Whether a container runtime can read the reference: "gnn-worker:0.1", "example.com:5000/team/worker".
[[nodiscard]] bool is_image_reference(const std::string& text);

}  // namespace gnn::api
