#include "controller/client/api_client.h"

#include "common/guarded.h"
#include "controller/client/list_page.h"
#include "controller/client/retry_after.h"
#include "controller/client/server_clock.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace gnn::client {
namespace {

constexpr int64_t kMaxObjectBytes = int64_t{4} << 20;
constexpr int64_t kMaxDiscoveryValues = 400'000;  // of hundreds of APIs
// More than an etcd can fill: a list without an end would take all memory.
constexpr int64_t kMostPages = 20'000;
constexpr size_t kMaxRefusalBytes = size_t{64} << 10U;
const std::vector<double> kDurationBuckets = {
    0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 45, 60
};

std::string_view content_type_of(PatchKind kind) {
  switch (kind) {
    case PatchKind::JsonPatch:
      return "application/json-patch+json";
    case PatchKind::MergePatch:
      return "application/merge-patch+json";
    case PatchKind::StrategicMergePatch:
      return "application/strategic-merge-patch+json";
  }
  return "application/merge-patch+json";
}

// Nothing of an error, which may be a proxy's page, or of a reply that was kept by a cache.
std::optional<TimePoint> date_of(const HttpResponse& response) {
  const auto header = response.headers.find("date");
  if (header == response.headers.end() || response.status / 100 != 2) return std::nullopt;
  if (response.headers.contains("age")) return std::nullopt;
  return parse_http_date(header->second);
}

std::string call_name(const HttpRequest& request) {
  return request.method + " " + request.path.substr(0, request.path.find('?'));
}

objects::ObjectKey key_of_json(const Json& object) {
  objects::ObjectKey key;
  const auto meta = object.find("metadata");
  if (meta == object.end() || !meta->is_object()) return key;
  objects::ObjectReader reader(*meta, "metadata");
  reader.read("namespace", key.namespace_);
  reader.read("name", key.name);
  return key;
}

void add_parameter(std::string& path, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  path += path.find('?') == std::string::npos ? '?' : '&';
  path += std::string(name) + "=" + percent_encode(value);
}

std::string accept_of(Content content, std::string_view kind) {
  if (content == Content::Whole) return "application/json";
  return "application/json;as=" + std::string(kind) + ";g=meta.k8s.io;v=v1";
}

// Parses one object of a list, or tells what is known of it.
Status take_item(
    std::string_view text, const ListOptions& options, const std::function<void(const Json&)>& item
) {
  auto object = objects::parse_object(text, options.object_limits);
  if (object) {
    item(*object);
    return {};
  }
  if (!options.unread) return tl::unexpected<Error>(std::move(object).error());
  const auto identity =
      objects::parse_members(text, {{"metadata", "namespace"}, {"metadata", "name"}});
  options.unread(identity.value_or(Json()), object.error());
  return {};
}

ApiError decode_error(const Error& error, std::string_view call) {
  ApiError result;
  result.kind = ApiErrorKind::Decode;
  result.message = std::string(call) + ": reply: " + error.message;
  return result;
}

// Why a list does not go on with its next page; nothing if it does.
std::optional<Error> why_list_is_endless(
    const std::string& asked_for, const std::string& next, int64_t pages
) {
  if (!next.empty() && next == asked_for) {
    return Error{
        .kind = ErrorKind::Data, .message = "a page names itself as the one that comes next"
    };
  }
  if (pages < kMostPages) return std::nullopt;
  return Error{
      .kind = ErrorKind::Data,
      .message = "expected a list of at most " + std::to_string(kMostPages) + " pages, found no end"
  };
}

}  // namespace

struct ApiClient::Shared {
  Guarded<bool> stopping{false};
  std::stop_source cancelled;
};

std::string percent_encode(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      encoded.push_back(c);
    } else {
      encoded.push_back('%');
      encoded.push_back(kHex[byte >> 4U]);
      encoded.push_back(kHex[byte & 0xfU]);
    }
  }
  return encoded;
}

