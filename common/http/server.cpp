#include "common/http/server.h"

#include "common/guarded.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <httplib.h>
#include <poll.h>
#include <set>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace gnn::http {
namespace {

constexpr size_t kThreads = 4;

// A connection that limits the bytes and the time of a request. cpp-httplib itself restarts its
// time-outs with each byte and does not limit the length of lines.
class BoundedStream final : public httplib::Stream {
 public:
  BoundedStream(int socket, const Limits& limits)
      : socket_(socket),
        bytes_left_(limits.request_bytes),
        deadline_(std::chrono::steady_clock::now() + limits.request_time) {}

  bool is_readable() const override { return taken_ < filled_ || wait(POLLIN); }
  bool is_writable() const override { return wait(POLLOUT); }

  ssize_t read(char* data, size_t size) override {
    if (taken_ == filled_) {
      if (const ssize_t received = refill(); received <= 0) return received;
    }
    const size_t count = std::min(size, filled_ - taken_);
    std::copy_n(buffer_.begin() + static_cast<ptrdiff_t>(taken_), count, data);
    taken_ += count;
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* data, size_t size) override {
    while (wait(POLLOUT)) {
      const ssize_t sent = ::send(socket_, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent >= 0 || (errno != EAGAIN && errno != EINTR)) return sent;
    }
    return -1;
  }

  // Only used for logs.
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
  bool wait(short events) const {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd entry{.fd = socket_, .events = events, .revents = 0};
    return ::poll(&entry, 1, static_cast<int>(left.count())) == 1;
  }

  ssize_t refill() {
    const auto most = std::min<int64_t>(bytes_left_, static_cast<int64_t>(buffer_.size()));
    if (most <= 0) return -1;
    ssize_t received = -1;
    do {
      if (!wait(POLLIN)) return -1;
      received = ::recv(socket_, buffer_.data(), static_cast<size_t>(most), MSG_DONTWAIT);
    } while (received < 0 && (errno == EAGAIN || errno == EINTR));
    if (received <= 0) return received;
    taken_ = 0;
    filled_ = static_cast<size_t>(received);
    bytes_left_ -= received;
    return received;
  }

  const int socket_;
  int64_t bytes_left_;
  const std::chrono::steady_clock::time_point deadline_;
  std::array<char, 2048> buffer_{};
  size_t taken_ = 0;
  size_t filled_ = 0;
};

// The open connections, so that the server can end without waiting for them.
struct Connections {
  std::set<int> open;
  bool stopping = false;
};

// Set while a connection above the limit is handed over only to be closed.
thread_local bool refusing = false;

class BoundedServer final : public httplib::Server {
 public:
  explicit BoundedServer(Limits limits) : limits_(limits) {}

  // Ends reads and writes in progress; later connections are closed at once.
  void hang_up() {
    auto connections = connections_.lock();
    connections->stopping = true;
    for (const int socket : connections->open) ::shutdown(socket, SHUT_RDWR);
  }

 private:
  bool process_and_close_socket(socket_t socket) override {
    bool answered = false;
    if (!refusing && add(socket)) {
      BoundedStream stream(socket, limits_);
      bool closed = false;
      answered = process_request(stream, /*close_connection=*/true, closed, nullptr);
      connections_.lock()->open.erase(socket);
    }
    ::shutdown(socket, SHUT_RDWR);
    ::close(socket);
    return answered;
  }

  bool add(int socket) {
    auto connections = connections_.lock();
    if (connections->stopping) return false;
    connections->open.insert(socket);
    return true;
  }

  const Limits limits_;
  Guarded<Connections> connections_;
};

// cpp-httplib's threads, with a limit on waiting connections.
class BoundedQueue final : public httplib::TaskQueue {
 public:
  explicit BoundedQueue(int64_t most) : most_(most), threads_(kThreads) {}

  void enqueue(std::function<void()> connection) override {
    if (pending_.load() >= most_) {
      refusing = true;
      connection();
      refusing = false;
      return;
    }
    pending_.fetch_add(1);
    threads_.enqueue([this, connection = std::move(connection)] {
      connection();
      pending_.fetch_sub(1);
    });
  }
  void shutdown() override { threads_.shutdown(); }

 private:
  const int64_t most_;
  std::atomic<int64_t> pending_{0};
  httplib::ThreadPool threads_;
};

}  // namespace

struct Server::Impl {
  explicit Impl(const Limits& limits) : server(limits) {}

  BoundedServer server;
  int port = 0;
  std::atomic<bool> ended{false};
  std::thread thread;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options) {
  auto impl = std::make_unique<Impl>(options.limits);
  BoundedServer& server = impl->server;
  server.new_task_queue = [most = options.limits.connections] { return new BoundedQueue(most); };
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
  if (options.port == 0) {
    impl->port = server.bind_to_any_port(options.host);
  } else {
    impl->port = server.bind_to_port(options.host, options.port) ? options.port : -1;
  }
  if (impl->port <= 0) {
    return fail(
        ErrorKind::Network, "can't listen on " + options.host + ":" + std::to_string(options.port)
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
  impl_->server.hang_up();
  impl_->server.stop();
  impl_->thread.join();
}

int Server::port() const {
  return impl_->port;
}

}  // namespace gnn::http
