#include "worker/rpc/session.h"

#include "common/log.h"

#include <asio/post.hpp>

#include <exception>
#include <new>
#include <optional>
#include <string>
#include <utility>

namespace gnn::rpc {

// A request, whose answer may come from any thread and when its server is gone: it owns nothing that
// belongs to the event loop.
class Responder::Target : public std::enable_shared_from_this<Responder::Target> {
 public:
  Target(const std::shared_ptr<internal::Session>& session, internal::Request request)
      : gate_(session->sessions_->gate_),
        sessions_(session->sessions_),
        session_(session),
        life_(session->life_),
        connection_(session->number_),
        peer_(session->peer_),
        request_(std::move(request)) {}
  ~Target() {
    if (state_.lock()->answered) return;
    post(fail(ErrorKind::Internal, "no answer was made"), nullptr);
  }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  // Calls the handler, on a thread of the server's.
  void handle(const std::shared_ptr<internal::Sessions>& sessions) {
    call(sessions->handler_);
    request_.body.reset();
    std::optional<Result<Answer>> early;
    {
      const auto state = state_.lock();
      state->in_handler = false;
      early = std::move(state->early);
    }
    post(std::move(early), sessions);
  }

  void answer(Result<Answer> result) {
    {
      const auto state = state_.lock();
      if (state->answered) return;
      state->answered = true;
      if (state->in_handler) {  // it goes with the news that the handler has returned
        state->early.emplace(std::move(result));
        return;
      }
    }
    post(std::move(result), nullptr);
  }

  [[nodiscard]] bool wanted() const { return !life_.expired(); }
  [[nodiscard]] uint64_t connection() const { return connection_; }

 private:
  struct State {
    bool in_handler = true;
    bool answered = false;
    std::optional<Result<Answer>> early;  // given while the handler ran
  };

  void call(const LateHandler& handler) {
    const Responder respond(shared_from_this());
    try {
      handler(peer_, request_.method, {request_.body.get(), request_.size}, respond);
    } catch (const std::bad_alloc&) {
      respond(fail(ErrorKind::OutOfMemory, "no memory for the answer"));
    } catch (const std::exception& error) {
      respond(fail(ErrorKind::Internal, error.what()));
    }
  }

  // Gives the session an answer, and its sessions back the thread that ran the handler. What is posted
  // lives on the event loop, so it may hold what belongs there.
  void post(
      std::optional<Result<Answer>> result, const std::shared_ptr<internal::Sessions>& returned
  ) {
    const auto gate = gate_->lock();
    if (*gate == nullptr) return;
    auto request = result ? std::make_shared<internal::Request>(std::move(request_)) : nullptr;
    asio::post(
        **gate,
        [session = session_,
         sessions = sessions_,
         request = std::move(request),
         result = std::move(result),
         returned]() mutable {
          if (returned != nullptr) --returned->running_;
          if (const auto open = session.lock(); open != nullptr && result)
            open->answer(std::move(*request), std::move(*result));
          request.reset();  // if the client is gone, others may have its bytes
          if (const auto all = sessions.lock()) all->go_on();
        }
    );
  }

  const std::shared_ptr<Guarded<asio::io_context*>> gate_;
  const std::weak_ptr<internal::Sessions> sessions_;
  const std::weak_ptr<internal::Session> session_;
  const std::weak_ptr<const bool> life_;
  const uint64_t connection_;
  const Peer peer_;
  internal::Request request_;
  Guarded<State> state_;
};

void Responder::operator()(Result<Answer> answer) const {
  target_->answer(std::move(answer));
}
bool Responder::wanted() const {
  return target_->wanted();
}
uint64_t Responder::connection() const {
  return target_->connection();
}

}  // namespace gnn::rpc

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

}  // namespace

// ---- Sessions

Sessions::Sessions(
    ServerOptions options, LateHandler handler, asio::io_context& io, ThreadPool& threads
)
    : options_(std::move(options)),
      handler_(std::move(handler)),
      gate_(std::make_shared<Guarded<asio::io_context*>>(&io)),
      threads_(threads),
      budget_(std::make_shared<Budget>(options_.total_bytes)) {}

void Sessions::add(
    asio::ip::tcp::socket socket, Peer peer, std::shared_ptr<Guarded<PeerStats>> stats
) {
  if (closed_) return;
  auto session = std::make_shared<Session>(
      shared_from_this(), std::move(socket), std::move(peer), std::move(stats)
  );
  session->number_ = ++last_number_;
  sessions_.insert(session);
  num_sessions_.fetch_add(1, std::memory_order_relaxed);
  session->start();
}

void Sessions::close_all() {
  closed_ = true;
  *gate_->lock() = nullptr;
  waiting_.clear();
  in_turn_.clear();
  for (const auto& session : std::exchange(sessions_, {})) {
    session->close();
    session->forget();
  }
  num_sessions_.store(0, std::memory_order_relaxed);
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
  const auto target = std::make_shared<Responder::Target>(session, std::move(request));
  std::ignore = threads_.submit([self = shared_from_this(), target] { target->handle(self); });
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
  session->forget();
  if (sessions_.erase(session) > 0) num_sessions_.fetch_sub(1, std::memory_order_relaxed);
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
  const bool counts = !result || result->counts;
  memory->charge.becomes_answer((counts ? bytes : 0) + kRequestOverhead);
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
