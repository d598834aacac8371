#pragma once

#include "common/result.h"
#include "tests/support/http.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace gnn::testing {

class ControlPlane;

/// A request as the proxy saw it, and what became of it.
struct RecordedRequest {
  int64_t index = 0;       ///< position among all requests of this proxy, from 0
  int64_t connection = 0;  ///< which client connection carried it, from 0
  std::chrono::steady_clock::time_point received;
  std::string method;
  std::string target;  ///< as sent: path and query
  std::string path;    ///< percent-decoded, without query
  HttpQuery query;     ///< percent-decoded
  HttpHeaders headers;
  std::string body;

  /// What the client was sent; 0: (still) no reply.
  int status = 0;
  /// The API server's words, as far as they came, if the status is 400 or above; at most 64 KiB.
  std::string refusal;
  /// Bytes of the reply's body (without HTTP framing) sent so far.
  int64_t reply_bytes = 0;
  /// The request is over: replied to the end, cut, or given up by the client.
  bool finished = false;
  /// Whether a fault was applied to it.
  bool faulted = false;

  [[nodiscard]] bool is_write() const;  ///< POST, PUT, PATCH or DELETE
  [[nodiscard]] bool is_watch() const;  ///< GET with watch=true or watch=1
  [[nodiscard]] bool is_list_or_get() const { return method == "GET" && !is_watch(); }
};

/// Waits, then goes on as usual.
struct Delay {
  std::chrono::milliseconds before_request{0};  ///< before the API server gets it
  std::chrono::milliseconds before_reply{0};    ///< after the API server's reply came
};
/// The connection stays open and nothing more comes: nothing at all, or, with a number, nothing
/// after that many bytes of the reply's body. Lasts until the client leaves or cut_connections().
struct BlackHole {
  std::optional<int64_t> after_body_bytes;
};
/// The connection breaks after exactly that many bytes of the reply's body (0: after the headers).
/// `reset`: by a TCP reset instead of an orderly end. The body's framing is left incomplete.
struct CutReply {
  int64_t after_body_bytes = 0;
  bool reset = false;
};
/// The API server gets the request and does it; the client gets nothing but a broken connection.
struct LoseReply {};
/// The connection breaks before the API server sees the request.
struct RefuseRequest {};
/// The proxy answers by itself; the API server never sees the request.
struct Answer {
  int status = 500;
  HttpHeaders headers = {};
  std::string body = {};
};
/// The proxy answers by itself, with what the function makes of the request: it can play an admission
/// webhook, for example.
struct AnswerBy {
  std::function<Answer(const RecordedRequest&)> make;
};
/// The API server gets what the function makes of the request's body.
struct EditRequest {
  std::function<std::string(const RecordedRequest&)> edit;
};
/// The reply passes in writes of at most that many bytes, so that lines and characters are split.
struct Fragment {
  int64_t bytes = 1;
};
/// What the API server holds for one collection at one moment.
struct Snapshot {
  std::string collection_path;
  std::string list_body;
};
/// A stale API server: lists and gets of the collection are answered from the snapshot (selectors
/// and limits are ignored), watches stay open and silent, writes pass.
struct ServeSnapshot {
  Snapshot snapshot;
};
using Fault = std::variant<
    Delay,
    BlackHole,
    CutReply,
    LoseReply,
    RefuseRequest,
    Answer,
    AnswerBy,
    EditRequest,
    Fragment,
    ServeSnapshot>;

/// Ready answers as the API server writes them: a Status object as JSON.
[[nodiscard]] Answer answer_status(int code, std::string_view reason, std::string_view message);
[[nodiscard]] Answer answer_gone();                                               ///< 410 Expired
[[nodiscard]] Answer answer_conflict();                                           ///< 409 Conflict
[[nodiscard]] Answer answer_too_many_requests(std::chrono::seconds retry_after);  ///< 429
[[nodiscard]] Answer answer_internal_error();                                     ///< 500
/// 200 with a watch stream of one ERROR event that carries a 410 Status: how a real API server
/// tells a watcher that its resourceVersion is too old.
[[nodiscard]] Answer answer_watch_expired();

