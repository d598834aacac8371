#include "worker/rpc/client.h"

#include "common/guarded.h"
#include "common/host_port.h"
#include "worker/rpc/connection.h"
#include "worker/rpc/deadline.h"
#include "worker/rpc/handshake.h"
#include "worker/rpc/loop_context.h"

#include <asio/connect.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace gnn::rpc {
namespace {

using asio::ip::tcp;
using internal::Connection;
using internal::OutFrame;

// A client's end of its connection: numbers calls, and hands their replies to them.
class Calls final : public Connection {
 public:
  Calls(
      tcp::socket socket,
      Duration peer_timeout,
      std::string peer_name,
      std::shared_ptr<Guarded<PeerStats>> stats,
      std::shared_ptr<std::atomic<bool>> lost
  )
      : Connection(
            // A server that has enough to do may take nothing for a while.
            std::move(socket),
            {.peer_timeout = peer_timeout, .must_take = false},
            std::move(stats)
        ),
        peer_name_(std::move(peer_name)),
        lost_(std::move(lost)) {}

  void call(Call call, Callback callback, MonotonicPoint begin) {
    if (ended_) return callback(tl::make_unexpected(*ended_));
    const uint64_t number = next_call_++;
    auto pending = std::make_shared<Pending>();
    pending->call = std::move(call);
    pending->callback = std::move(callback);
    pending->begin = begin;
    OutFrame frame;
    frame.header = {
        .type = FrameType::Request, .method = pending->call.method, .call = number, .length = 0
    };
    frame.body = std::move(pending->call.request);
    for (const auto part : frame.body) pending->request_bytes += static_cast<int64_t>(part.size());
    // The connection owns the frame, so this lives as long.
    frame.written = [this, pending] {
      pending->written = true;
      if (pending->answered) deliver(*pending);
    };
    pending_.emplace(number, std::move(pending));
    ++stats().lock()->calls_under_way;
    send(std::move(frame));
  }

  // All calls under way, and later ones, fail with this.
  void finish(Error error) {
    close();
    lost_->store(true);
    ended_ = std::move(error);
    reading_.reset();
    stats().lock()->calls_under_way = 0;
    for (const auto& [number, pending] : std::exchange(pending_, {}))
      pending->callback(tl::make_unexpected(*ended_));
  }

 private:
  struct Pending {
    Call call;
    Callback callback;
    MonotonicPoint begin;
    int64_t request_bytes = 0;
    bool written = false;   // as the connection has reported: an answer may have been read before
    bool answered = false;  // wholly
    FrameHeader answer;     // the header of its reply or failure
    std::vector<std::byte> rest;
  };

  Result<Next> on_header(const FrameHeader& header, std::vector<std::span<std::byte>>& into)
      override {
    const auto broken = [](std::string message) {
      return fail(ErrorKind::PeerLost, std::move(message));
    };
    if (header.type == FrameType::Request) return broken("a server has sent a request");
    const auto found = pending_.find(header.call);
    if (found == pending_.end() || found->second->answered)
      return broken("has answered a call that was not made");
    Pending& pending = *found->second;
    pending.answer = header;
    const bool placed = header.type == FrameType::Reply && pending.call.place != nullptr;
    uint64_t room = 0;
    if (header.type == FrameType::Reply && !placed)
      for (const auto part : pending.call.into) room += part.size();
    const uint64_t most =
        header.type == FrameType::Reply
            ? room + static_cast<uint64_t>(std::max<int64_t>(pending.call.most_rest, 0))
            : kMostFailureBytes;
    if (header.length > most) {
      return broken(
          "has sent an answer of " + std::to_string(header.length) + " bytes, expected at most " +
          std::to_string(most)
      );
    }
    reading_ = found->second;
    if (placed) return Next::Body;  // on_filled() gives the places
    uint64_t left = std::min(room, header.length);
    if (header.type == FrameType::Reply) {
      for (const auto part : pending.call.into) {
        const auto bytes = std::min<uint64_t>(left, part.size());
        into.push_back(part.first(bytes));
        left -= bytes;
      }
    }
    pending.rest.resize(header.length - std::min(room, header.length));
    into.emplace_back(pending.rest);
    return Next::Body;
  }

  Status on_filled(int64_t left, std::vector<std::span<std::byte>>& into) override {
    auto places = reading_->call.place(left);
    if (places) {
      into = std::move(*places);
      return {};
    }
    // The error is this call's; to all others the connection is lost.
    const auto pending = std::exchange(reading_, nullptr);
    pending_.erase(pending->answer.call);
    --stats().lock()->calls_under_way;
    lost_->store(true);
    pending->callback(tl::make_unexpected(with_context(places.error(), peer_name_)));
    return fail(ErrorKind::PeerLost, "has sent an answer that is none: " + places.error().message);
  }

