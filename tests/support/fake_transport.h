#pragma once

#include "controller/client/http_transport.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace gnn::testing {

/// A body given piece by piece; the last piece may be an error, and without an end the stream stays
/// silent until the request is told to stop.
struct ScriptedBody {
  std::vector<std::string> pieces;
  bool ends = true;
  std::optional<Error> breaks;  ///< after the pieces
};

struct ScriptedReply {
  int status = 200;
  std::string body;
  std::map<std::string, std::string> headers;
  std::optional<Error> error;          ///< instead of a reply
  bool hangs = false;                  ///< instead of a reply: silence until told to stop
  std::optional<ScriptedBody> stream;  ///< for open(); otherwise `body` is one piece
};

/// Answers from a script and remembers what it was asked. Without a scripted reply left it fails
/// with Network.
/// Threads: safe from any thread.
class FakeTransport final : public client::HttpTransport {
 public:
  FakeTransport& reply(ScriptedReply reply) {
    const std::lock_guard lock(mutex_);
    script_.push_back(std::move(reply));
    return *this;
  }
  FakeTransport& reply(int status, std::string body) {
    ScriptedReply scripted;
    scripted.status = status;
    scripted.body = std::move(body);
    return reply(std::move(scripted));
  }

  [[nodiscard]] std::vector<client::HttpRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  /// Blocks until that many requests were made.
  void await_requests(size_t count) const {
    std::unique_lock lock(mutex_);
    asked_.wait(lock, [&] { return requests_.size() >= count; });
  }

  [[nodiscard]] Result<client::HttpResponse> send(const client::HttpRequest& request) override {
    const ScriptedReply scripted = next(request);
    if (scripted.hangs) return hang(request.stop);
    if (scripted.error) return tl::unexpected<Error>(*scripted.error);
    if (static_cast<int64_t>(scripted.body.size()) > request.max_body_bytes) {
      return fail(ErrorKind::Data, "the body is too long");
    }
    return client::HttpResponse{
        .status = scripted.status, .headers = scripted.headers, .body = scripted.body
    };
  }

  [[nodiscard]] Result<std::unique_ptr<client::HttpStream>> open(const client::HttpRequest& request
  ) override {
    ScriptedReply scripted = next(request);
    if (scripted.hangs) return hang(request.stop);
    if (scripted.error) return tl::unexpected<Error>(*scripted.error);
    if (!scripted.stream) scripted.stream = ScriptedBody{.pieces = {scripted.body}, .breaks = {}};
    return std::make_unique<Stream>(std::move(scripted), request.stop);
  }

 private:
  class Stream final : public client::HttpStream {
   public:
    Stream(ScriptedReply reply, std::stop_token stop)
        : reply_(std::move(reply)), stop_(std::move(stop)) {}

    [[nodiscard]] int status() const override { return reply_.status; }
    [[nodiscard]] const std::map<std::string, std::string>& headers() const override {
      return reply_.headers;
    }
    [[nodiscard]] Result<std::string> read() override {
      if (stop_.stop_requested()) return fail(ErrorKind::Cancelled, "cancelled");
      while (next_ < reply_.stream->pieces.size()) {
        const std::string& piece = reply_.stream->pieces[next_++];
        if (!piece.empty()) return piece;
      }
      if (reply_.stream->breaks) return tl::unexpected<Error>(*reply_.stream->breaks);
      if (reply_.stream->ends) return std::string();
      return hang(stop_);
    }

   private:
    const ScriptedReply reply_;
    const std::stop_token stop_;
    size_t next_ = 0;
  };

  /// Blocks until told to stop.
  static tl::unexpected<Error> hang(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::unique_lock lock(mutex);
    changed.wait(lock, stop, [] { return false; });
    return fail(ErrorKind::Cancelled, "cancelled");
  }

  /// A request that is cancelled before it is sent takes nothing from the script.
  ScriptedReply next(const client::HttpRequest& request) {
    const std::lock_guard lock(mutex_);
    if (request.stop.stop_requested()) {
      ScriptedReply cancelled;
      cancelled.error = Error{.kind = ErrorKind::Cancelled, .message = "cancelled"};
      return cancelled;
    }
    requests_.push_back(request);
    asked_.notify_all();
    if (script_.empty()) {
      ScriptedReply none;
      none.error = Error{.kind = ErrorKind::Network, .message = "nothing is scripted"};
      return none;
    }
    ScriptedReply reply = std::move(script_.front());
    script_.pop_front();
    return reply;
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable asked_;
  std::deque<ScriptedReply> script_;
  std::vector<client::HttpRequest> requests_;
};

}  // namespace gnn::testing
