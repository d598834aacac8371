#include "worker/comm/tcp_store.h"

#include "common/guarded.h"
#include "common/host_port.h"
#include "worker/comm/c10d_communicator.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <set>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace gnn::comm {
namespace {

uint16_t port_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET)
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  if (address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return 0;
}

// The descriptors of this process that are connected to `port` of any host.
std::set<int> connections_to(uint16_t port) {
  std::set<int> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
        port_of(peer) == port)
      found.insert(fd);
  }
  return found;
}

// c10d does not give out its socket. Its reads and writes treat EAGAIN as an error, so these options
// turn a silent host into an exception instead of an endless wait.
void bound_calls(int fd, std::chrono::milliseconds timeout) {
  const timeval limit{
      .tv_sec = static_cast<time_t>(timeout.count() / 1000),
      .tv_usec = static_cast<suseconds_t>(timeout.count() % 1000 * 1000)
  };
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const auto unacknowledged = static_cast<unsigned>(timeout.count());
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged, sizeof unacknowledged);
}

using Deadline = std::chrono::steady_clock::time_point;

// Whether something accepts connections at `address` before `deadline`.
bool accepts(const addrinfo& address, Deadline deadline) {
  const int fd = ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  int error = ::connect(fd, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd event{.fd = fd, .events = POLLOUT, .revents = 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now()
    );
    const int ready = ::poll(&event, 1, static_cast<int>(std::max<int64_t>(left.count(), 1)));
    socklen_t length = sizeof error;
    if (ready != 1 || ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
      error = ETIMEDOUT;
  }
  ::close(fd);
  return error == 0;
}

// Waits until the host serves. c10d would wait too, but tries only once a second and writes a stack
// trace to stderr when it gives up.
Status wait_for_host(const TcpStoreOptions& options) {
  const Deadline deadline = std::chrono::steady_clock::now() + options.connect_timeout;
  std::string why;
  do {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int code =
        ::getaddrinfo(options.host.c_str(), std::to_string(options.port).c_str(), &hints, &found);
    why = code != 0 ? ::gai_strerror(code) : "connection refused or timed out";
    bool accepted = false;
    for (const addrinfo* entry = found; entry != nullptr && !accepted; entry = entry->ai_next)
      accepted = accepts(*entry, deadline);
    if (found != nullptr) ::freeaddrinfo(found);
    if (accepted) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (std::chrono::steady_clock::now() < deadline);
  return fail(
      ErrorKind::PeerLost,
      "can't reach the store at " + format_host_port(options.host, options.port) + ": " + why
  );
}

std::string one_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

std::vector<uint8_t> to_bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

}  // namespace

struct TcpStore::Impl {
  // The connection carries one call at a time.
  struct Connection {
    c10::intrusive_ptr<c10d::TCPStore> store;
    std::optional<std::string> lost;  // why; it is never used again
  };

  TcpStoreOptions options;
  Guarded<Connection> connection;

  std::string where() const { return format_host_port(options.host, options.port); }

  // Runs `call` on the store.
  template <class Call>
  auto run(const char* what, Call call) -> Result<decltype(call(std::declval<c10d::TCPStore&>()))> {
    const auto held = connection.lock();
    if (held->lost) return fail(ErrorKind::PeerLost, *held->lost);
    try {
      return call(*held->store);
    } catch (const std::exception& error) {
      // A broken call may leave half an answer in the connection.
      held->lost = "lost the store at " + where() + " (" + what + ": " + one_line(error) + ")";
      return fail(ErrorKind::PeerLost, *held->lost);
    }
  }

  static Result<std::shared_ptr<TcpStore>> connect(
      TcpStoreOptions options, bool host, std::optional<int> listening_socket
  ) {
    // One at a time, so that the new connection is the one that was not there before. It guards the
    // descriptors of the process, which are no value of ours: hence no Guarded.
    static std::mutex connecting;
    std::lock_guard lock(connecting);
    auto impl = std::make_unique<Impl>();
    c10d::TCPStoreOptions native;
    native.port = options.port;
    native.isServer = host;
    native.waitWorkers = false;
    native.timeout = options.connect_timeout;
    native.masterListenFd = listening_socket;
    try {
      const auto before = connections_to(options.port);
      auto store = c10::make_intrusive<c10d::TCPStore>(options.host, native);
      options.port = store->getPort();
      for (const int fd : connections_to(options.port))
        if (before.count(fd) == 0) bound_calls(fd, options.call_timeout);
      store->setTimeout(options.call_timeout);
      impl->connection.lock()->store = std::move(store);
    } catch (const std::exception& error) {
      return fail(
          ErrorKind::PeerLost,
          std::string(host ? "can't serve" : "can't reach") + " the store at " +
              format_host_port(options.host, options.port) + ": " + one_line(error)
      );
    }
    impl->options = std::move(options);
    return std::shared_ptr<TcpStore>(new TcpStore(std::move(impl)));
  }
};

TcpStore::TcpStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TcpStore::~TcpStore() = default;

Result<std::shared_ptr<TcpStore>> TcpStore::host(
    const TcpStoreOptions& options, std::optional<int> listening_socket
) {
  return Impl::connect(options, true, listening_socket);
}

Result<std::shared_ptr<TcpStore>> TcpStore::join(const TcpStoreOptions& options) {
  GNN_RETURN_IF_ERROR(wait_for_host(options));
  return Impl::connect(options, false, std::nullopt);
}

Status TcpStore::set(const std::string& key, const std::string& value) {
  auto done = impl_->run("set", [&](c10d::TCPStore& store) {
    store.set(key, to_bytes(value));
    return true;
  });
  if (!done) return tl::make_unexpected(std::move(done).error());
  return {};
}

Result<std::vector<std::optional<std::string>>> TcpStore::get(const std::vector<std::string>& keys
) {
  return impl_->run("get", [&](c10d::TCPStore& store) {
    std::vector<std::optional<std::string>> values(keys.size());
    // Usually all keys are there: then one call reads them.
    if (store.check(keys)) {
      const auto bytes = store.multiGet(keys);
      for (size_t i = 0; i < keys.size(); ++i) values[i].emplace(bytes[i].begin(), bytes[i].end());
      return values;
    }
    for (size_t i = 0; i < keys.size() && keys.size() > 1; ++i) {
      if (!store.check({keys[i]})) continue;
      const auto bytes = store.get(keys[i]);
      values[i].emplace(bytes.begin(), bytes.end());
    }
    return values;
  });
}

Result<int64_t> TcpStore::add(const std::string& key, int64_t by) {
  return impl_->run("add", [&](c10d::TCPStore& store) { return store.add(key, by); });
}

uint16_t TcpStore::port() const {
  return impl_->options.port;
}

std::shared_ptr<C10dStoreHandle> TcpStore::handle() const {
  return std::make_shared<C10dStoreHandle>(C10dStoreHandle{impl_->connection.lock()->store});
}

std::shared_ptr<C10dStoreHandle> in_process_c10d_store() {
  return std::make_shared<C10dStoreHandle>(C10dStoreHandle{c10::make_intrusive<c10d::HashStore>()});
}

}  // namespace gnn::comm
