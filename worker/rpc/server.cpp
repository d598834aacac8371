#include "worker/rpc/server.h"

#include "common/guarded.h"
#include "common/log.h"
#include "common/thread_pool.h"
#include "worker/rpc/deadline.h"
#include "worker/rpc/handshake.h"
#include "worker/rpc/loop_context.h"
#include "worker/rpc/session.h"

#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace gnn::rpc {
namespace {

using asio::ip::tcp;

// Clients that have not proved who they are yet.
constexpr size_t kMostStrangers = 64;
constexpr const char* kTooManyClients = "there are too many clients";
constexpr auto kHandshakeTime = std::chrono::seconds(3);
// After an accept that failed, as for want of file descriptors.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

// A new connection in its handshake. Event loop only.
class Stranger : public std::enable_shared_from_this<Stranger> {
 public:
  struct Hooks {
    // Why it is not welcome; before it knows itself.
    std::function<void(const std::string& address, const std::string& reason)> refused;
    // Its last word: the socket if it is welcome.
    std::function<void(std::optional<tcp::socket> socket, const Peer& peer)> gone;
  };

  Stranger(tcp::socket socket, ServerHandshake handshake, Hooks hooks)
      : socket_(std::move(socket)), handshake_(std::move(handshake)), hooks_(std::move(hooks)) {
    std::error_code ignored;
    const auto remote = socket_.remote_endpoint(ignored);
    host_ = remote.address();
    address_ = format_host_port(host_.to_string(), remote.port());
  }

  void start(asio::io_context& io) {
    std::error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    deadline_ = std::make_shared<internal::Deadline>(
        io, kHandshakeTime, [self = shared_from_this()] { self->refuse("it took too long"); }
    );
    deadline_->start();
    asio::async_write(
        socket_,
        asio::buffer(handshake_.challenge()),
        [self = shared_from_this()](auto error, size_t) {
          if (self->goes_on(error)) self->read_proof();
        }
    );
  }

  void refuse(const std::string& reason) {
    if (!open_) return;
    hooks_.refused(address_, reason);
    end(std::nullopt);
  }
  [[nodiscard]] const asio::ip::address& host() const { return host_; }
  // Without a word.
  void close() {
    open_ = false;
    deadline_->cancel();
    std::error_code ignored;
    socket_.close(ignored);
  }

 private:
  bool goes_on(std::error_code error) {
    if (error) refuse(error.message());
    return open_;
  }

  void read_proof() {
    asio::async_read(
        socket_,
        asio::buffer(proof_),
        [self = shared_from_this()](auto error, size_t) {
          if (self->goes_on(error)) self->judge();
        }
    );
  }

  void judge() {
    judgement_ = handshake_.judge(proof_);
    if (!judgement_.welcome) hooks_.refused(address_, judgement_.reason);
    asio::async_write(
        socket_,
        asio::buffer(judgement_.verdict),
        [self = shared_from_this()](std::error_code error, size_t) {
          if (!self->open_) return;
          if (error || !self->judgement_.welcome) return self->end(std::nullopt);
          self->end(std::move(self->socket_));
        }
    );
  }

  void end(std::optional<tcp::socket> socket) {
    close();
    Peer peer = judgement_.peer;
    peer.address = address_;
    hooks_.gone(std::move(socket), peer);
  }

