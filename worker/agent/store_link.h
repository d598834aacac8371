#pragma once

#include "common/clock.h"
#include "common/guarded.h"
#include "common/result.h"
#include "common/running_time.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/coordinator.h"
#include "worker/agent/live_servers.h"
#include "worker/agent/messages.h"
#include "worker/agent/stillness.h"
#include "worker/agent/unique_fd.h"
#include "worker/rendezvous/store.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace gnn::agent {

/// Hosts the store (node 0) or joins it; waits at most `timeout`.
using StoreConnector =
    std::function<Result<std::shared_ptr<rendezvous::Store>>(std::chrono::milliseconds timeout)>;

/// An agent's exchange with the store, on its own thread, so that a slow store never delays
/// supervision: writes this node's report and reads node 0's directive. On node 0 it reads all
/// reports, lets the coordinator decide, and writes the directive. It beats only while the agent calls
/// report(): a sign of life of its own thread would prove little. All silence is measured in
/// RunningTime.
class StoreLink {
 public:
  struct View {
    bool joined = false;
    std::optional<Directive> directive{};
    /// Why the store is lost or was never joined. Nothing changes after that.
    std::optional<Error> lost{};
    int64_t posted = 0;   ///< number of the latest report() that all can read
    int64_t refused = 0;  ///< handshakes refused so far; known on node 0
    /// The lost node whose place a new pod has to take; known on node 0.
    std::optional<int64_t> awaited{};
    /// Of all ranks of the directive's round: while it changes, some rank progresses.
    int64_t marks = 0;
    std::vector<std::optional<NodeReport>> nodes{};  ///< known on node 0
    /// Sampling servers that take part still, and have not seen that all is done; known on node 0.
    int64_t staying_servers = 0;
  };

  /// `options` and `clock` outlive the link.
  StoreLink(const AgentOptions& options, StoreConnector connect, Clock& clock);
  ~StoreLink();
  StoreLink(const StoreLink&) = delete;
  StoreLink& operator=(const StoreLink&) = delete;

  /// Hands over the next report and returns its number; the same report again keeps its number.
  /// The agent calls it in every turn. The link sets the beat.
  int64_t report(NodeReport report);
  [[nodiscard]] View view();
  /// Readable when the view has changed.
  [[nodiscard]] int changed_fd() const { return changed_.get(); }
  void clear_changed() const;

 private:
  struct Outgoing {
    NodeReport report;
    int64_t turns = 0;  ///< calls of report()
    int64_t number = 0;
    int64_t urgent = 0;  ///< number of the last report that others wait for
    bool stopping = false;
  };

  void run();
  [[nodiscard]] Result<std::shared_ptr<rendezvous::Store>> join();
  [[nodiscard]] Result<bool> try_join(std::shared_ptr<rendezvous::Store>& store);
  [[nodiscard]] Result<bool> is_newest_pod(rendezvous::Store& store) const;
  [[nodiscard]] Status exchange(rendezvous::Store& store);
  [[nodiscard]] Result<Directive> decide(rendezvous::Store& store, View& view, MonotonicPoint now);
  [[nodiscard]] Status watch_servers(
      rendezvous::Store& store, const std::optional<std::string>& count, MonotonicPoint now
  );
  [[nodiscard]] Status admit_new_pods(rendezvous::Store& store, int64_t asked, MonotonicPoint now);
  [[nodiscard]] Status ask_for_admission(rendezvous::Store& store);
  [[nodiscard]] Status announce(rendezvous::Store& store, const Directive& directive);
  [[nodiscard]] Status announce_marks(rendezvous::Store& store, int64_t marks);
  [[nodiscard]] Result<std::optional<Directive>> read_directive(
      rendezvous::Store& store, View& view
  ) const;
  [[nodiscard]] bool pause();
  [[nodiscard]] std::chrono::milliseconds interval() const;
  [[nodiscard]] bool pause_or_new_report();
  template <class Wakes>
  [[nodiscard]] bool pause_unless(Wakes wakes);
  void publish(const std::function<void(View&)>& change);
  [[nodiscard]] std::string node_key(int64_t node, int64_t restart) const;
  [[nodiscard]] std::string admission_key(int64_t node) const;
  [[nodiscard]] int64_t my_restart() const { return options_->node_restart.value_or(0); }

  const AgentOptions* options_;
  StoreConnector connect_;
  Clock& clock_;
  rendezvous::Incarnation attempt_;
  Guarded<Outgoing> outgoing_;
  Guarded<View> view_;
  UniqueFd changed_;
  std::optional<Coordinator> coordinator_;
  LiveServers servers_;
  std::optional<Directive> announced_;
  std::optional<int64_t> announced_marks_;
  int64_t admissions_seen_ = 0;
  RunningTime running_;
  std::optional<Stillness> agent_;  // once joined
  int64_t beat_ = 0;
  int64_t quiet_exchanges_ = 0;  // since the last change that others wait for
  std::thread thread_;
};

/// Derives the coordinator's options from the agent's.
[[nodiscard]] CoordinatorOptions coordinator_options(const AgentOptions& options);

}  // namespace gnn::agent
