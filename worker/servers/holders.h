#pragma once

#include "common/clock.h"
#include "common/contract.h"
#include "common/result.h"
#include "worker/rpc/client.h"
#include "worker/rpc/event_loop.h"
#include "worker/rpc/identity.h"
#include "worker/rpc/key.h"
#include "worker/servers/batch_wire.h"
#include "worker/servers/directory.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gnn::servers {

struct HoldersOptions {
  rpc::Identity identity;  ///< of this process: a client's or a server's
  int64_t partitions = 1;
  /// What all servers must serve, see Hello; empty: what the first one does that answers.
  std::string description{};
  /// A server whose silence lasts this long is lost.
  Duration peer_timeout = std::chrono::seconds(contract::kDefaultPeerSeconds);
  /// How long a question waits while no live server holds its part; or goes to one server after the
  /// other, if each is lost before it answers.
  Duration server_timeout = std::chrono::seconds(300);
  /// A server that lives and owes an answer for so long is left for another holder, if there is one.
  Duration answer_timeout = Duration::max();
};

/// What was asked of servers since the start.
struct HoldersStats {
  int64_t batches = 0;    ///< that have come
  int64_t bytes = 0;      ///< of their answers
  int64_t under_way = 0;  ///< questions without an answer, now
  int64_t failovers = 0;  ///< questions that went to another server than the first, which was lost
  /// Questions wait, and some part has no live holder: what is not blamed on this process.
  bool waiting = false;
  /// open() has waited for server_timeout, or count_giving_up() was called.
  bool gave_up = false;
  BatchTimes times{};       ///< of the batches on servers, summed
  double wire_seconds = 0;  ///< the rest of the time from a batch's question to its answer
};

/// The connections of a process to the servers of its job. Each live one is connected to as soon as
/// the directory names it, and asked who it is before anything else; a question whose server is lost,
/// or leaves, goes to another holder of the same part, or waits for one.
/// Threads: safe from any thread but the event loop's.
class Holders {
 public:
  /// One thread of its own.
  /// Errors: Configuration naming the option.
  [[nodiscard]] static Result<std::shared_ptr<Holders>> create(
      std::shared_ptr<rpc::EventLoop> loop,
      const HoldersOptions& options,
      const rpc::Key& key,
      std::shared_ptr<Directory> directory
  );
  /// Calls close().
  ~Holders();
  Holders(const Holders&) = delete;
  Holders& operator=(const Holders&) = delete;

  /// Waits until every part (a server's own excepted) has a holder that says what it serves, and each
  /// other server that is listed by then has said it or does not answer; returns the description. A
  /// server that comes later and serves something else is not asked.
  /// Errors: Data if two servers serve different data, naming both; PeerLost after server_timeout,
  /// naming the part and its servers; Configuration if all holders of a part have another key or version.
  [[nodiscard]] Result<std::string> open();

  /// What to send to a server; called anew for each one that is asked, on any thread.
  using MakeCall = std::function<rpc::Call()>;
  struct Answer {
    rpc::Reply reply;
    std::string server;  ///< its name: "server 1 (10.0.0.7:29600)"
  };
  using Callback = std::function<void(Result<Answer>)>;
  struct Question {
    std::string what{};  ///< is asked for, as messages name it
    int64_t part = -1;   ///< that the server must hold; -1: any
    int64_t turn = 0;
    MakeCall make_call;
    Callback callback;  ///< called once, see rpc::Callback
  };
  /// Asks the holder of a part whose turn it is: the (turn mod n)-th of the n live ones, or the next
  /// that is connected.
  /// Errors, by the callback: PeerLost naming the part and its servers if none was live for
  /// server_timeout, or naming the question and its servers if for as long each of them, three at
  /// least, was lost with it; what a server answered, with its name before it; Cancelled once this is
  /// closed.
  void ask(Question question);

  /// Ends all connections; questions fail with Cancelled. Whoever made this calls it before it lets go,
  /// as the last reference may go on the event loop's thread, where it may not be called.
  void close();

  [[nodiscard]] HoldersStats stats() const;
  /// Of each server that is connected, for counts by method.
  [[nodiscard]] std::vector<rpc::PeerStats> peer_stats() const;
  /// Says in stats() that this process ends because no server answers.
  void count_giving_up();
  /// Adds a batch that has come to stats().
  void count_batch(int64_t bytes, const BatchTimes& times, double seconds);

 private:
  class State;
  explicit Holders(std::shared_ptr<State> state) : state_(std::move(state)) {}
  const std::shared_ptr<State> state_;
};

}  // namespace gnn::servers