  void on_body() override {
    const auto pending = std::exchange(reading_, nullptr);
    pending->answered = true;
    // Else when the write of its request is reported, until when the request's memory is needed.
    if (pending->written) deliver(*pending);
  }

  void deliver(const Pending& of) {
    const auto pending = pending_.at(of.answer.call);
    pending_.erase(pending->answer.call);
    {
      const auto stats = this->stats().lock();
      --stats->calls_under_way;
      MethodStats& method = stats->of(pending->call.method);
      ++method.requests;
      method.payload_sent += pending->request_bytes;
      if (pending->answer.type == FrameType::Reply)
        method.payload_received += static_cast<int64_t>(pending->answer.length);
      method.latency.observe(now() - pending->begin);
    }
    if (pending->answer.type == FrameType::Failure) {
      const Error error = decode_failure(pending->answer.method, pending->rest);
      return pending->callback(tl::make_unexpected(with_context(error, peer_name_)));
    }
    pending->callback(Reply{
        .size = static_cast<int64_t>(pending->answer.length), .rest = std::move(pending->rest)
    });
  }

  // A server closes no connection before its clients do.
  void on_end(End /*end*/, const Error& error) override {
    ++stats().lock()->lost;
    finish(with_context(error, peer_name_));
  }

  const std::string peer_name_;
  const std::shared_ptr<std::atomic<bool>> lost_;
  uint64_t next_call_ = 1;
  std::unordered_map<uint64_t, std::shared_ptr<Pending>> pending_;
  std::shared_ptr<Pending> reading_;  // whose answer comes
  std::optional<Error> ended_;
};

// Connects and shakes hands, on the event loop.
class Joining : public std::enable_shared_from_this<Joining> {
 public:
  using Done = std::function<void(Result<tcp::socket>)>;

  Joining(asio::io_context& io, const ClientOptions& options, const Key& key, Done done)
      : resolver_(io),
        socket_(io),
        handshake_(options.identity, options.node, key, options.role),
        done_(std::move(done)) {}

  // `done` is not called any more.
  void give_up() {
    if (!done_) return;
    done_ = nullptr;
    deadline_->cancel();
    resolver_.cancel();
    std::error_code ignored;
    socket_.close(ignored);
  }

  void start(asio::io_context& io, const HostPort& address, Duration limit) {
    deadline_ = std::make_shared<internal::Deadline>(io, limit, [self = shared_from_this()] {
      self->finish(fail(ErrorKind::PeerLost, self->stage_ + ": no answer in time"));
    });
    deadline_->start();
    stage_ = "its address is not found";
    resolver_.async_resolve(
        address.host,
        std::to_string(address.port),
        [self =
             shared_from_this()](std::error_code error, const tcp::resolver::results_type& found) {
          if (self->goes_on(error)) self->connect(found);
        }
    );
  }

 private:
  bool goes_on(std::error_code error) {
    if (error == asio::error::eof)
      finish(fail(ErrorKind::PeerLost, stage_ + ": it closed the connection"));
    else if (error)
      finish(fail(ErrorKind::PeerLost, stage_ + ": " + error.message()));
    return done_ != nullptr;
  }

  void connect(const tcp::resolver::results_type& found) {
    stage_ = "it takes no connection";
    asio::async_connect(
        socket_,
        found,
        [self = shared_from_this()](std::error_code error, const tcp::endpoint&) {
          if (self->goes_on(error)) self->read_challenge();
        }
    );
  }

  void read_challenge() {
    stage_ = "the handshake fails";
    std::error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    asio::async_read(
        socket_,
        asio::buffer(challenge_),
        [self = shared_from_this()](auto error, size_t) {
          if (self->goes_on(error)) self->prove();
        }
    );
  }

  void prove() {
    const auto proof = handshake_.prove(challenge_);
    if (!proof) return finish(tl::make_unexpected(proof.error()));
    proof_ = *proof;
    asio::async_write(
        socket_,
        asio::buffer(proof_),
        [self = shared_from_this()](auto error, size_t) {
          if (self->goes_on(error)) self->read_verdict();
        }
    );
  }

  void read_verdict() {
    asio::async_read(
        socket_,
        asio::buffer(verdict_),
        [self = shared_from_this()](auto error, size_t) {
          if (self->goes_on(error)) self->judge();
        }
    );
  }

  void judge() {
    if (const auto status = handshake_.check(verdict_); !status)
      return finish(tl::make_unexpected(status.error()));
    finish(std::move(socket_));
  }

  void finish(Result<tcp::socket> result) {
    if (!done_) return;
    const auto done = std::exchange(done_, nullptr);
    deadline_->cancel();
    resolver_.cancel();
    std::error_code ignored;
    if (!result) socket_.close(ignored);
    done(std::move(result));
  }

