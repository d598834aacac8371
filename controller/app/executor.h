#pragma once

#include "controller/app/caches.h"
#include "controller/app/parallel.h"
#include "controller/client/api_client.h"
#include "controller/reconcile/plan.h"

#include <optional>
#include <string>
#include <vector>

namespace gnn::app {

/// What became of a plan.
struct Execution {
  /// What the API server refused for good: input of the next pass.
  std::vector<reconcile::ApiRefusal> refusals;
  /// The first error that is worth a retry; nothing after it was done.
  std::optional<client::ApiError> error;
  bool status_written = false;
};

/// Carries out plans: actions in order, runs of CreatePod in parallel and slowly starting (1, 2, 4,
/// …) so that a refusal costs few calls, then one status write. Holds no decisions. Puts the
/// server's answers into the caches, so that the next pass reads what this one wrote.
/// Threading: safe from any thread, one job by one thread at a time.
class Executor {
 public:
  Executor(client::ApiClient& api, Caches& caches, Parallel& parallel, Clock& clock)
      : api_(api), caches_(caches), parallel_(parallel), clock_(clock) {}

  [[nodiscard]] Execution execute(const reconcile::Plan& plan, const api::GnnJob& job);
  /// Actions without a job, e.g. for pods whose job is gone.
  [[nodiscard]] Execution execute(
      const std::vector<reconcile::Action>& actions, const std::string& namespace_
  );

 private:
  struct Owner {
    std::string namespace_;
    std::string name;
    std::string uid;  ///< empty: none
  };
  /// Success, or why not: a refusal or an error.
  struct Outcome {
    std::optional<reconcile::ApiRefusal> refusal;
    std::optional<client::ApiError> error;
    [[nodiscard]] bool ok() const { return !refusal && !error; }
  };

  void run_actions(
      const std::vector<reconcile::Action>& actions, const Owner& owner, Execution& execution
  );
  [[nodiscard]] Outcome run_action(const reconcile::Action& action, const Owner& owner);
  [[nodiscard]] std::vector<Outcome> create_pods(
      const std::vector<const reconcile::CreatePod*>& creates, const Owner& owner
  );
  template <class T>
  [[nodiscard]] Outcome create(const T& object, runtime::Store<T>& store, const Owner& owner);
  template <class T>
  [[nodiscard]] Outcome patch_spec(const T& object, runtime::Store<T>& store, const Owner& owner);
  [[nodiscard]] Outcome release(const reconcile::ReleasePod& action, const Owner& owner);
  [[nodiscard]] Outcome stop(const reconcile::StopPod& action, const Owner& owner);
  [[nodiscard]] Outcome failed(const client::ApiError& error, const std::string& object) const;
  [[nodiscard]] std::optional<client::ApiError> write_status(
      const api::GnnJobStatus& status, const api::GnnJob& job
  );

  client::ApiClient& api_;
  Caches& caches_;
  Parallel& parallel_;
  Clock& clock_;
};

}  // namespace gnn::app
