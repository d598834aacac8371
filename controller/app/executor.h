#pragma once

#include "common/guarded.h"
#include "controller/app/caches.h"
#include "controller/app/data_key.h"
#include "controller/app/parallel.h"
#include "controller/client/api_client.h"
#include "controller/reconcile/plan.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gnn::app {

/// How carrying out a plan went.
struct Execution {
  /// What a retry would not change; input of the next pass.
  std::vector<reconcile::ApiRefusal> refusals;
  /// The first error that is worth a retry. Nothing was done after it.
  std::optional<client::ApiError> error;
  /// The actions that were carried out, and the changes that were refused; they point into the plan.
  std::vector<const reconcile::Action*> done;
  /// The create that `error` is of, as it is reported if it keeps failing.
  std::optional<reconcile::ApiRefusal> failing;
  bool status_written = false;
  bool data_key_made = false;
};

/// Carries out plans, asks what a plan must know for certain, and decides nothing: the actions in order, then one status write. Runs of
/// CreatePod go out in parallel batches of 1, 2, 4, …, so that a refusal costs few calls. The
/// server's replies go into the caches, so that the next pass reads what this one wrote.
/// Threads: different jobs from any thread, each job from one at a time.
class Executor {
 public:
  Executor(
      client::ApiClient& api,
      Caches& caches,
      Parallel& parallel,
      Clock& clock,
      std::function<Result<std::string>()> draw_data_key = &app::draw_data_key
  )
      : api_(api),
        caches_(caches),
        parallel_(parallel),
        clock_(clock),
        draw_data_key_(std::move(draw_data_key)) {}

  /// Calls `then` whenever the API server does not know the API of a group that is to be created. To be
  /// called before the first plan is executed.
  void on_unserved_api(std::function<void()> then) { on_unserved_api_ = std::move(then); }

  [[nodiscard]] Execution execute(const reconcile::Plan& plan, const api::GnnJob& job);
  /// Carries out actions that belong to no job, such as for pods whose job is gone.
  [[nodiscard]] Execution execute(
      const std::vector<reconcile::Action>& actions, const std::string& namespace_
  );

  // What the API server has now, for decisions that a stale cache must not make.

  /// Nothing if there is no such pod.
  [[nodiscard]] client::ApiResult<std::optional<objects::Pod>> read_pod(
      const objects::ObjectKey& key
  );
  /// Nothing if there is no such job, or it cannot be decoded.
  [[nodiscard]] client::ApiResult<std::optional<api::GnnJob>> read_job(const objects::ObjectKey& key
  );
  /// The last warning among a pod's events that says why it does not start; empty if there is none, or they
  /// may not be read.
  [[nodiscard]] std::string read_start_trouble(const objects::ObjectMeta& pod);
  /// Nothing if there is no such Workload.
  [[nodiscard]] client::ApiResult<std::optional<objects::Workload>> read_workload(
      objects::KueueVersion version, const objects::ObjectKey& key
  );
  /// Nothing if there is no such ResourceFlavor, or it may not be read.
  [[nodiscard]] client::ApiResult<std::optional<objects::ResourceFlavor>> read_flavor(
      objects::KueueVersion version, const std::string& name
  );
  /// The class, or the cluster's default if it has no name; nothing if there is none, or it may not be read.
  [[nodiscard]] client::ApiResult<std::optional<objects::PriorityOfClass>> read_priority(
      objects::KueueVersion version, const objects::PriorityClass& chosen
  );
  /// A job that the cache has no room for, or null if there is none. It is cached if there is room now.
  [[nodiscard]] client::ApiResult<std::shared_ptr<const api::GnnJob>> read_left_out_job(
      const objects::ObjectKey& key
  );
  /// Nothing if there is no such job. It need not be one that this version can decode.
  [[nodiscard]] client::ApiResult<std::optional<std::string>> read_job_uid(
      const objects::ObjectKey& key
  );

 private:
  struct Owner {
    std::string namespace_;
    std::string name;
    std::string uid;  ///< empty: none
  };
  /// Of one action: success, a refusal, or an error.
  struct ApplyResult {
    std::optional<reconcile::ApiRefusal> refusal;
    std::optional<client::ApiError> error;
    std::optional<reconcile::ApiRefusal> failing;
    [[nodiscard]] bool ok() const { return !refusal && !error; }
  };

