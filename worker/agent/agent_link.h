#pragma once

#include "common/clock.h"
#include "common/guarded.h"
#include "common/result.h"
#include "common/stop_token.h"
#include "worker/agent/messages.h"
#include "worker/agent/unique_fd.h"
#include "worker/progress/collective_activity.h"
#include "worker/progress/progress_sink.h"
#include "worker/rendezvous/rendezvous.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace gnn::agent {

/// A rank's connection to its agent: sends reports, receives "stop" and which sampling servers take
/// part. A separate thread sends the
/// latest report twice a second, so a rank in a long computation counts as alive, and a stopped
/// process does not.
/// Threads: safe from any thread.
class AgentLink final : public progress::ProgressSink {
 public:
  /// Takes over the socket that GNN_AGENT_SOCKET names. Null if the variable is not set, as in a
  /// rank that was started by hand. `activity` may be null; `stop` is requested when the agent says
  /// so, or is gone. `on_servers` is called on the link's thread with all that take part, whenever they
  /// change; may be empty.
  /// Errors: Configuration if the variable does not name an open socket.
  using OnServers = std::function<void(const std::vector<LiveServer>& servers)>;
  [[nodiscard]] static Result<std::unique_ptr<AgentLink>> from_environment(
      const rendezvous::EnvironmentLookup& environment,
      std::shared_ptr<progress::CollectiveActivity> activity,
      std::shared_ptr<StopToken> stop,
      OnServers on_servers = {}
  );
  ~AgentLink() override;
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;

  void on_phase(progress::Phase phase) override;
  void on_mark() override;
  void on_remote_meter(const std::shared_ptr<const progress::RemoteMeter>& meter) override;
  void on_served_meter(const std::shared_ptr<const progress::ServedMeter>& meter) override;
  /// The same of what trackers are told.
  void on_tracking_meter(const std::shared_ptr<const progress::TrackingMeter>& meter);
  void on_step(const progress::StepReport& report) override;
  void on_epoch(const progress::EpochReport& report) override;
  void on_final(const progress::FinalReport& report) override;
  void on_checkpoint(const progress::CheckpointReport& report) override;
  void on_message(const std::string& message) override;

  /// Tells the agent which version of the data this rank has found right.
  void send_checked_version(const std::string& version);
  /// Tells the agent why this rank is about to exit with an error.
  void send_failure(const Error& error);

 private:
  AgentLink(
      UniqueFd socket,
      UniqueFd wake,
      std::shared_ptr<progress::CollectiveActivity> activity,
      std::shared_ptr<StopToken> stop,
      OnServers on_servers
  );
  void run();
  void receive();
  using SendMessage = std::function<void(int socket, const std::string& message)>;
  void send_report(const SendMessage& send);
  void wake() const;

  UniqueFd socket_;
  UniqueFd wake_;
  std::shared_ptr<progress::CollectiveActivity> activity_;
  std::shared_ptr<StopToken> stop_;
  OnServers on_servers_;
  std::vector<char> received_;  // the thread's
  Guarded<RankReport> report_;
  Guarded<std::shared_ptr<const progress::RemoteMeter>> remote_;      // null before there is one
  Guarded<std::shared_ptr<const progress::ServedMeter>> served_;      // the same
  Guarded<std::shared_ptr<const progress::TrackingMeter>> tracking_;  // the same
  std::mutex sending_;  // guards no data: keeps messages on socket_ in order
  std::atomic<bool> closing_{false};
  std::thread thread_;
};

}  // namespace gnn::agent
