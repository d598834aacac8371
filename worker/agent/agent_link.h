#pragma once

#include "common/clock.h"
#include "common/guarded.h"
#include "common/result.h"
#include "worker/agent/messages.h"
#include "worker/agent/unique_fd.h"
#include "worker/distributed/comm/collective_activity.h"
#include "worker/distributed/comm/rendezvous.h"
#include "worker/training/progress_sink.h"
#include "worker/training/stop_token.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace gnn::agent {

/// A rank's line to its agent: reports one way, "stop" the other. A thread of its own sends the
/// latest report twice a second, so a rank that computes for long shows that it is alive, and one
/// that is stopped doesn't. Threading: safe from any thread.
class AgentLink final : public training::ProgressSink {
 public:
  /// Takes the socket that GNN_AGENT_SOCKET names. Null when the variable is not set: no agent,
  /// e.g. a rank started by hand. `activity` may be null; `stop` is requested when the job is asked
  /// to stop.
  [[nodiscard]] static Result<std::unique_ptr<AgentLink>> from_environment(
      const comm::EnvironmentLookup& environment,
      std::shared_ptr<comm::CollectiveActivity> activity,
      std::shared_ptr<training::StopToken> stop
  );
  ~AgentLink() override;
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;

  void on_phase(training::Phase phase) override;
  void on_mark() override;
  void on_step(const training::StepReport& report) override;
  void on_epoch(const training::EpochReport& report) override;
  void on_final(const training::FinalReport& report) override;
  void on_checkpoint(const training::CheckpointReport& report) override;
  void on_message(const std::string& message) override;

  /// Says why this rank is about to leave with an error.
  void send_failure(const Error& error);

 private:
  AgentLink(
      UniqueFd socket,
      UniqueFd wake,
      std::shared_ptr<comm::CollectiveActivity> activity,
      std::shared_ptr<training::StopToken> stop
  );
  void run();
  void receive();
  using SendMessage = std::function<void(int socket, const std::string& message)>;
  void send_report(const SendMessage& send);
  void wake() const;

  UniqueFd socket_;
  UniqueFd wake_;
  std::shared_ptr<comm::CollectiveActivity> activity_;
  std::shared_ptr<training::StopToken> stop_;
  Guarded<RankReport> report_;
  std::mutex sending_;
  std::atomic<bool> closing_{false};
  std::thread thread_;
};

}  // namespace gnn::agent
