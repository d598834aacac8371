#pragma once

#include "common/clock.h"
#include "common/metrics.h"
#include "controller/client/api_error.h"
#include "controller/client/http_transport.h"
#include "controller/client/kube_config.h"
#include "controller/objects/meta.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::client {

using objects::Json;

/// A kind as the API server's URLs name it.
struct Resource {
  std::string group;  ///< empty: core
  std::string version;
  std::string plural;
  /// For metrics and logs, unlike that of any other kind here: the plural, with the group where the
  /// plural is not enough.
  std::string label;
};

template <class T>
[[nodiscard]] Resource resource_of() {
  using Traits = objects::ResourceTraits<T>;
  Resource resource{
      .group = std::string(Traits::kGroup),
      .version = std::string(Traits::kVersion),
      .plural = std::string(Traits::kPlural),
      .label = std::string(Traits::kPlural),
  };
  if constexpr (requires { Traits::kPluralIsShared; }) resource.label += "." + resource.group;
  return resource;
}

enum class PatchKind { JsonPatch, MergePatch, StrategicMergePatch };

/// What is asked of each object.
enum class Content { Whole, Metadata };

struct ListOptions {
  std::string namespace_{};  ///< empty: all
  std::string label_selector{};
  std::string field_selector{};
  std::string resource_version{};
  Content content = Content::Whole;
  bool first_page_alone = false;
  /// Most objects of a page. Halved for as long as a page is larger than kMaxReplyBytes, and doubled
  /// again behind pages that are far smaller.
  int64_t page_size = 500;
  objects::JsonLimits object_limits{};
  /// Called for an object above the limits, or that is not JSON, with what was read of it: namespace
  /// and name, in its metadata. Empty: such an object is an error of the whole list.
  std::function<void(const Json&, const Error&)> unread{};
  std::stop_token stop{};  ///< ends the list with Cancelled
};

struct WatchOptions {
  std::string namespace_{};  ///< empty: all
  std::string label_selector{};
  std::string field_selector{};
  std::string resource_version{};
  Content content = Content::Whole;
  Duration server_timeout = std::chrono::minutes(5);
  /// A stream that is silent for longer counts as dead; bookmarks come about every minute.
  Duration idle_timeout = std::chrono::seconds(90);
  std::stop_token stop{};  ///< ends the watch with Cancelled, also while it is being opened
};

struct DeleteOptions {
  std::string uid{};               ///< precondition; empty: none
  std::string resource_version{};  ///< precondition; empty: none
  std::optional<int64_t> grace_period_seconds{};
};

struct ApiClientOptions {
  Duration timeout = std::chrono::seconds(30);
  /// How often a call is repeated after 429, or 5xx with Retry-After.
  int64_t max_retries = 5;
  /// How long a call waits for Retry-After in all, so that who makes it is not held for longer.
  Duration max_retry_after = std::chrono::seconds(10);
  std::string host{};  ///< label `host` of the metrics
  /// Asked before each write, which fails with Cancelled if the answer is false: a process that no
  /// longer leads must not write. Empty: writes are always allowed.
  std::function<bool()> may_write{};
  /// Told what time each reply says it is, and how long the reply took: see ServerClock::see(). Not of
  /// errors and of what a cache kept.
  std::function<void(TimePoint date, Duration took)> on_date{};
};

/// Calls the Kubernetes API, with deadlines, typed errors and Retry-After. Knows no particular
/// kind.
/// Threads: every method may be called from any thread.
class ApiClient {
 public:
  ApiClient(
      HttpTransport& transport,
      TokenSource& tokens,
      Clock& clock,
      MetricsRegistry& metrics,
      ApiClientOptions options = {}
  );

  [[nodiscard]] ApiResult<Json> get(const Resource& resource, const objects::ObjectKey& key);
  /// Which resources the API server has, as an APIGroupDiscoveryList of apidiscovery.k8s.io/v2.
  [[nodiscard]] ApiResult<Json> discover();
  /// Creates the object in its metadata.namespace.
  [[nodiscard]] ApiResult<Json> create(const Resource& resource, const Json& object);
  [[nodiscard]] ApiResult<Json> replace(const Resource& resource, const Json& object);
  /// Replaces the status subresource; resourceVersion, if set, is a precondition.
  [[nodiscard]] ApiResult<Json> replace_status(const Resource& resource, const Json& object);
  /// `subresource` empty: the object itself.
  [[nodiscard]] ApiResult<Json> patch(
      const Resource& resource,
      const objects::ObjectKey& key,
      PatchKind kind,
      const Json& patch,
      std::string_view subresource = {}
  );
  [[nodiscard]] ApiResult<void> remove(
      const Resource& resource, const objects::ObjectKey& key, const DeleteOptions& options
  );

  /// Calls `item` for each object of all pages, in order, and returns the list's resourceVersion.
  /// Holds one page at a time, and parses one object at a time.
  /// Errors: Gone (410) means that the continue token has expired: start again. TooLarge for a
  /// single object above kMaxReplyBytes.
  [[nodiscard]] ApiResult<std::string> list(
      const Resource& resource,
      const ListOptions& options,
      const std::function<void(const Json&)>& item
  );

  /// Opens a watch.
  /// Errors: also for any status other than 200.
  [[nodiscard]] ApiResult<std::unique_ptr<HttpStream>> watch(
      const Resource& resource, const WatchOptions& options
  );

  /// The same client with another deadline for every call.
  [[nodiscard]] ApiClient with_timeout(Duration timeout) const;

  /// Ends all waits for Retry-After, because the process is shutting down.
  void shut_down();
  /// Makes calls in progress, and all later ones, fail with Cancelled; lists and watches that have
  /// a stop token of their own heed only that one.
  void cancel();

 private:
  struct Shared;

  /// Sends it until it succeeds, or until another time is not worth it.
  [[nodiscard]] ApiResult<std::string> call(HttpRequest request);
  /// Once, with the token of now.
  [[nodiscard]] Result<HttpResponse> send(HttpRequest& request);
  /// Whether to send it again, after the wait that the server asks for, if that is not too long.
  [[nodiscard]] bool wait_to_retry(
      const ApiError& error, const HttpResponse& reply, Duration longest
  );
  void count_request(const std::string& method, const std::string& code);
  void count_retry(const HttpRequest& request, const HttpResponse& reply);
  [[nodiscard]] ApiResult<Json> call_for_object(
      HttpRequest request, int64_t max_values = objects::JsonLimits{}.max_values
  );

  HttpTransport* transport_;
  TokenSource* tokens_;
  Clock* clock_;
  MetricsRegistry* metrics_;
  ApiClientOptions options_;
  std::shared_ptr<Shared> shared_;
};

/// "/apis/GROUP/VERSION/namespaces/NS/PLURAL/NAME", percent-encoded; empty parts are left out.
[[nodiscard]] std::string resource_path(
    const Resource& resource,
    std::string_view namespace_,
    std::string_view name = {},
    std::string_view subresource = {}
);

[[nodiscard]] std::string percent_encode(std::string_view text);

}  // namespace gnn::client