std::string resource_path(
    const Resource& resource,
    std::string_view namespace_,
    std::string_view name,
    std::string_view subresource
) {
  std::string path = resource.group.empty() ? "/api/" : "/apis/" + resource.group + "/";
  path += resource.version;
  if (!namespace_.empty()) path += "/namespaces/" + percent_encode(namespace_);
  path += "/" + resource.plural;
  if (!name.empty()) path += "/" + percent_encode(name);
  if (!subresource.empty()) path += "/" + std::string(subresource);
  return path;
}

ApiClient::ApiClient(
    HttpTransport& transport,
    TokenSource& tokens,
    Clock& clock,
    MetricsRegistry& metrics,
    ApiClientOptions options
)
    : transport_(&transport),
      tokens_(&tokens),
      clock_(&clock),
      metrics_(&metrics),
      options_(std::move(options)),
      shared_(std::make_shared<Shared>()) {}

ApiClient ApiClient::with_timeout(Duration timeout) const {
  ApiClient copy = *this;
  copy.options_.timeout = timeout;
  return copy;
}

void ApiClient::shut_down() {
  *shared_->stopping.lock() = true;
  shared_->stopping.notify_all();
}

void ApiClient::cancel() {
  shut_down();
  shared_->cancelled.request_stop();
}

ApiResult<std::string> ApiClient::call(HttpRequest request) {
  request.timeout = options_.timeout;
  if (!request.stop.stop_possible()) request.stop = shared_->cancelled.get_token();
  const std::string name = call_name(request);
  bool refreshed = false;
  Duration patience = options_.max_retry_after;
  for (int64_t retries = 0;; ++retries) {
    if (request.method != "GET" && options_.may_write && !options_.may_write()) {
      return tl::unexpected<ApiError>(api_error_from_transport(
          {.kind = ErrorKind::Cancelled, .message = "not the leader"}, name
      ));
    }
    auto reply = send(request);
    if (!reply) return tl::unexpected<ApiError>(api_error_from_transport(reply.error(), name));
    if (reply->status / 100 == 2) return std::move(reply->body);

    ApiError error = api_error_from_reply(reply->status, reply->body, name);
    if (auto after = retry_after_in(reply->headers)) error.retry_after = after;
    const bool unauthorized = reply->status == 401 && !std::exchange(refreshed, true);
    const bool again =
        unauthorized ? tokens_->refresh_after_refusal()
                     : retries < options_.max_retries && wait_to_retry(error, *reply, patience);
    if (!again) return tl::unexpected<ApiError>(std::move(error));
    if (!unauthorized) patience -= *error.retry_after;
    count_retry(request, *reply);
  }
}

Result<HttpResponse> ApiClient::send(HttpRequest& request) {
  request.bearer_token = tokens_->token();
  const MonotonicPoint started = clock_->monotonic();
  auto reply = transport_->send(request);
  const Duration took = clock_->monotonic() - started;
  metrics_
      ->histogram(
          "rest_client_request_duration_seconds",
          "Request latency in seconds, by verb and host.",
          kDurationBuckets,
          {{"verb", request.method}, {"host", options_.host}}
      )
      .observe(std::chrono::duration<double>(took).count());
  count_request(request.method, reply ? std::to_string(reply->status) : "<error>");
  if (!reply) return reply;
  if (const auto date = date_of(*reply); date && options_.on_date) options_.on_date(*date, took);
  return reply;
}

bool ApiClient::wait_to_retry(const ApiError& error, const HttpResponse& reply, Duration longest) {
  const bool worth_it = reply.status == 429 || reply.status >= 500;
  if (!worth_it || !error.retry_after || *error.retry_after > longest) return false;
  auto stopping = shared_->stopping.lock();
  return !stopping.wait_until(*clock_, clock_->monotonic() + *error.retry_after, [](bool stop) {
    return stop;
  });
}

