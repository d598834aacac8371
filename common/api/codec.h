#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>

/// Reading and writing GNNJobs. Errors are of kind Configuration and start with the JSON path
/// ("spec.model.gin.layers: …").
namespace gnn::api {

/// etcd holds no object above 1.5 MiB.
inline constexpr size_t kMaxDocumentBytes = size_t{2} << 20U;
inline constexpr int64_t kMaxDocumentDepth = 64;
/// YAML aliases count as often as they are used.
inline constexpr int64_t kMaxDocumentValues = 200000;

enum class UnknownFields {
  Reject,  ///< for the worker and manifests of users: a misspelt or newer field is an error
  /// For the controller: the API server has checked it, and a newer CRD may have more. A word that
  /// an enum does not have is no error either, but one of GnnJob::unknown_words.
  Ignore,
};

/// YAML 1.2 core schema. The text may hold several documents, exactly one of them a GNNJob.
[[nodiscard]] Result<GnnJob> parse_job_yaml(std::string_view text, UnknownFields unknown);

/// From an already parsed object, as in a list or a watch event.
[[nodiscard]] Result<GnnJob> decode_job(const nlohmann::json& object, UnknownFields unknown);

[[nodiscard]] nlohmann::json encode(const GnnJobSpec& spec);
[[nodiscard]] nlohmann::json encode(const GnnJobStatus& status);
// The parts of the pod template that a pod takes over as they are.
[[nodiscard]] nlohmann::json encode(const Resources& resources);
[[nodiscard]] nlohmann::json encode(const Affinity& affinity);
[[nodiscard]] nlohmann::json encode(const Toleration& toleration);
[[nodiscard]] nlohmann::json encode(const EnvVar& variable);
[[nodiscard]] nlohmann::json encode(const Volume& volume);
[[nodiscard]] nlohmann::json encode(const VolumeMount& mount);
/// The whole object with apiVersion and kind; status only if the controller has written one.
[[nodiscard]] nlohmann::json encode(const GnnJob& job);

/// What pods mount: the job without its pod templates and servers.nodes, as text that parse_job_yaml() reads. The same
/// job always gives the same text.
[[nodiscard]] std::string worker_config(const GnnJob& job);

/// Parses JSON text.
/// Errors: Configuration, also for text beyond the limits above.
[[nodiscard]] Result<nlohmann::json> parse_json(std::string_view text);

}  // namespace gnn::api