using RequestMatcher = std::function<bool(const RecordedRequest&)>;
/// Any watch; any write; any request; those whose path ends with the text.
[[nodiscard]] RequestMatcher any_watch();
[[nodiscard]] RequestMatcher any_write();
[[nodiscard]] RequestMatcher any_request();
[[nodiscard]] RequestMatcher path_ends_with(std::string suffix);

struct FaultProxyOptions {
  std::string upstream_url;  ///< https://127.0.0.1:PORT (or http://)
  std::string upstream_ca_file = {};
  /// Shown to the API server for requests without an Authorization header: a client's certificate
  /// ends at the proxy, its token passes. Empty: such requests are anonymous.
  std::string upstream_certificate_file = {};
  std::string upstream_key_file = {};
  /// The proxy's own certificate; empty: it speaks plain HTTP to its clients.
  std::string certificate_file = {};
  std::string key_file = {};
};

/// Stands between a client and the API server on a free loopback port, records each request, and
/// injects faults. HTTP/1.1 without upgrades (no exec, no port-forward).
/// Threads: every method may be called from any thread.
/// Typical use:
///     auto proxy = FaultProxy::in_front_of(cluster).value();
///     proxy->add_fault(any_watch(), CutReply{.after_body_bytes = 17}, 1);
///     ... the client uses proxy->url() with cluster.ca_file() and any of the cluster's credentials
///     ...
class FaultProxy {
 public:
  [[nodiscard]] static Result<std::unique_ptr<FaultProxy>> start(FaultProxyOptions options);
  /// With a certificate of the control plane's CA, so that its ca_file() verifies the proxy too.
  [[nodiscard]] static Result<std::unique_ptr<FaultProxy>> in_front_of(ControlPlane& control_plane);
  /// With that certificate.
  [[nodiscard]] static Result<std::unique_ptr<FaultProxy>> in_front_of(
      const ControlPlane& control_plane, std::string certificate_file, std::string key_file
  );

  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;
  ~FaultProxy();

  /// E.g. "https://127.0.0.1:40123".
  [[nodiscard]] const std::string& url() const;

  /// From now on the fault meets every request that matches, at most `times` of them (-1: all). Of
  /// several faults the one added last wins. Returns its number.
  int add_fault(RequestMatcher matches, Fault fault, int times = -1);
  void remove_fault(int number);
  /// Requests that a fault holds stay held: see cut_connections().
  void clear_faults();
  /// How many requests the fault has met.
  [[nodiscard]] int times_applied(int number) const;

  /// Calls `callback` once, when the API server has done the k-th write from now (from 1) and
  /// before the client hears of it; the reply follows after `callback` returns, if the connection
  /// still is.
  /// Only writes that `counts` matches are counted.
  void after_write(int k, std::function<void()> callback, RequestMatcher counts = any_write());

  /// Reads the collection, e.g. "/apis/gnn.dev/v1alpha1/namespaces/x/gnnjobs", for ServeSnapshot.
  [[nodiscard]] Result<Snapshot> take_snapshot(std::string_view collection_path);

  /// Breaks every client connection that is open now, held ones too.
  void cut_connections();
  /// Refuses new connections (as a dead server does) until accept_connections(); the port stays.
  void refuse_connections();
  void accept_connections();

  [[nodiscard]] std::vector<RecordedRequest> requests() const;
  [[nodiscard]] std::vector<RecordedRequest> requests(const RequestMatcher& matches) const;
  /// Waits until that many requests match (a matcher may also look at status, finished, ...).
  [[nodiscard]] bool wait_for_requests(
      const RequestMatcher& matches, int count, std::chrono::milliseconds timeout
  ) const;
  void forget_requests();

 private:
  class Impl;
  explicit FaultProxy(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gnn::testing
