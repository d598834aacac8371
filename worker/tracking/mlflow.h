#pragma once

#include "common/api/gnn_job.h"
#include "common/clock.h"
#include "common/http/client.h"
#include "common/result.h"
#include "common/url.h"
#include "worker/progress/tracking_data.h"
#include "worker/tracking/tracker.h"

#include <map>
#include <span>
#include <string>
#include <string_view>

namespace gnn::tracking {

/// What a run of MLflow says of its job.
struct RunDescription {
  std::string job{};
  std::string job_namespace{};  ///< empty outside a cluster
  std::string job_uid{};        ///< by which a later attempt finds the run
  std::map<std::string, std::string> parameters{};
};

/// A run on an MLflow tracking server. It is found, or made, with the first record; a server that is out
/// of reach at first is asked again.
/// Source: MLflow's REST API, api/2.0/mlflow.
class Mlflow final : public Tracker {
 public:
  Mlflow(Url server, std::string experiment, RunDescription run);

  /// Leaves out what is not finite, which has no form in JSON.
  [[nodiscard]] Status write(std::span<const Record> records, MonotonicPoint deadline) override;
  [[nodiscard]] Status close(RunEnd end, MonotonicPoint deadline) override;

 private:
  // Of a call: its target below api/2.0/mlflow/, and its body as JSON, which is empty for GET.
  struct Call {
    std::string target{};
    std::string body{};
  };

  // The body of the answer.
  // Errors: NotFound and Conflict as MLflow says; Network and Timeout where another try may help.
  [[nodiscard]] Result<std::string> ask(const Call& call, MonotonicPoint deadline) const;
  [[nodiscard]] Status find_experiment(MonotonicPoint deadline);
  [[nodiscard]] Status find_run(MonotonicPoint deadline);
  [[nodiscard]] Status make_run(MonotonicPoint deadline);
  [[nodiscard]] Status begin(TimePoint start, MonotonicPoint deadline);
  [[nodiscard]] Status tell_parameters(MonotonicPoint deadline);
  [[nodiscard]] Status update(std::string_view status, MonotonicPoint deadline) const;

  Url server_;
  std::string experiment_;
  RunDescription run_;
  TimePoint start_{};
  TimePoint latest_{};
  std::string experiment_id_;  // empty until it is known
  std::string run_id_;         // the same
  bool begun_ = false;
};

/// What training depends on, for MLflow: fields of the spec by their paths ("training.epochs"), as text
/// of at most 6,000 bytes.
[[nodiscard]] std::map<std::string, std::string> parameters_of(const api::GnnJobSpec& spec);

}  // namespace gnn::tracking