  tcp::resolver resolver_;
  tcp::socket socket_;
  ClientHandshake handshake_;
  Done done_;
  std::shared_ptr<internal::Deadline> deadline_;
  std::string stage_;
  ChallengeBytes challenge_{};
  ProofBytes proof_{};
  VerdictBytes verdict_{};
};

Status check_options(const ClientOptions& options) {
  GNN_RETURN_IF_ERROR(check_identity(options.identity));
  return internal::check_peer_timeout(options.peer_timeout);
}

}  // namespace

class Client::State {
 public:
  explicit State(std::shared_ptr<EventLoop> event_loop, const ClientOptions& options)
      : loop(std::move(event_loop)) {
    const auto fresh = stats->lock();
    fresh->role = options.role;
    fresh->node = options.node;
  }

  std::shared_ptr<EventLoop> loop;
  std::shared_ptr<Guarded<PeerStats>> stats = std::make_shared<Guarded<PeerStats>>();
  std::shared_ptr<std::atomic<bool>> lost = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<Calls> calls;
};

// Gives up at its end.
class Client::Attempt final : public Connecting {
 public:
  using Done = std::function<void(Result<std::unique_ptr<Client>>)>;

  Attempt(
      std::shared_ptr<EventLoop> loop,
      const ClientOptions& options,
      const HostPort& address,
      const Key& key,
      Done done
  )
      : loop_(std::move(loop)) {
    auto& io = loop_->context().io;
    const std::string name =
        Peer{.role = options.role, .node = options.node, .address = options.address}.name();
    // On the loop's thread, like all that follows. The loop outlives this, and this the callback.
    joining_ = std::make_shared<Joining>(
        io,
        options,
        key,
        [this, options, name, done = std::move(done)](Result<tcp::socket> socket) {
          if (!socket) {
            return done(tl::make_unexpected(with_context(socket.error(), "data server of " + name))
            );
          }
          auto state = std::make_unique<State>(loop_, options);
          state->calls = std::make_shared<Calls>(
              std::move(*socket), options.peer_timeout, name, state->stats, state->lost
          );
          state->calls->start();
          done(std::unique_ptr<Client>(new Client(std::move(state))));
        }
    );
    asio::post(io, [joining = joining_, address, &io, limit = options.peer_timeout] {
      joining->start(io, address, limit);
    });
  }
  ~Attempt() override {
    const auto given_up = std::make_shared<std::promise<void>>();
    asio::post(loop_->context().io, [joining = joining_, given_up] {
      joining->give_up();
      given_up->set_value();
    });
    given_up->get_future().wait();
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

 private:
  const std::shared_ptr<EventLoop> loop_;
  std::shared_ptr<Joining> joining_;
};

Result<std::unique_ptr<Connecting>> Client::begin_connect(
    std::shared_ptr<EventLoop> loop,
    const ClientOptions& options,
    const Key& key,
    std::function<void(Result<std::unique_ptr<Client>>)> done
) {
  GNN_RETURN_IF_ERROR(check_options(options));
  GNN_ASSIGN_OR_RETURN(const HostPort address, parse_host_port(options.address));
  return std::unique_ptr<Connecting>(
      std::make_unique<Attempt>(std::move(loop), options, address, key, std::move(done))
  );
}

Result<std::unique_ptr<Client>> Client::connect(
    std::shared_ptr<EventLoop> loop, const ClientOptions& options, const Key& key
) {
  // Shared: whoever waits may be gone before set_value() returns.
  const auto done = std::make_shared<std::promise<Result<std::unique_ptr<Client>>>>();
  GNN_ASSIGN_OR_RETURN(
      const auto connecting,
      begin_connect(
          std::move(loop),
          options,
          key,
          [done](Result<std::unique_ptr<Client>> client) { done->set_value(std::move(client)); }
      )
  );
  return done->get_future().get();
}

Client::Client(std::unique_ptr<State> state) : state_(std::move(state)) {}

Client::~Client() {
  const auto done = std::make_shared<std::promise<void>>();
  asio::post(state_->loop->context().io, [calls = state_->calls, done] {
    calls->finish(Error{.kind = ErrorKind::Cancelled, .message = "the client is closed"});
    done->set_value();
  });
  done->get_future().wait();
}

void Client::call(Call call, Callback callback) {
  asio::post(
      state_->loop->context().io,
      [calls = state_->calls,
       call = std::move(call),
       callback = std::move(callback),
       begin = MonotonicPoint(std::chrono::steady_clock::now())]() mutable {
        calls->call(std::move(call), std::move(callback), begin);
      }
  );
}

bool Client::lost() const {
  return state_->lost->load();
}

PeerStats Client::stats() const {
  return *state_->stats->lock();
}

}  // namespace gnn::rpc