void ApiClient::count_request(const std::string& method, const std::string& code) {
  metrics_
      ->counter(
          "rest_client_requests_total",
          "Number of HTTP requests, by status code, method and host.",
          {{"code", code}, {"method", method}, {"host", options_.host}}
      )
      .increment();
}

void ApiClient::count_retry(const HttpRequest& request, const HttpResponse& reply) {
  metrics_
      ->counter(
          "rest_client_request_retries_total",
          "Number of request retries, by status code, verb and host.",
          {{"code", std::to_string(reply.status)}, {"verb", request.method}, {"host", options_.host}
          }
      )
      .increment();
}

ApiResult<Json> ApiClient::call_for_object(HttpRequest request, int64_t max_values) {
  request.max_body_bytes = kMaxObjectBytes;
  const std::string name = call_name(request);
  // A single object that is asked for is rare, and may be of a kind of which more is read.
  const bool whole = request.method == "GET";
  auto body = call(std::move(request));
  if (!body) return tl::unexpected<ApiError>(std::move(body).error());
  const objects::JsonLimits limits{.max_bytes = kMaxObjectBytes, .max_values = max_values};
  auto json = whole ? objects::parse_json(*body, limits) : objects::parse_object(*body, limits);
  if (!json) return tl::unexpected<ApiError>(decode_error(json.error(), name));
  return std::move(*json);
}

ApiResult<Json> ApiClient::get(const Resource& resource, const objects::ObjectKey& key) {
  HttpRequest request;
  request.path = resource_path(resource, key.namespace_, key.name);
  return call_for_object(std::move(request));
}

ApiResult<Json> ApiClient::discover() {
  HttpRequest request;
  request.path = "/apis";
  request.accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
  return call_for_object(std::move(request), kMaxDiscoveryValues);
}

ApiResult<Json> ApiClient::create(const Resource& resource, const Json& object) {
  HttpRequest request;
  request.method = "POST";
  request.path = resource_path(resource, key_of_json(object).namespace_);
  request.content_type = "application/json";
  request.body = objects::dump_json(object);
  return call_for_object(std::move(request));
}

ApiResult<Json> ApiClient::replace(const Resource& resource, const Json& object) {
  const objects::ObjectKey key = key_of_json(object);
  HttpRequest request;
  request.method = "PUT";
  request.path = resource_path(resource, key.namespace_, key.name);
  request.content_type = "application/json";
  request.body = objects::dump_json(object);
  return call_for_object(std::move(request));
}

ApiResult<Json> ApiClient::replace_status(const Resource& resource, const Json& object) {
  const objects::ObjectKey key = key_of_json(object);
  HttpRequest request;
  request.method = "PUT";
  request.path = resource_path(resource, key.namespace_, key.name, "status");
  request.content_type = "application/json";
  request.body = objects::dump_json(object);
  return call_for_object(std::move(request));
}

ApiResult<Json> ApiClient::patch(
    const Resource& resource,
    const objects::ObjectKey& key,
    PatchKind kind,
    const Json& patch,
    std::string_view subresource
) {
  HttpRequest request;
  request.method = "PATCH";
  request.path = resource_path(resource, key.namespace_, key.name, subresource);
  request.content_type = content_type_of(kind);
  request.body = objects::dump_json(patch);
  return call_for_object(std::move(request));
}

ApiResult<void> ApiClient::remove(
    const Resource& resource, const objects::ObjectKey& key, const DeleteOptions& options
) {
  Json body = {
      {"apiVersion", "v1"}, {"kind", "DeleteOptions"}, {"propagationPolicy", "Background"}
  };
  if (!options.uid.empty()) body["preconditions"]["uid"] = options.uid;
  if (!options.resource_version.empty()) {
    body["preconditions"]["resourceVersion"] = options.resource_version;
  }
  if (options.grace_period_seconds) body["gracePeriodSeconds"] = *options.grace_period_seconds;
  HttpRequest request;
  request.method = "DELETE";
  request.path = resource_path(resource, key.namespace_, key.name);
  request.content_type = "application/json";
  request.body = objects::dump_json(body);
  auto reply = call(std::move(request));
  if (!reply) return tl::unexpected<ApiError>(std::move(reply).error());
  return {};
}

