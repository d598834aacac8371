#include "worker/rpc/session.h"

#include "common/log.h"

#include <asio/post.hpp>

#include <exception>
#include <new>
#include <string>
#include <utility>

namespace gnn::rpc::internal {
namespace {

// What a request takes besides its body.
constexpr int64_t kRequestOverhead = 512;

// What an answer's frame keeps until it is written.
struct AnswerMemory {
  std::shared_ptr<const void> owner;
  std::string failure;
  Charge charge;
};

Result<Answer> call_handler(const Handler& handler, const Peer& peer, const Request& request) {
  try {
    return handler(peer, request.method, {request.body.get(), request.size});
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::OutOfMemory, "no memory for the answer");
  } catch (const std::exception& error) {
    return fail(ErrorKind::Internal, error.what());
  }
}

}  // namespace

// ---- Sessions

Sessions::Sessions(
    ServerOptions options, Handler handler, asio::io_context& io, ThreadPool& threads
)
    : options_(std::move(options)),
      handler_(std::move(handler)),
      io_(io),
      threads_(threads),
      budget_(std::make_shared<Budget>(options_.total_bytes)) {}

void Sessions::add(
    asio::ip::tcp::socket socket, Peer peer, std::shared_ptr<Guarded<PeerStats>> stats
) {
  if (closed_) return;
  auto session = std::make_shared<Session>(
      shared_from_this(), std::move(socket), std::move(peer), std::move(stats)
  );
  sessions_.insert(session);
  session->start();
}

void Sessions::close_all() {
  closed_ = true;
  waiting_.clear();
  in_turn_.clear();
  for (const auto& session : std::exchange(sessions_, {})) {
    session->close();
    session->requests_.clear();
  }
}

bool Sessions::admits(const std::shared_ptr<Session>& session, int64_t bytes) {
  // Its own answers go first: on_written() resumes it. Others do not wait for them.
  if (!session->budget_->has_room(bytes)) {
    if (session->is_waiting_) std::erase(waiting_, session);
    session->is_waiting_ = false;
    return false;
  }
  const bool first = waiting_.empty() || waiting_.front() == session;
  const bool admitted = first && budget_->has_room(bytes);
  if (admitted && session->is_waiting_) waiting_.pop_front();
  if (!admitted && !session->is_waiting_) waiting_.push_back(session);
  session->is_waiting_ = !admitted;
  return admitted;
}

void Sessions::has_requests(const std::shared_ptr<Session>& session) {
  if (session->is_in_turn_ || session->requests_.empty()) return;
  session->is_in_turn_ = true;
  in_turn_.push_back(session);
  answer_in_turn();
}

void Sessions::answer_in_turn() {
  while (!closed_ && running_ < options_.num_threads && !in_turn_.empty() &&
         budget_->takes_answers()) {
    const auto session = std::move(in_turn_.front());
    in_turn_.pop_front();
    session->is_in_turn_ = false;
    // One that must take its answers first comes again by on_written().
    if (session->closed() || !session->budget_->takes_answers()) continue;
    Request request = std::move(session->requests_.front());
    session->requests_.pop_front();
    if (!session->requests_.empty()) {
      session->is_in_turn_ = true;
      in_turn_.push_back(session);
    }
    answer(session, std::move(request));
  }
}

void Sessions::answer(const std::shared_ptr<Session>& session, Request request) {
  ++running_;
  // The pool's tasks are copied.
  auto shared = std::make_shared<Request>(std::move(request));
  std::ignore = threads_.submit([self = shared_from_this(), session, shared] {
    auto result = call_handler(self->handler_, session->peer_, *shared);
    asio::post(self->io_, [self, session, shared, result = std::move(result)]() mutable {
      --self->running_;
      session->answer(std::move(*shared), std::move(result));
      self->go_on();
    });
  });
}

void Sessions::go_on() {
  answer_in_turn();
  while (!waiting_.empty()) {
    const auto first = waiting_.front();
    if (first->closed()) {
      waiting_.pop_front();
      continue;
    }
    first->resume();
    if (!waiting_.empty() && waiting_.front() == first) return;  // it still waits
  }
}

