#pragma once

#include "common/clock.h"
#include "controller/client/api_client.h"
#include "controller/objects/meta.h"

#include <functional>
#include <string>

namespace gnn::app {

struct WaitResult {
  enum class Kind {
    Complete,
    Failed,
    Deleted,  ///< after it was seen, and before it was seen to finish
    TimedOut,
  };
  Kind kind = Kind::TimedOut;
  std::string message;  ///< of the final condition, or what was seen last
};

struct WaitOptions {
  Duration timeout = std::chrono::seconds(300);
  /// Called before the next try after a call that failed, and wherever a watch ended without an event.
  std::function<void(Duration)> pause{};
};

/// Waits until the job has finished, or is gone. It watches, so that an end is seen even where the job is deleted
/// at once after it; where it may not watch, it polls. Errors of the API server are retried until the timeout.
[[nodiscard]] WaitResult wait_for_job(
    client::ApiClient& api, const objects::ObjectKey& key, const WaitOptions& options, Clock& clock
);

}  // namespace gnn::app
