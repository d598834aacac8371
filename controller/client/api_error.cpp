#include "controller/client/api_error.h"

#include "controller/client/retry_after.h"
#include "controller/client/watch_decoder.h"
#include "controller/objects/json.h"

#include <algorithm>
#include <utility>

namespace gnn::client {
namespace {

constexpr size_t kMaxMessage = 1024;

ApiErrorKind kind_from(int status, std::string_view reason) {
  switch (status) {
    case 400:
      return ApiErrorKind::BadRequest;
    case 401:
      return ApiErrorKind::Unauthorized;
    case 403:
      return ApiErrorKind::Forbidden;
    case 404:
      return ApiErrorKind::NotFound;
    case 408:
    case 504:
      return ApiErrorKind::Timeout;
    case 409:
      return reason == "AlreadyExists" ? ApiErrorKind::AlreadyExists : ApiErrorKind::Conflict;
    case 410:
      return ApiErrorKind::Gone;
    case 422:
      return ApiErrorKind::Invalid;
    case 429:
      return ApiErrorKind::TooManyRequests;
    default:
      return status >= 500 ? ApiErrorKind::Server : ApiErrorKind::Other;
  }
}

}  // namespace

std::string_view to_string(ApiErrorKind kind) {
  switch (kind) {
    case ApiErrorKind::BadRequest:
      return "BadRequest";
    case ApiErrorKind::Unauthorized:
      return "Unauthorized";
    case ApiErrorKind::Forbidden:
      return "Forbidden";
    case ApiErrorKind::NotFound:
      return "NotFound";
    case ApiErrorKind::AlreadyExists:
      return "AlreadyExists";
    case ApiErrorKind::Conflict:
      return "Conflict";
    case ApiErrorKind::Gone:
      return "Gone";
    case ApiErrorKind::Invalid:
      return "Invalid";
    case ApiErrorKind::TooManyRequests:
      return "TooManyRequests";
    case ApiErrorKind::Server:
      return "Server";
    case ApiErrorKind::Timeout:
      return "Timeout";
    case ApiErrorKind::Network:
      return "Network";
    case ApiErrorKind::Cancelled:
      return "Cancelled";
    case ApiErrorKind::TooLarge:
      return "TooLarge";
    case ApiErrorKind::Decode:
      return "Decode";
    case ApiErrorKind::Other:
      return "Other";
  }
  return "Other";
}

ApiError api_error_from_status(const objects::Json& status, std::string_view call) {
  int64_t code = 0;
  std::string reason;
  std::string message;
  ApiError error;
  objects::ObjectReader reader(status, "status");
  reader.read("code", code);
  reader.read("reason", reason);
  reader.read("message", message);
  const auto read_details =
      [&error](const objects::Json& details, const std::string& path) -> Result<bool> {
    int64_t seconds = 0;
    objects::ObjectReader fields(details, path);
    fields.read("retryAfterSeconds", seconds);
    if (seconds > 0) error.retry_after = bounded_retry_after(seconds);
    return fields.finish(true);
  };
  bool has_details = false;
  reader.read_with("details", has_details, read_details);
  error.status = static_cast<int>(std::clamp<int64_t>(code, 0, 999));
  error.kind = kind_from(error.status, reason);
  if (reason == "Expired" || reason == "Gone") error.kind = ApiErrorKind::Gone;
  error.reason = std::move(reason);
  message.resize(std::min(message.size(), kMaxMessage));
  error.message = std::string(call) + ": " + message;
  error.text = std::move(message);
  return error;
}

ApiError api_error_from_reply(int status, std::string_view body, std::string_view call) {
  const auto json = objects::parse_json(body);
  ApiError error;
  if (json && json->is_object()) {
    error = api_error_from_status(*json, call);
  } else {
    error.message =
        std::string(call) + ": " + std::string(body.substr(0, std::min(body.size(), kMaxMessage)));
  }
  error.status = status;
  error.kind = kind_from(status, error.reason);
  error.message += " (HTTP " + std::to_string(status) + ")";
  return error;
}

ApiError api_error_from_transport(const Error& error, std::string_view call) {
  ApiErrorKind kind = ApiErrorKind::Network;
  if (error.kind == ErrorKind::Timeout) kind = ApiErrorKind::Timeout;
  if (error.kind == ErrorKind::Cancelled) kind = ApiErrorKind::Cancelled;
  if (error.kind == ErrorKind::Data) kind = ApiErrorKind::TooLarge;
  ApiError result;
  result.kind = kind;
  result.message = std::string(call) + ": " + error.message;
  return result;
}

}  // namespace gnn::client
