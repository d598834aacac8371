#pragma once

#include "common/clock.h"
#include "common/contract.h"
#include "common/host_port.h"
#include "common/result.h"
#include "worker/rpc/event_loop.h"
#include "worker/rpc/identity.h"
#include "worker/rpc/key.h"
#include "worker/rpc/stats.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace gnn::rpc {

/// An answer: the segments one after the other. They are written from where they are, such as a
/// mapped file, without a copy. The thread of the event loop reads them, so what may have to come
/// from a slow disk first should be touched by the handler.
struct Answer {
  std::vector<std::span<const std::byte>> segments{};
  /// Keeps the segments' memory until they are written, or the connection is gone.
  std::shared_ptr<const void> owner{};
  /// Whether its bytes count against client_bytes and total_bytes; if not, the handler bounds them.
  bool counts = true;
};

/// Answers a request; `request` is valid during the call alone. An error goes to the caller with its
/// kind and message.
/// Threads: called by several threads at once.
using Handler = std::function<
    Result<Answer>(const Peer& peer, uint16_t method, std::span<const std::byte> request)>;

/// Where the answer to a request goes. Of all copies the first answer counts; if the last copy goes
/// without one, the caller gets Internal. It may outlive the server.
/// Threads: safe from any thread.
class Responder {
 public:
  class Target;
  explicit Responder(std::shared_ptr<Target> target) : target_(std::move(target)) {}

  void operator()(Result<Answer> answer) const;
  /// False once the client is gone.
  [[nodiscard]] bool wanted() const;
  /// The number of the client's connection, which no other of this server has or had.
  [[nodiscard]] uint64_t connection() const;

 private:
  std::shared_ptr<Target> target_;
};

/// As Handler, and may answer later, from another thread. How many requests wait so is bounded by the
/// bytes that a client may have in memory alone (512 each, and what they are long).
using LateHandler = std::function<
    void(const Peer& peer, uint16_t method, std::span<const std::byte> request, Responder respond)>;

struct ServerOptions {
  HostPort address;
  Identity identity;
  /// Threads that run the handler.
  int64_t num_threads = 1;
  /// A client whose silence lasts this long is lost.
  Duration peer_timeout = std::chrono::seconds(contract::kDefaultPeerSeconds);
  /// Clients at a time; further connections are closed.
  int64_t most_clients = 4096;
  int64_t most_request_bytes = int64_t{32} << 20;
  int64_t most_answer_bytes = int64_t{1} << 30;
  /// Requests that have come and answers that have not gone, of a client and of all. A server that
  /// has as much stops reading until some has gone: the clients wait.
  int64_t client_bytes = int64_t{64} << 20;
  int64_t total_bytes = int64_t{256} << 20;
};

/// Answers the requests of clients that hold the job's key and are, where the server is a rank, ranks
/// of the same attempt and round. A server with Role::Server answers clients and servers of any:
/// whether an attempt is over is for its handler to see.
/// Others get no further than the handshake: they have 3 s and 64 bytes, and of more than 64 of
/// them at once the oldest go, of the address that most come from.
///
/// Memory: at most total_bytes, plus a request and an answer for each thread, plus some KiB for
/// each connection, plus answers that do not count. A client that sends what is against the protocol,
/// falls silent or takes no bytes of its answers for peer_timeout is dropped, which is logged with its
/// node and address.
/// Threads: safe from any thread.
class Server {
 public:
  /// Listens, and serves until it is destroyed.
  /// Errors: Network if the address cannot be listened on; Configuration if options are out of
  /// their range.
  [[nodiscard]] static Result<std::unique_ptr<Server>> start(
      std::shared_ptr<EventLoop> loop, ServerOptions options, const Key& key, Handler handler
  );
  [[nodiscard]] static Result<std::unique_ptr<Server>> start_late(
      std::shared_ptr<EventLoop> loop, ServerOptions options, const Key& key, LateHandler handler
  );
  /// Closes all connections, and waits for handlers that are running. Late answers are dropped.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// The port it listens on.
  [[nodiscard]] uint16_t port() const;
  /// One entry for each role and node from which a client has come. Of more than most_clients,
  /// nodes without a connection are forgotten.
  [[nodiscard]] std::vector<PeerStats> stats() const;
  /// Connections that are open now.
  [[nodiscard]] int64_t num_clients() const;
  /// How many connections were closed in their handshake: without the key, of another role, attempt or
  /// round, too slow or too many.
  [[nodiscard]] int64_t refused() const;

 private:
  class State;
  Server(std::shared_ptr<EventLoop> loop, std::shared_ptr<State> state);
  std::shared_ptr<EventLoop> loop_;
  std::shared_ptr<State> state_;
};

}  // namespace gnn::rpc
