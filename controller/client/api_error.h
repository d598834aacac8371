#pragma once

#include "common/clock.h"
#include "common/result.h"

#include <optional>
#include <string>
#include <string_view>

namespace gnn::client {

/// Kinds of errors of the Kubernetes API, by what a caller can do about them.
enum class ApiErrorKind {
  BadRequest,
  Unauthorized,
  Forbidden,  ///< by RBAC, a quota, Pod Security or an admission plugin
  NotFound,
  AlreadyExists,
  Conflict,  ///< a precondition on resourceVersion or UID failed
  Gone,      ///< the resourceVersion is too old
  Invalid,   ///< 422
  TooManyRequests,
  Server,  ///< other 5xx
  Timeout,
  Network,
  Cancelled,
  TooLarge,  ///< a reply above our limit
  Decode,    ///< the reply is not what we expect
  Other,
};

[[nodiscard]] std::string_view to_string(ApiErrorKind kind);

/// A failed call: what was called, and what the server or the network reported.
struct ApiError {
  ApiErrorKind kind = ApiErrorKind::Other;
  int status = 0;       ///< HTTP status; 0 if there was no reply
  std::string reason;   ///< the Status object's reason, e.g. "AlreadyExists"
  std::string text;     ///< what the server said, and nothing else
  std::string message;  ///< "POST /api/v1/...: text"
  std::optional<Duration> retry_after;
};

template <class T>
using ApiResult = Result<T, ApiError>;

/// From a reply's status and body (a Status object, if the API server wrote it).
[[nodiscard]] ApiError api_error_from_reply(
    int status, std::string_view body, std::string_view call
);
/// From an error of the transport.
[[nodiscard]] ApiError api_error_from_transport(const Error& error, std::string_view call);

}  // namespace gnn::client
