#pragma once

#include "common/clock.h"
#include "common/guarded.h"
#include "common/result.h"
#include "common/running_time.h"
#include "worker/agent/messages.h"
#include "worker/agent/server_options.h"
#include "worker/agent/stillness.h"
#include "worker/agent/store_link.h"
#include "worker/agent/unique_fd.h"
#include "worker/rendezvous/store.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace gnn::agent {

/// What a server needs of the world to be found.
struct ServerDoors {
  StoreConnector connect;
  /// The address of this machine under which others reach it. Asked after each connection.
  std::function<Result<std::string>()> own_address;
  /// Called with the servers that take part, whenever they change, on the link's thread; may be empty.
  std::function<void(const std::vector<LiveServer>& servers)> on_servers{};
};

/// A sampling server's exchange with the store of node 0, on its own thread: writes that it serves, and
/// reads which servers take part and whether all is done. A server outlives attempts: where the store
/// is away, it looks for the next one for ever. It beats only while report() is called.
class ServerLink {
 public:
  /// What others are told.
  struct State {
    uint16_t port = 0;  ///< 0: it does not listen yet, and is not announced
    bool leaving = false;

    friend bool operator==(const State&, const State&) = default;
  };
  struct View {
    bool joined = false;  ///< the store is there now
    bool done = false;    ///< all workers are done
    /// Why this pod must end: another one took its place. Nothing changes after that.
    std::optional<Error> replaced{};
    int64_t posted = 0;  ///< number of the latest report() that all could read
  };

  /// `options` and `clock` outlive the link.
  ServerLink(const ServerOptions& options, ServerDoors doors, Clock& clock);
  ~ServerLink();
  ServerLink(const ServerLink&) = delete;
  ServerLink& operator=(const ServerLink&) = delete;

  /// The server calls it in every turn; returns the number of its state.
  int64_t report(State state);
  [[nodiscard]] View view();
  /// Readable when the view has changed.
  [[nodiscard]] int changed_fd() const { return changed_.get(); }
  void clear_changed() const;

 private:
  struct Outgoing {
    State state{};
    int64_t turns = 0;  ///< calls of report()
    int64_t number = 0;
    bool stopping = false;
  };

  void run();
  [[nodiscard]] bool pause();
  [[nodiscard]] Status join();
  [[nodiscard]] Status exchange();
  [[nodiscard]] Status announce(const Outgoing& outgoing, const std::optional<std::string>& count);
  void follow(const Directive& directive);
  void publish(const std::function<void(View&)>& change);
  void explain(const Error& error);

  const ServerOptions* options_;
  ServerDoors doors_;
  Clock& clock_;
  Guarded<Outgoing> outgoing_;
  Guarded<View> view_;
  UniqueFd changed_;
  RunningTime running_;
  Stillness loop_;
  std::shared_ptr<rendezvous::Store> store_;  // null while it is away
  std::string host_;
  std::optional<int64_t> attempt_;  // of the store's host
  std::vector<LiveServer> servers_;
  std::string said_;
  int64_t beat_ = 0;
  std::thread thread_;
};

}  // namespace gnn::agent
