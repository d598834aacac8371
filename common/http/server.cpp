#include "common/http/server.h"

#include "common/guarded.h"
#include "common/host_port.h"
#include "common/thread_pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <httplib.h>
#include <map>
#include <optional>
#include <poll.h>
#include <string_view>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace gnn::http {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kThreads = 2;

// A request that has come, and the answer to it.
class MemoryStream final : public httplib::Stream {
 public:
  explicit MemoryStream(std::string_view request) : request_(request) {}

  bool is_readable() const override { return !request_.empty(); }
  bool is_writable() const override { return true; }
  ssize_t read(char* data, size_t size) override {
    const size_t count = std::min(size, request_.size());
    std::copy_n(request_.begin(), count, data);
    request_.remove_prefix(count);
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* data, size_t size) override {
    answer_.append(data, size);
    return static_cast<ssize_t>(size);
  }
  // Only used for logs.
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return INVALID_SOCKET; }

  std::string take_answer() { return std::move(answer_); }

 private:
  std::string_view request_;
  std::string answer_;
};

// A connection of a client: its request comes, is answered by a thread, and the answer goes.
class Connection {
 public:
  enum class Stage { Reading, Answering, Writing };

  Connection(int socket, Clock::time_point deadline) : socket_(socket), deadline_(deadline) {}
  ~Connection() {
    ::shutdown(socket_, SHUT_RDWR);
    ::close(socket_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] int socket() const { return socket_; }
  [[nodiscard]] Stage stage() const { return stage_; }
  [[nodiscard]] Clock::time_point deadline() const { return deadline_; }

  // Reads what has come. False if no request will come of it.
  bool read(size_t most) {
    std::array<char, 2048> piece{};
    while (bytes_.size() < most) {
      const size_t room = std::min(piece.size(), most - bytes_.size());
      const ssize_t received = ::recv(socket_, piece.data(), room, MSG_DONTWAIT);
      if (received < 0 && errno == EINTR) continue;
      if (received < 0) return errno == EAGAIN;
      if (received == 0) return false;
      bytes_.append(piece.data(), static_cast<size_t>(received));
      if (bytes_.find("\r\n\r\n") == std::string::npos) continue;
      stage_ = Stage::Answering;
      return true;
    }
    return false;
  }
  std::string take_request() { return std::move(bytes_); }

  void begin_answer(std::string answer, Clock::time_point deadline) {
    stage_ = Stage::Writing;
    bytes_ = std::move(answer);
    deadline_ = deadline;
  }
  // Writes what the client takes. False if nothing is left to do.
  bool write() {
    while (written_ < bytes_.size()) {
      const ssize_t sent = ::send(
          socket_, bytes_.data() + written_, bytes_.size() - written_, MSG_DONTWAIT | MSG_NOSIGNAL
      );
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) return errno == EAGAIN;
      written_ += static_cast<size_t>(sent);
    }
    return false;
  }

 private:
  const int socket_;
  Clock::time_point deadline_;
  Stage stage_ = Stage::Reading;
  std::string bytes_;  // what has come of the request; later the answer
  size_t written_ = 0;
};

// All connections of a server. One thread waits for all clients; threads that answer wait for none,
// so clients that are slow or silent cost no more than their place.
class Connections {
 public:
  using Answer = std::function<std::string(const std::string& request)>;

  Connections(const Limits& limits, Answer answer)
      : limits_(limits), answer_(std::move(answer)), wake_(::eventfd(0, EFD_CLOEXEC)) {
    waiting_ = std::thread([this] { wait_for_clients(); });
  }
  ~Connections() {
    mail_.lock()->stopping = true;
    wake();
    waiting_.join();
    answering_.reset();  // its threads wake us
    ::close(wake_);
  }
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  // Takes the socket. Any thread.
  void add(int socket) {
    mail_.lock()->sockets.push_back(socket);
    wake();
  }

 private:
  // From other threads to the one that waits.
  struct Mail {
    std::vector<int> sockets;
    std::vector<std::pair<uint64_t, std::string>> answers;  // by the connection's number
    bool stopping = false;
  };

  void wake() const { ::eventfd_write(wake_, 1); }

  void wait_for_clients() {
    while (true) {
      wait();
      Mail mail;
      std::swap(mail, *mail_.lock());
      for (auto& [number, answer] : mail.answers) begin_answer(number, std::move(answer));
      for (const int socket : mail.sockets) begin(socket);
      if (mail.stopping) break;
      std::erase_if(open_, [now = Clock::now()](const auto& each) {
        return each.second->stage() != Connection::Stage::Answering &&
               each.second->deadline() <= now;
      });
    }
    open_.clear();
  }

  // Until a client, an answer or a new connection is there, or a deadline; serves the clients.
  void wait() {
    std::vector<pollfd> entries{{.fd = wake_, .events = POLLIN, .revents = 0}};
    std::vector<uint64_t> numbers{0};
    auto until = Clock::time_point::max();
    for (const auto& [number, connection] : open_) {
      if (connection->stage() == Connection::Stage::Answering) continue;
      const bool reads = connection->stage() == Connection::Stage::Reading;
      const auto events = static_cast<short>(reads ? POLLIN : POLLOUT);
      entries.push_back({.fd = connection->socket(), .events = events, .revents = 0});
      numbers.push_back(number);
      until = std::min(until, connection->deadline());
    }
    ::poll(entries.data(), entries.size(), milliseconds_to(until));
    if (eventfd_t calls = 0; entries[0].revents != 0) ::eventfd_read(wake_, &calls);
    for (size_t i = 1; i < entries.size(); ++i)
      if (entries[i].revents != 0) serve(numbers[i]);
  }

