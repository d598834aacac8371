#pragma once

#include "controller/client/http_transport.h"

#include <mutex>
#include <string>
#include <vector>

namespace gnn::simulation {

/// Takes the events that controllers write. They change nothing in the world.
/// Threads: safe from any thread.
class EventSink final : public client::HttpTransport {
 public:
  [[nodiscard]] Result<client::HttpResponse> send(const client::HttpRequest& request) override {
    const std::lock_guard lock(mutex_);
    bodies_.push_back(request.body);
    return client::HttpResponse{.status = 201, .headers = {}, .body = request.body};
  }
  [[nodiscard]] Result<std::unique_ptr<client::HttpStream>> open(const client::HttpRequest&)
      override {
    return fail(ErrorKind::Network, "events are not watched");
  }

  [[nodiscard]] std::vector<std::string> bodies() const {
    const std::lock_guard lock(mutex_);
    return bodies_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> bodies_;
};

}  // namespace gnn::simulation