  tcp::socket socket_;
  ServerHandshake handshake_;
  Hooks hooks_;
  bool open_ = true;
  asio::ip::address host_;
  std::string address_;
  std::shared_ptr<internal::Deadline> deadline_;
  ProofBytes proof_{};
  ServerHandshake::Judgement judgement_{};
};

Result<tcp::acceptor> listen(asio::io_context& io, const HostPort& address) {
  const auto failed = [&](const std::error_code& error) {
    return fail(
        ErrorKind::Network,
        "can't listen on " + format_host_port(address.host, address.port) + ": " + error.message()
    );
  };
  std::error_code error;
  tcp::endpoint endpoint(tcp::v6(), static_cast<uint16_t>(address.port));
  if (!address.host.empty()) {
    const auto found = tcp::resolver(io).resolve(
        address.host, std::to_string(address.port), tcp::resolver::passive, error
    );
    if (error) return failed(error);
    endpoint = found.begin()->endpoint();
  }
  tcp::acceptor acceptor(io);
  acceptor.open(endpoint.protocol(), error);
  if (error && address.host.empty()) {  // a kernel without IPv6
    endpoint = tcp::endpoint(tcp::v4(), endpoint.port());
    acceptor.open(endpoint.protocol(), error);
  }
  if (error) return failed(error);
  acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (address.host.empty() && endpoint.protocol() == tcp::v6())
    acceptor.set_option(asio::ip::v6_only(false), error);
  acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (error) return failed(error);
  return acceptor;
}

Status check_options(const ServerOptions& options) {
  GNN_RETURN_IF_ERROR(check_identity(options.identity));
  GNN_RETURN_IF_ERROR(internal::check_peer_timeout(options.peer_timeout));
  if (options.num_threads < 1)
    return fail(ErrorKind::Configuration, "num_threads of a data server must be at least 1");
  if (options.most_request_bytes < 0 || options.client_bytes < options.most_request_bytes ||
      options.total_bytes < options.client_bytes) {
    return fail(
        ErrorKind::Configuration,
        "expected 0 <= most_request_bytes <= client_bytes <= total_bytes of a data server, found " +
            std::to_string(options.most_request_bytes) + ", " +
            std::to_string(options.client_bytes) + ", " + std::to_string(options.total_bytes)
    );
  }
  return {};
}

}  // namespace

class Server::State : public std::enable_shared_from_this<Server::State> {
 public:
  State(
      EventLoop& loop,
      tcp::acceptor acceptor,
      ServerOptions options,
      const Key& key,
      LateHandler handler
  )
      : io_(loop.context().io),
        acceptor_(std::move(acceptor)),
        pause_(io_),
        identity_(options.identity),
        most_clients_(options.most_clients),
        key_(key),
        port_(acceptor_.local_endpoint().port()),
        threads_(std::make_unique<ThreadPool>(static_cast<size_t>(options.num_threads))),
        sessions_(std::make_shared<internal::Sessions>(
            std::move(options), std::move(handler), io_, *threads_
        )) {}

  void start() {
    asio::post(io_, [self = shared_from_this()] { self->accept(); });
  }

