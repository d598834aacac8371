#pragma once

#include "common/clock.h"
#include "common/guarded.h"
#include "common/result.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/coordinator.h"
#include "worker/agent/messages.h"
#include "worker/agent/unique_fd.h"
#include "worker/distributed/comm/store.h"

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

/// Hosts (node 0) or joins the store; waits at most `timeout`.
using StoreConnector =
    std::function<Result<std::shared_ptr<comm::Store>>(std::chrono::milliseconds timeout)>;

/// An agent's exchange with the store, on a thread of its own, so that a slow store never stops
/// supervision: writes this node's report (each time with a new beat), reads node 0's directive. On
/// node 0 it also reads all reports and lets the coordinator decide.
class StoreLink {
 public:
  struct View {
    bool joined = false;
    std::optional<Directive> directive{};
    std::optional<Error> lost{
    };  ///< The store, or the wait for it, is over; nothing changes any more.
    int64_t posted = 0;   ///< The latest report() that all can read, by number.
    int64_t refused = 0;  ///< By the handshake; known on node 0.
    std::vector<std::optional<NodeReport>> nodes{};  ///< Known on node 0.
  };

  /// `options` and `clock` outlive the link.
  StoreLink(const AgentOptions& options, StoreConnector connect, Clock& clock);
  ~StoreLink();
  StoreLink(const StoreLink&) = delete;
  StoreLink& operator=(const StoreLink&) = delete;

  /// Hands over the next report; returns its number. The beat is set by the link.
  int64_t report(NodeReport report);
  [[nodiscard]] View view();
  /// Becomes readable when the view changed.
  [[nodiscard]] int changed_fd() const { return changed_.get(); }
  void clear_changed() const;

 private:
  struct Outgoing {
    NodeReport report;
    int64_t number = 0;
    int64_t urgent = 0;  // the number of the last report that others wait for
    bool stopping = false;
  };

  void run();
  [[nodiscard]] Result<std::shared_ptr<comm::Store>> join();
  [[nodiscard]] Result<bool> try_join(std::shared_ptr<comm::Store>& store);
  [[nodiscard]] Status exchange(comm::Store& store);
  [[nodiscard]] Result<Directive> decide(comm::Store& store, View& view);
  [[nodiscard]] Result<std::optional<Directive>> read_directive(comm::Store& store) const;
  [[nodiscard]] bool pause();
  [[nodiscard]] std::chrono::milliseconds tick() const;
  [[nodiscard]] bool pause_or_new_report();
  template <class Wakes>
  [[nodiscard]] bool pause_unless(Wakes wakes);
  void publish(const std::function<void(View&)>& change);
  [[nodiscard]] std::string node_key(int64_t node) const;

  const AgentOptions* options_;
  StoreConnector connect_;
  Clock& clock_;
  comm::Incarnation attempt_;
  Guarded<Outgoing> outgoing_;
  Guarded<View> view_;
  UniqueFd changed_;
  std::optional<Coordinator> coordinator_;
  std::optional<Directive> announced_;
  int64_t beat_ = 0;
  int64_t quiet_exchanges_ = 0;  // since the last change that anybody waited for
  std::thread thread_;
};

/// The coordinator's options that follow from the agent's.
[[nodiscard]] CoordinatorOptions coordinator_options(const AgentOptions& options);

}  // namespace gnn::agent
