#pragma once

#include "common/api/report.h"
#include "worker/agent/agent_options.h"
#include "worker/progress/progress_sink.h"
#include "worker/progress/remote_data.h"

#include <cstdint>
#include <optional>
#include <string>

namespace gnn::agent {

/// The numbers of the training that /progress and the final result show; absent if not known.
struct JobNumbers {
  std::optional<int64_t> epoch{};  ///< current epoch, from 1
  std::optional<int64_t> epochs{};
  std::optional<int64_t> global_step{};  ///< optimizer steps since training began
  std::optional<int64_t> steps_per_epoch{};
  std::optional<int64_t> step{};  ///< within the epoch, from 1
  std::optional<double> loss{};
  std::string metric{};  ///< that the next three are values of
  std::optional<double> train_metric{};
  std::optional<double> validation_metric{};
  std::optional<double> test_metric{};
  std::string test_model{};  ///< whose test_metric is, "last" or "best"; empty if not known
  std::optional<progress::BestEpoch> best{};
  std::optional<int64_t> eta_seconds{};
  std::string checkpoint{};
  std::string parameters_hash{};
  std::optional<progress::RemoteSummary> remote{};
};

/// What /progress and the final result have in common: who reports, and the numbers of both.
[[nodiscard]] api::ProgressReport make_report(
    const AgentOptions& options, int64_t round, const JobNumbers& numbers
);

/// What /progress says of the agent itself.
struct AgentState {
  int64_t round = 0;
  std::string phase{};  ///< a progress::Phase, "Rendezvous" or "Leaving"
  double items_per_second = 0;
  std::optional<int64_t> awaited_node{};  ///< lost, and to be replaced
};

/// The body of /progress.
[[nodiscard]] std::string encode_progress(
    const AgentOptions& options, const AgentState& state, const JobNumbers& numbers
);

}  // namespace gnn::agent