ApiResult<std::string> ApiClient::list(
    const Resource& resource,
    const ListOptions& options,
    const std::function<void(const Json&)>& item
) {
  std::string continuation;
  int64_t page_size = options.page_size;
  for (int64_t pages = 1;; ++pages) {
    HttpRequest request;
    request.path = resource_path(resource, options.namespace_);
    request.accept = accept_of(options.content, "PartialObjectMetadataList");
    request.stop = options.stop;
    add_parameter(request.path, "labelSelector", options.label_selector);
    add_parameter(request.path, "fieldSelector", options.field_selector);
    add_parameter(request.path, "limit", std::to_string(page_size));
    add_parameter(request.path, "continue", continuation);
    if (continuation.empty()) {
      add_parameter(request.path, "resourceVersion", options.resource_version);
    }
    const std::string name = call_name(request);
    const auto body = call(std::move(request));
    if (!body && body.error().kind == ApiErrorKind::TooLarge && page_size > 1) {
      page_size /= 2;
      continue;
    }
    if (!body) return tl::unexpected<ApiError>(body.error());
    const auto page = split_list(*body);
    if (!page) return tl::unexpected<ApiError>(decode_error(page.error(), name));
    for (const std::string_view text : page->items) {
      if (const Status taken = take_item(text, options, item); !taken) {
        return tl::unexpected<ApiError>(decode_error(taken.error(), name));
      }
    }
    if (page->continuation.empty() || options.first_page_alone) return page->resource_version;
    if (const auto why = why_list_is_endless(continuation, page->continuation, pages)) {
      return tl::unexpected<ApiError>(decode_error(*why, name));
    }
    continuation = page->continuation;
    // The large objects may be behind.
    const bool is_small = static_cast<int64_t>(body->size()) < kMaxReplyBytes / 4;
    if (is_small) page_size = std::min(2 * page_size, options.page_size);
  }
}

ApiResult<std::unique_ptr<HttpStream>> ApiClient::watch(
    const Resource& resource, const WatchOptions& options
) {
  HttpRequest request;
  request.path = resource_path(resource, options.namespace_) + "?watch=true";
  request.accept = accept_of(options.content, "PartialObjectMetadata");
  request.timeout = options.idle_timeout;
  request.stop = options.stop.stop_possible() ? options.stop : shared_->cancelled.get_token();
  add_parameter(request.path, "allowWatchBookmarks", "true");
  add_parameter(request.path, "labelSelector", options.label_selector);
  add_parameter(request.path, "fieldSelector", options.field_selector);
  add_parameter(request.path, "resourceVersion", options.resource_version);
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(options.server_timeout).count();
  add_parameter(request.path, "timeoutSeconds", std::to_string(seconds));
  const std::string name = "WATCH " + request.path.substr(0, request.path.find('?'));
  for (bool refreshed = false;; refreshed = true) {
    request.bearer_token = tokens_->token();
    auto stream = transport_->open(request);
    if (!stream) return tl::unexpected<ApiError>(api_error_from_transport(stream.error(), name));
    const int status = (*stream)->status();
    count_request("GET", std::to_string(status));
    if (status == 200) return std::move(*stream);
    std::string body;
    const MonotonicPoint deadline = clock_->monotonic() + options_.timeout;
    while (body.size() < kMaxRefusalBytes && clock_->monotonic() < deadline) {
      auto bytes = (*stream)->read();
      if (!bytes || bytes->empty()) break;
      body += *bytes;
    }
    if (status == 401 && !refreshed && tokens_->refresh_after_refusal()) continue;
    ApiError error = api_error_from_reply(status, body, name);
    if (auto after = retry_after_in((*stream)->headers())) error.retry_after = after;
    return tl::unexpected<ApiError>(std::move(error));
  }
}

}  // namespace gnn::client