  // Not on the event loop: waits for it and for the handlers.
  void close() {
    const auto closed = std::make_shared<std::promise<void>>();
    asio::post(io_, [self = shared_from_this(), closed] {
      std::error_code ignored;
      self->acceptor_.close(ignored);
      self->pause_.cancel();
      for (const auto& stranger : std::exchange(self->strangers_, {})) stranger->close();
      self->sessions_->close_all();
      closed->set_value();
    });
    closed->get_future().wait();
    threads_.reset();
  }

  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] int64_t num_clients() const { return sessions_->size(); }
  [[nodiscard]] int64_t refused() const { return refused_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::vector<PeerStats> stats() {
    std::vector<PeerStats> all;
    const auto nodes = nodes_.lock();
    for (const auto& [node, each] : *nodes) all.push_back(*each->lock());
    return all;
  }

 private:
  void accept() {
    acceptor_.async_accept([self = shared_from_this()](std::error_code error, tcp::socket socket) {
      if (!self->acceptor_.is_open()) return;
      if (error) return self->accept_later();
      self->meet(std::move(socket));
      self->accept();
    });
  }

  void accept_later() {
    pause_.expires_after(kAcceptPause);
    pause_.async_wait([self = shared_from_this()](std::error_code) {
      if (self->acceptor_.is_open()) self->accept();
    });
  }

  void meet(tcp::socket socket) {
    if (sessions_->full()) return count_refused("a new one", kTooManyClients);
    auto handshake = ServerHandshake::begin(identity_, key_);
    if (!handshake) return count_refused("a new one", handshake.error().message);
    if (strangers_.size() >= kMostStrangers)
      one_too_many()->refuse("too many connections have not shown the job's key");
    const auto place = strangers_.insert(strangers_.end(), nullptr);
    const auto gone = [this, place](std::optional<tcp::socket> accepted, const Peer& peer) {
      strangers_.erase(place);
      if (!accepted) return;
      // Others may have come to an end of their handshakes first.
      if (sessions_->full()) return count_refused(peer.address, kTooManyClients);
      sessions_->add(*std::move(accepted), peer, stats_of(peer));
    };
    const auto refused = [this](const std::string& address, const std::string& reason) {
      count_refused(address, reason);
    };
    *place = std::make_shared<Stranger>(
        std::move(socket), std::move(*handshake), Stranger::Hooks{.refused = refused, .gone = gone}
    );
    (*place)->start(io_);
  }

  // The oldest of the host that has most of them: whoever opens many keeps nobody else out.
  [[nodiscard]] std::shared_ptr<Stranger> one_too_many() const {
    std::map<asio::ip::address, size_t> counts;
    for (const auto& stranger : strangers_) ++counts[stranger->host()];
    return *std::ranges::max_element(strangers_, {}, [&](const auto& stranger) {
      return counts.at(stranger->host());
    });
  }

  void count_refused(const std::string& address, const std::string& reason) {
    refused_.fetch_add(1, std::memory_order_relaxed);  // only its number counts
    log_debug(
        "a connection to the data port is refused", {{"address", address}, {"reason", reason}}
    );
  }

  std::shared_ptr<Guarded<PeerStats>> stats_of(const Peer& peer) {
    const auto node = std::pair(peer.role, peer.node);
    const auto nodes = nodes_.lock();
    // A client may say that it is any node: as many are kept as there are clients, or may be. Those that
    // nobody else holds have no connection.
    if (!nodes->contains(node) && static_cast<int64_t>(nodes->size()) >= most_clients_) {
      const auto gone = std::ranges::find_if(*nodes, [](const auto& each) {
        return each.second.use_count() == 1;
      });
      if (gone != nodes->end()) nodes->erase(gone);
    }
    auto& stats = (*nodes)[node];
    if (stats == nullptr) {
      stats = std::make_shared<Guarded<PeerStats>>();
      const auto fresh = stats->lock();
      fresh->role = peer.role;
      fresh->node = peer.node;
    }
    return stats;
  }

  asio::io_context& io_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  const Identity identity_;
  const int64_t most_clients_;
  const Key key_;
  const uint16_t port_;
  std::list<std::shared_ptr<Stranger>> strangers_;  // the oldest first
  Guarded<std::map<std::pair<Role, int64_t>, std::shared_ptr<Guarded<PeerStats>>>> nodes_;
  std::atomic<int64_t> refused_{0};
  std::unique_ptr<ThreadPool> threads_;
  std::shared_ptr<internal::Sessions> sessions_;
};

Result<std::unique_ptr<Server>> Server::start(
    std::shared_ptr<EventLoop> loop, ServerOptions options, const Key& key, Handler handler
) {
  return start_late(
      std::move(loop),
      std::move(options),
      key,
      [handler = std::move(handler
       )](const Peer& peer,
          uint16_t method,
          std::span<const std::byte> request,
          const Responder& respond) { respond(handler(peer, method, request)); }
  );
}

Result<std::unique_ptr<Server>> Server::start_late(
    std::shared_ptr<EventLoop> loop, ServerOptions options, const Key& key, LateHandler handler
) {
  GNN_RETURN_IF_ERROR(check_options(options));
  GNN_ASSIGN_OR_RETURN(tcp::acceptor acceptor, listen(loop->context().io, options.address));
  auto state = std::make_shared<State>(
      *loop, std::move(acceptor), std::move(options), key, std::move(handler)
  );
  state->start();
  return std::unique_ptr<Server>(new Server(std::move(loop), std::move(state)));
}

Server::Server(std::shared_ptr<EventLoop> loop, std::shared_ptr<State> state)
    : loop_(std::move(loop)), state_(std::move(state)) {}

Server::~Server() {
  state_->close();
}

uint16_t Server::port() const {
  return state_->port();
}
std::vector<PeerStats> Server::stats() const {
  return state_->stats();
}
int64_t Server::num_clients() const {
  return state_->num_clients();
}
int64_t Server::refused() const {
  return state_->refused();
}

}  // namespace gnn::rpc
