#include "controller/app/wait_command.h"

#include "common/log.h"
#include "controller/app/connection.h"
#include "controller/app/gnn_job_resource.h"
#include "controller/reconcile/conditions.h"

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

namespace gnn::app {
namespace {

constexpr int kExitTimeout = 124;  // as coreutils' timeout

// The condition that says how the job ended; nothing while it has not.
const api::Condition* final_condition(const api::GnnJobStatus& status) {
  for (const std::string_view type :
       {reconcile::condition::kComplete, reconcile::condition::kFailed}) {
    if (reconcile::is_true(status, type)) return reconcile::find_condition(status, type);
  }
  return nullptr;
}

}  // namespace

int run_wait(const Options& options) {
  constexpr auto kPause = std::chrono::milliseconds(500);
  SystemClock clock;
  MetricsRegistry metrics;
  auto connection = connect(options, clock);
  if (!connection) return connection.error();
  client::ApiClient api = connection->client(clock, metrics);
  const objects::ObjectKey key{.namespace_ = options.namespaces.front(), .name = options.wait_job};
  const MonotonicPoint deadline = clock.monotonic() + options.wait_timeout;
  std::string last = "not seen yet";
  while (clock.monotonic() < deadline) {
    const auto found = api.get(client::resource_of<api::GnnJob>(), key);
    if (!found) {
      last = found.error().message;
    } else if (const auto job = api::decode_job(*found, api::UnknownFields::Ignore); !job) {
      last = job.error().message;
    } else if (const api::Condition* end = final_condition(job->status)) {
      std::printf("%s %s: %s\n", key.name.c_str(), end->type.c_str(), end->message.c_str());
      return end->type == reconcile::condition::kComplete ? 0 : 1;
    } else {
      last = "state " + (job->status.state.empty() ? "not set" : job->status.state);
    }
    std::this_thread::sleep_for(kPause);
  }
  log_error("the job did not finish in time", {{"job", objects::to_string(key)}, {"last", last}});
  return kExitTimeout;
}

}  // namespace gnn::app