  static int milliseconds_to(Clock::time_point until) {
    if (until == Clock::time_point::max()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
  }

  void begin(int socket) {
    if (static_cast<int64_t>(open_.size()) >= limits_.connections) {
      // The one that has had most time.
      const auto oldest = std::find_if(open_.begin(), open_.end(), [](const auto& each) {
        return each.second->stage() != Connection::Stage::Answering;
      });
      if (oldest == open_.end()) {
        ::close(socket);
        return;
      }
      open_.erase(oldest);
    }
    const uint64_t number = next_number_++;
    open_[number] = std::make_unique<Connection>(socket, Clock::now() + limits_.request_time);
    serve(number);  // the request is often there already
  }

  void serve(uint64_t number) {
    Connection& connection = *open_.at(number);
    const bool reads = connection.stage() == Connection::Stage::Reading;
    const bool goes_on =
        reads ? connection.read(static_cast<size_t>(limits_.request_bytes)) : connection.write();
    if (!goes_on) {
      open_.erase(number);
    } else if (connection.stage() == Connection::Stage::Answering) {
      answer(number, connection.take_request());
    }
  }

  void answer(uint64_t number, std::string request) {
    static_cast<void>(answering_->submit([this, number, request = std::move(request)] {
      std::string answer = answer_(request);
      mail_.lock()->answers.emplace_back(number, std::move(answer));
      wake();
    }));
  }

  void begin_answer(uint64_t number, std::string answer) {
    open_.at(number)->begin_answer(std::move(answer), Clock::now() + limits_.request_time);
    serve(number);
  }

  const Limits limits_;
  const Answer answer_;
  const int wake_;
  Guarded<Mail> mail_;
  // Of the waiting thread alone; older ones have lower numbers.
  std::map<uint64_t, std::unique_ptr<Connection>> open_;
  uint64_t next_number_ = 1;
  std::optional<ThreadPool> answering_{std::in_place, kThreads};
  std::thread waiting_;
};

// cpp-httplib listens, reads requests and forms answers; the connections are ours, since its own
// hold a thread each, restart their time-outs with each byte, and do not limit the length of lines.
class HttpServer final : public httplib::Server {
 public:
  explicit HttpServer(const Limits& limits)
      : connections_(limits, [this](const std::string& request) { return answer(request); }) {
    new_task_queue = [] { return new NoQueue; };
  }

  // The queue of connections that the kernel keeps for us once the address is bound. The library's
  // holds five: a burst of clients would make others wait for a second.
  [[nodiscard]] bool lengthen_queue() { return ::listen(svr_sock_, SOMAXCONN) == 0; }

 private:
  // Runs what the listening thread hands over on that thread: it only passes the socket on.
  class NoQueue final : public httplib::TaskQueue {
    void enqueue(std::function<void()> connection) override { connection(); }
    void shutdown() override {}
  };

  bool process_and_close_socket(socket_t socket) override {
    connections_.add(socket);
    return true;
  }

  std::string answer(const std::string& request) {
    MemoryStream stream(request);
    bool closed = false;
    process_request(stream, /*close_connection=*/true, closed, nullptr);
    return stream.take_answer();
  }

  Connections connections_;
};

// Where a server for all addresses listens. "::" takes the clients of IPv4, too.
std::string any_host() {
  const int socket = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return "0.0.0.0";  // a kernel without IPv6
  ::close(socket);
  return "::";
}

}  // namespace

struct Server::Impl {
  explicit Impl(const Limits& limits) : server(limits) {}

  HttpServer server;
  int port = 0;
  std::atomic<bool> ended{false};
  std::thread thread;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options) {
  auto impl = std::make_unique<Impl>(options.limits);
  HttpServer& server = impl->server;
  server.set_payload_max_length(1024);
  for (Page& page : options.pages) {
    server.Get(
        page.path,
        [answer = std::move(page.answer)](const httplib::Request&, httplib::Response& response) {
          const Response content = answer();
          response.status = content.status;
          response.set_content(content.body, content.content_type.c_str());
        }
    );
  }
  const std::string host = options.host.empty() ? any_host() : options.host;
  if (options.port == 0) {
    impl->port = server.bind_to_any_port(host);
  } else {
    impl->port = server.bind_to_port(host, options.port) ? options.port : -1;
  }
  if (impl->port <= 0 || !server.lengthen_queue()) {
    return fail(
        ErrorKind::Network, "can't listen on " + format_host_port(options.host, options.port)
    );
  }
  impl->thread = std::thread([shown = impl.get()] {
    shown->server.listen_after_bind();
    shown->ended.store(true);
  });
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::~Server() {
  // A stop() before the thread reaches its loop would have no effect.
  while (!impl_->server.is_running() && !impl_->ended.load()) std::this_thread::yield();
  impl_->server.stop();
  impl_->thread.join();
}

int Server::port() const {
  return impl_->port;
}

}  // namespace gnn::http