void Sessions::remove(const std::shared_ptr<Session>& session) {
  session->reading_.reset();
  session->requests_.clear();
  sessions_.erase(session);
  go_on();
}

// ---- Session

Session::Session(
    std::shared_ptr<Sessions> sessions,
    asio::ip::tcp::socket socket,
    Peer peer,
    std::shared_ptr<Guarded<PeerStats>> stats
)
    : Connection(
          // A client takes its replies as they come.
          std::move(socket),
          {.peer_timeout = sessions->options_.peer_timeout, .must_take = true},
          std::move(stats)
      ),
      sessions_(std::move(sessions)),
      peer_(std::move(peer)),
      budget_(std::make_shared<Budget>(sessions_->options_.client_bytes)) {}

Result<Connection::Next> Session::on_header(
    const FrameHeader& header, std::vector<std::span<std::byte>>& into
) {
  if (header.type != FrameType::Request)
    return fail(ErrorKind::PeerLost, "a client has sent a frame of a server");
  const auto most = static_cast<uint64_t>(sessions_->options_.most_request_bytes);
  if (header.length > most) {
    return fail(
        ErrorKind::PeerLost,
        "has sent a request of " + std::to_string(header.length) + " bytes, expected at most " +
            std::to_string(most)
    );
  }
  const int64_t bytes = static_cast<int64_t>(header.length) + kRequestOverhead;
  if (!sessions_->admits(self(), bytes)) return Next::Wait;
  reading_.emplace(Request{
      .call = header.call,
      .method = header.method,
      .size = header.length,
      .body = std::make_unique_for_overwrite<std::byte[]>(header.length),
      .begin = {},
      .charge = Charge(budget_, sessions_->budget_, bytes)
  });
  into.emplace_back(reading_->body.get(), header.length);
  return Next::Body;
}

void Session::on_body() {
  reading_->begin = now();
  requests_.push_back(std::move(*reading_));
  reading_.reset();
  sessions_->has_requests(self());
}

void Session::on_written() {
  sessions_->has_requests(self());
  resume();
  sessions_->go_on();
}

void Session::on_end(End end, const Error& error) {
  if (end == End::Lost) ++stats().lock()->lost;
  log(end == End::Ended ? LogLevel::Debug : LogLevel::Warning,
      "a data client is gone",
      {{"node", peer_.node},
       {"local_rank", peer_.rank},
       {"address", peer_.address},
       {"error", error.message}});
  sessions_->remove(self());
}

void Session::answer(Request request, Result<Answer> result) {
  if (closed()) return;
  int64_t bytes = 0;
  if (result)
    for (const auto segment : result->segments) bytes += static_cast<int64_t>(segment.size());
  if (result && bytes > sessions_->options_.most_answer_bytes) {
    result = fail(
        ErrorKind::Internal,
        "the answer has " + std::to_string(bytes) + " bytes, expected at most " +
            std::to_string(sessions_->options_.most_answer_bytes)
    );
  }
  const auto memory = std::make_shared<AnswerMemory>(AnswerMemory{
      .owner = result ? result->owner : nullptr, .failure = {}, .charge = std::move(request.charge)
  });
  OutFrame frame;
  frame.header.call = request.call;
  if (result) {
    frame.header.type = FrameType::Reply;
    frame.body = std::move(result->segments);
  } else {
    frame.header.type = FrameType::Failure;
    frame.header.method = failure_kind(result.error());
    memory->failure = result.error().message.substr(0, kMostFailureBytes);
    frame.body = {std::as_bytes(std::span(memory->failure))};
    bytes = static_cast<int64_t>(memory->failure.size());
  }
  memory->charge.becomes_answer(bytes + kRequestOverhead);
  frame.owner = memory;
  {
    // Before it is sent: when a client has an answer, it is counted.
    const auto stats = this->stats().lock();
    MethodStats& counted = stats->of(request.method);
    ++counted.requests;
    counted.payload_sent += result ? bytes : 0;
    counted.payload_received += static_cast<int64_t>(request.size);
  }
  request.body.reset();
  frame.written = [this, method = request.method, begin = request.begin] {
    stats().lock()->of(method).latency.observe(now() - begin);
  };
  send(std::move(frame));
}

}  // namespace gnn::rpc::internal