  void run_actions(
      const std::vector<reconcile::Action>& actions, const Owner& owner, Execution& execution
  );
  [[nodiscard]] ApplyResult run_action(const reconcile::Action& action, const Owner& owner);
  [[nodiscard]] std::vector<ApplyResult> create_pods(
      const std::vector<const reconcile::CreatePod*>& creates, const Owner& owner
  );
  template <class T>
  [[nodiscard]] ApplyResult create(const T& object, runtime::Store<T>& store, const Owner& owner);
  /// Remembers that the pod may have been made although its creation failed, or that it is known now.
  void note_creation(
      const objects::Pod& pod, const client::ApiResult<objects::Json>& reply, const Owner& owner
  );
  /// Looks for the pods of the Workload's job whose creation had no certain end, before the quota goes to others. A
  /// conflict if there is one, which the cache then has.
  [[nodiscard]] ApplyResult look_for_uncertain_pods(
      const objects::Workload& workload, const Owner& owner
  );
  [[nodiscard]] ApplyResult create_data_key(const reconcile::CreateDataKey& action);
  [[nodiscard]] ApplyResult create_group(const reconcile::CreateGroup& action, const Owner& owner);
  [[nodiscard]] ApplyResult delete_group(const reconcile::DeleteGroup& action, const Owner& owner);
  [[nodiscard]] ApplyResult create_workload(
      const reconcile::CreateWorkload& action, const Owner& owner
  );
  /// `subresource` empty: the object itself.
  [[nodiscard]] ApplyResult change_workload(
      const objects::Workload& workload,
      client::PatchKind kind,
      const objects::Json& patch,
      std::string_view subresource,
      const Owner& owner
  );
  [[nodiscard]] ApplyResult release_workload(const objects::Workload& workload, const Owner& owner);
  [[nodiscard]] ApplyResult delete_workload(const objects::Workload& workload, const Owner& owner);
  /// Nothing if there is none, or it may not be read.
  [[nodiscard]] client::ApiResult<std::optional<objects::Json>> read_if_allowed(
      const client::Resource& resource, const std::string& name
  );
  [[nodiscard]] client::ApiResult<std::optional<objects::PriorityOfClass>> read_default_priority();
  template <class T>
  [[nodiscard]] ApplyResult remove(
      runtime::Store<T>& store,
      const objects::ObjectKey& key,
      const client::DeleteOptions& preconditions
  );
  /// What follows from an error of a write that named the object's UID. It is done where the object is
  /// gone, and also where another one has the name. A conflict alone does not tell: the object is read.
  template <class T>
  [[nodiscard]] ApplyResult not_written(
      const client::ApiError& error,
      runtime::Store<T>& store,
      const objects::ObjectKey& key,
      const std::string& uid
  );
  /// Reads the object; nullptr if there is none. If it is cached, the cache has it as it is now.
  template <class T>
  [[nodiscard]] client::ApiResult<std::shared_ptr<const T>> read_into(
      runtime::Store<T>& store, const objects::ObjectKey& key
  );
  template <class T>
  [[nodiscard]] ApplyResult repair(const T& object, runtime::Store<T>& store, const Owner& owner);
  [[nodiscard]] ApplyResult release(const reconcile::ReleasePod& action, const Owner& owner);
  [[nodiscard]] ApplyResult relabel(const reconcile::RelabelPod& action, const Owner& owner);
  [[nodiscard]] ApplyResult stop(const reconcile::StopPod& action, const Owner& owner);
  [[nodiscard]] ApplyResult change_pod(
      const std::string& name,
      const std::string& uid,
      const objects::Json& patch,
      const Owner& owner
  );
  [[nodiscard]] ApplyResult failed(const client::ApiError& error, const std::string& object) const;
  [[nodiscard]] ApplyResult failed_to_create(
      const client::ApiError& error, const std::string& object
  ) const;
  [[nodiscard]] std::optional<client::ApiError> write_status(
      const api::GnnJobStatus& status, const api::GnnJob& job
  );

  client::ApiClient& api_;
  Caches& caches_;
  Parallel& parallel_;
  Clock& clock_;
  const std::function<Result<std::string>()> draw_data_key_;
  std::function<void()> on_unserved_api_;
  /// By the UID of their job: pods of queued jobs whose creation had no certain end.
  Guarded<std::map<std::string, std::set<objects::ObjectKey>>> uncertain_pods_;
};

}  // namespace gnn::app
