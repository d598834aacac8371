#include "controller/app/progress_client.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <memory>
#include <netdb.h>
#include <optional>
#include <poll.h>
#include <string_view>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace gnn::app {
namespace {

constexpr size_t kMaxHeaderBytes = 8192;
using SteadyPoint = std::chrono::steady_clock::time_point;

// Closes its file descriptor.
class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  [[nodiscard]] int get() const { return descriptor_; }

  // Waits until the socket is ready for `events`.
  [[nodiscard]] Status await(short events, SteadyPoint deadline) const {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return fail(ErrorKind::Timeout, "no answer in time");
    pollfd entry{.fd = descriptor_, .events = events, .revents = 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(left.count()));
    if (ready == 0) return fail(ErrorKind::Timeout, "no answer in time");
    if (ready < 0 && errno != EINTR) {
      return fail(ErrorKind::Network, std::generic_category().message(errno));
    }
    return {};
  }

 private:
  int descriptor_;
};

Status connect_to(Socket& socket, const addrinfo& address, SteadyPoint deadline) {
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return {};
  if (errno != EINPROGRESS) {
    return fail(ErrorKind::Network, std::generic_category().message(errno));
  }
  GNN_RETURN_IF_ERROR(socket.await(POLLOUT, deadline));
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return fail(ErrorKind::Network, std::generic_category().message(error));
  return {};
}

Status send_all(const Socket& socket, std::string_view text, SteadyPoint deadline) {
  while (!text.empty()) {
    const ssize_t sent = ::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      text.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EINTR) {
      GNN_RETURN_IF_ERROR(socket.await(POLLOUT, deadline));
    } else {
      return fail(ErrorKind::Network, std::generic_category().message(errno));
    }
  }
  return {};
}

// The value of a header, in lower case and trimmed.
std::optional<std::string> header_of(std::string_view head, std::string_view name) {
  std::string lower(head);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  const size_t at = lower.find("\r\n" + std::string(name) + ":");
  if (at == std::string::npos) return std::nullopt;
  size_t first = at + name.size() + 3;
  const size_t end = lower.find("\r\n", first);
  while (first < end && (lower[first] == ' ' || lower[first] == '\t')) ++first;
  return lower.substr(first, end - first);
}

// The length of the body; nothing: it ends with the connection.
Result<std::optional<int64_t>> body_length(std::string_view head) {
  const bool ok = head.starts_with("HTTP/1.1 200") || head.starts_with("HTTP/1.0 200");
  if (!ok) return fail(ErrorKind::Data, "expected status 200");
  if (header_of(head, "transfer-encoding")) {
    return fail(ErrorKind::Data, "expected a body without transfer encoding");
  }
  const auto text = header_of(head, "content-length");
  if (!text) return std::optional<int64_t>();
  int64_t length = 0;
  const auto parsed = std::from_chars(text->data(), text->data() + text->size(), length);
  if (parsed.ec != std::errc() || length < 0) return fail(ErrorKind::Data, "bad content-length");
  return std::optional(length);
}

// Reads until the body is complete.
Result<std::string> receive(const Socket& socket, SteadyPoint deadline, int64_t max_bytes) {
  std::string received;
  std::optional<size_t> body_at;
  std::optional<int64_t> length;
  std::array<char, 16384> buffer{};
  while (true) {
    if (body_at) {
      const auto have = static_cast<int64_t>(received.size() - *body_at);
      if (have > max_bytes || (length && *length > max_bytes)) {
        return fail(
            ErrorKind::Data, "expected at most " + std::to_string(max_bytes) + " bytes, found more"
        );
      }
      if (length && have >= *length) {
        return received.substr(*body_at, static_cast<size_t>(*length));
      }
    } else if (received.size() > kMaxHeaderBytes) {
      return fail(ErrorKind::Data, "expected a shorter header");
    }
    GNN_RETURN_IF_ERROR(socket.await(POLLIN, deadline));
    const ssize_t count = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) return fail(ErrorKind::Network, std::generic_category().message(errno));
    if (count == 0) {
      if (body_at && !length) return received.substr(*body_at);
      return fail(ErrorKind::Network, "the connection ended early");
    }
    received.append(buffer.data(), static_cast<size_t>(count));
    if (body_at) continue;
    const size_t end = received.find("\r\n\r\n");
    if (end == std::string::npos) continue;
    body_at = end + 4;
    GNN_ASSIGN_OR_RETURN(length, body_length(std::string_view(received).substr(0, end + 2)));
  }
}

}  // namespace

Result<std::string> fetch_from_pod(
    const std::string& address,
    uint16_t port,
    const std::string& path,
    Duration timeout,
    int64_t max_bytes
) {
  const SteadyPoint deadline =
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(timeout);
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0)
    return fail(ErrorKind::Network, std::string("bad address: ") + gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, ::freeaddrinfo);

  Socket socket(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return fail(ErrorKind::Network, std::generic_category().message(errno));
  GNN_RETURN_IF_ERROR(connect_to(socket, *found, deadline));
  const bool ipv6 = address.find(':') != std::string::npos;
  const std::string host = ipv6 ? "[" + address + "]" : address;
  GNN_RETURN_IF_ERROR(send_all(
      socket,
      "GET " + path + " HTTP/1.0\r\nHost: " + host + "\r\nConnection: close\r\n\r\n",
      deadline
  ));
  return receive(socket, deadline, max_bytes);
}

}  // namespace gnn::app
