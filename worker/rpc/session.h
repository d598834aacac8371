#pragma once

#include "common/guarded.h"
#include "common/thread_pool.h"
#include "worker/rpc/budget.h"
#include "worker/rpc/connection.h"
#include "worker/rpc/server.h"

#include <asio/io_context.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace gnn::rpc::internal {

class Session;

/// A request that has come, and its share of the budgets.
struct Request {
  uint64_t call = 0;
  uint16_t method = 0;
  size_t size = 0;
  // Not a vector, which would touch all of the memory before bytes come.
  std::unique_ptr<std::byte[]> body;
  MonotonicPoint begin;  ///< when all of it was there
  Charge charge;
};

/// The sessions of a server, and which of them may go on: reads a request only if there are bytes
/// left in the budgets, answers the clients in turn, and starts no answer while those that wait to
/// be sent are too many.
/// Threads: the event loop's.
class Sessions : public std::enable_shared_from_this<Sessions> {
 public:
  /// `threads` outlives the last close_all().
  Sessions(ServerOptions options, LateHandler handler, asio::io_context& io, ThreadPool& threads);

  void add(asio::ip::tcp::socket socket, Peer peer, std::shared_ptr<Guarded<PeerStats>> stats);
  /// Has the server as many clients as it may have?
  [[nodiscard]] bool full() const {
    return static_cast<int64_t>(sessions_.size()) >= options_.most_clients;
  }
  /// Of any thread.
  [[nodiscard]] int64_t size() const { return num_sessions_.load(std::memory_order_relaxed); }
  /// Closes all; handlers that run may end later, and late answers are dropped.
  void close_all();

 private:
  friend class Session;
  friend class ::gnn::rpc::Responder::Target;

  // May this session read a request that takes so many bytes? If not, it waits and is resumed.
  bool admits(const std::shared_ptr<Session>& session, int64_t bytes);
  void has_requests(const std::shared_ptr<Session>& session);
  void answer_in_turn();
  void answer(const std::shared_ptr<Session>& session, Request request);
  // There may be bytes again for those that wait for them.
  void go_on();
  void remove(const std::shared_ptr<Session>& session);

  const ServerOptions options_;
  const LateHandler handler_;
  // The loop for those who may come when it is gone: null from close_all() on.
  const std::shared_ptr<Guarded<asio::io_context*>> gate_;
  ThreadPool& threads_;
  const std::shared_ptr<Budget> budget_;
  std::set<std::shared_ptr<Session>> sessions_;
  std::deque<std::shared_ptr<Session>> waiting_;  // for bytes of all, first come, first served
  std::deque<std::shared_ptr<Session>> in_turn_;  // have requests that may be answered
  int64_t running_ = 0;                           // handlers that have not returned
  uint64_t last_number_ = 0;                      // of a session
  std::atomic<int64_t> num_sessions_ = 0;         // only its number counts: relaxed
  bool closed_ = false;
};

/// A client's connection.
/// Threads: the event loop's.
class Session final : public Connection {
 public:
  Session(
      std::shared_ptr<Sessions> sessions,
      asio::ip::tcp::socket socket,
      Peer peer,
      std::shared_ptr<Guarded<PeerStats>> stats
  );

 private:
  friend class Sessions;
  friend class ::gnn::rpc::Responder::Target;

  Result<Next> on_header(const FrameHeader& header, std::vector<std::span<std::byte>>& into)
      override;
  void on_body() override;
  void on_written() override;
  void on_end(End end, const Error& error) override;

  // Nothing of it is wanted any more.
  void forget() {
    reading_.reset();
    requests_.clear();
    life_.reset();
  }
  void answer(Request request, Result<Answer> result);
  [[nodiscard]] std::shared_ptr<Session> self() {
    return std::static_pointer_cast<Session>(shared_from_this());
  }

  const std::shared_ptr<Sessions> sessions_;
  const Peer peer_;
  uint64_t number_ = 0;
  std::shared_ptr<const bool> life_ = std::make_shared<const bool>(true);  // null once it is closed
  const std::shared_ptr<Budget> budget_;
  std::optional<Request> reading_;
  std::deque<Request> requests_;  // not given to a handler yet
  bool is_waiting_ = false;       // in Sessions::waiting_
  bool is_in_turn_ = false;       // in Sessions::in_turn_
};

}  // namespace gnn::rpc::internal
