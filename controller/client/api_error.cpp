#include "controller/client/api_error.h"

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
      return ApiErrorKind::kBadRequest;
    case 401:
      return ApiErrorKind::kUnauthorized;
    case 403:
      return ApiErrorKind::kForbidden;
    case 404:
      return ApiErrorKind::kNotFound;
    case 408:
    case 504:
      return ApiErrorKind::kTimeout;
    case 409:
      return reason == "AlreadyExists" ? ApiErrorKind::kAlreadyExists : ApiErrorKind::kConflict;
    case 410:
      return ApiErrorKind::kGone;
    case 422:
      return ApiErrorKind::kInvalid;
    case 429:
      return ApiErrorKind::kTooManyRequests;
    default:
      return status >= 500 ? ApiErrorKind::kServer : ApiErrorKind::kOther;
  }
}

}  // namespace

std::string_view to_string(ApiErrorKind kind) {
  switch (kind) {
    case ApiErrorKind::kBadRequest:
      return "BadRequest";
    case ApiErrorKind::kUnauthorized:
      return "Unauthorized";
    case ApiErrorKind::kForbidden:
      return "Forbidden";
    case ApiErrorKind::kNotFound:
      return "NotFound";
    case ApiErrorKind::kAlreadyExists:
      return "AlreadyExists";
    case ApiErrorKind::kConflict:
      return "Conflict";
    case ApiErrorKind::kGone:
      return "Gone";
    case ApiErrorKind::kInvalid:
      return "Invalid";
    case ApiErrorKind::kTooManyRequests:
      return "TooManyRequests";
    case ApiErrorKind::kServer:
      return "Server";
    case ApiErrorKind::kTimeout:
      return "Timeout";
    case ApiErrorKind::kNetwork:
      return "Network";
    case ApiErrorKind::kCancelled:
      return "Cancelled";
    case ApiErrorKind::kDecode:
      return "Decode";
    case ApiErrorKind::kOther:
      return "Other";
  }
  return "Other";
}

bool ApiError::retryable() const {
  switch (kind) {
    case ApiErrorKind::kUnauthorized:  // a token that is being rotated
    case ApiErrorKind::kConflict:
    case ApiErrorKind::kGone:
    case ApiErrorKind::kTooManyRequests:
    case ApiErrorKind::kServer:
    case ApiErrorKind::kTimeout:
    case ApiErrorKind::kNetwork:
    case ApiErrorKind::kCancelled:
      return true;
    case ApiErrorKind::kBadRequest:
    case ApiErrorKind::kForbidden:
    case ApiErrorKind::kNotFound:
    case ApiErrorKind::kAlreadyExists:
    case ApiErrorKind::kInvalid:
    case ApiErrorKind::kDecode:
    case ApiErrorKind::kOther:
      return false;
  }
  return false;
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
    if (seconds > 0) {
      error.retry_after = std::chrono::seconds(std::min<int64_t>(seconds, 3600));
    }
    return fields.finish(true);
  };
  bool has_details = false;
  reader.read_with("details", has_details, read_details);
  error.status = static_cast<int>(std::clamp<int64_t>(code, 0, 999));
  error.kind = kind_from(error.status, reason);
  if (reason == "Expired" || reason == "Gone") error.kind = ApiErrorKind::kGone;
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
  ApiErrorKind kind = ApiErrorKind::kNetwork;
  if (error.kind == ErrorKind::kTimeout) kind = ApiErrorKind::kTimeout;
  if (error.kind == ErrorKind::kCancelled) kind = ApiErrorKind::kCancelled;
  if (error.kind == ErrorKind::kData) kind = ApiErrorKind::kDecode;
  ApiError result;
  result.kind = kind;
  result.message = std::string(call) + ": " + error.message;
  return result;
}

}  // namespace gnn::client
