#pragma once

#include "controller/client/http_transport.h"
#include "tests/controller/app/simulation/api_server.h"
#include "tests/controller/app/simulation/controller.h"

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace gnn::simulation {

/// What must hold in every history.
namespace rule {
/// No pods of two attempts of a job run at once, nor two of one node.
inline constexpr std::string_view kOneAttempt = "OneAttempt";
/// No pod of a queued job is made unless its Workload is admitted.
inline constexpr std::string_view kAdmitted = "Admitted";
/// No Workload gives its quota back while pods of its job run.
inline constexpr std::string_view kQuotaReleased = "QuotaReleased";
/// In the end no Workload holds quota without a pod.
inline constexpr std::string_view kQuotaHeld = "QuotaHeld";
/// In the end nothing is left of jobs that are gone, and nothing of ours holds what is over.
inline constexpr std::string_view kNothingLeft = "NothingLeft";
/// Once nothing happens, nothing is written.
inline constexpr std::string_view kQuiet = "Quiet";
/// Each object is written so often per minute at most.
inline constexpr std::string_view kNoHotLoop = "NoHotLoop";
/// In the end each job has ended or says what it waits for.
inline constexpr std::string_view kEnds = "Ends";
/// Attempts and restarts of a job never decrease.
inline constexpr std::string_view kMonotonic = "Monotonic";
/// A finished job stays as it is.
inline constexpr std::string_view kFinishedStays = "FinishedStays";
/// No pod that the operator has stopped itself counts as a failure.
inline constexpr std::string_view kOwnStop = "OwnStop";
/// No data key is anywhere but where pods read it.
inline constexpr std::string_view kNoSecrets = "NoSecrets";
/// Each delete names the UID of what it means.
inline constexpr std::string_view kPrecondition = "Precondition";
/// No job fails by its deadline, or is deleted, before that is due by the true time.
inline constexpr std::string_view kDue = "Due";
/// What is neither the operator's nor held by its finalizer stays as it is.
inline constexpr std::string_view kForeign = "Foreign";
}  // namespace rule

struct Violation {
  std::string rule;
  std::string what;
};

/// Watches over one history, and keeps the first violation.
class Rules {
 public:
  explicit Rules(const SimulatedTime& time) : time_(time) {}

  /// A request of a controller arrives.
  void see_request(const client::HttpRequest& request);
  /// An object changed. `view`: of the pass that did it, if that is the leader's.
  void see_change(
      const ApiServer& server,
      const std::string& kind,
      const Change& change,
      bool by_controller,
      const std::optional<ViewOfQueue>& view
  );
  void see_event(const std::string& body);
  /// Passes follow each other at once without an end.
  void see_restless_passes() { broken(rule::kNoHotLoop, "passes follow each other at once"); }
  /// From now on nothing must be written.
  void expect_quiet() { quiet_ = true; }
  /// After the world has answered everything for long.
  void check_end(const ApiServer& server);

  [[nodiscard]] const std::optional<Violation>& violation() const { return violation_; }

 private:
  void broken(std::string_view rule, std::string what);
  void see_job(const Change& change);
  void see_times(const Change& change);
  void see_failures(const Json& before, const Json& after);
  void see_new_pod(
      const ApiServer& server, const Json& pod, const std::optional<ViewOfQueue>& view
  );
  void see_workload(const ApiServer& server, const Change& change);
  void see_foreign(const std::string& kind, const Change& change);
  void check_job(const Json& job);
  void check_pod(const ApiServer& server, const Json& pod);
  void check_workload(const ApiServer& server, const Json& workload);

  const SimulatedTime& time_;
  bool quiet_ = false;
  std::optional<Violation> violation_;
  std::map<std::string, std::deque<Duration>> writes_;  // by what is written
  std::set<std::string> own_stops_;                     // job's UID and name of the pod
  std::set<std::string> late_;                          // UIDs of pods that a former leader made
};

/// A pod that has ended, or whose kubelet is done with it.
[[nodiscard]] bool is_over(const Json& pod);
[[nodiscard]] bool holds_quota(const Json& workload);

}  // namespace gnn::simulation
