#include "controller/app/wait_command.h"

#include "common/log.h"
#include "controller/app/connection.h"
#include "controller/app/job_wait.h"

#include <cstdio>
#include <string>
#include <thread>

namespace gnn::app {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitDeleted = 2;
constexpr int kExitTimeout = 124;  // as coreutils' timeout

}  // namespace

int run_wait(const Options& options) {
  SystemClock clock;
  MetricsRegistry metrics;
  auto connection = connect(options, clock);
  if (!connection) return connection.error();
  client::ApiClient api = connection->client(clock, metrics);
  const objects::ObjectKey key{.namespace_ = options.namespaces.front(), .name = options.wait_job};
  const auto pause = [](Duration length) { std::this_thread::sleep_for(length); };
  const WaitResult result =
      wait_for_job(api, key, {.timeout = options.wait_timeout, .pause = pause}, clock);
  switch (result.kind) {
    case WaitResult::Kind::Complete:
      std::printf("%s Complete: %s\n", key.name.c_str(), result.message.c_str());
      return 0;
    case WaitResult::Kind::Failed:
      std::printf("%s Failed: %s\n", key.name.c_str(), result.message.c_str());
      return kExitFailed;
    case WaitResult::Kind::Deleted:
      log_error(
          "the job was deleted before it was seen to finish",
          {{"job", objects::to_string(key)}, {"last", result.message}}
      );
      return kExitDeleted;
    case WaitResult::Kind::TimedOut:
      break;
  }
  log_error(
      "the job did not finish in time", {{"job", objects::to_string(key)}, {"last", result.message}}
  );
  return kExitTimeout;
}

}  // namespace gnn::app
