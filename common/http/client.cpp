#include "common/http/client.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <memory>
#include <netdb.h>
#include <optional>
#include <poll.h>
#include <resolv.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace gnn::http {
namespace {

constexpr size_t kMaxHeaderBytes = 8192;
using SteadyPoint = std::chrono::steady_clock::time_point;

tl::unexpected<Error> system_error() {
  return fail(ErrorKind::Network, std::generic_category().message(errno));
}

Status check_time(SteadyPoint deadline) {
  if (std::chrono::steady_clock::now() < deadline) return {};
  return fail(ErrorKind::Timeout, "no answer in time");
}

// Closes its file descriptor.
class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
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
    if (ready < 0 && errno != EINTR) return system_error();
    return {};
  }

 private:
  int descriptor_;
};

struct FreeAddresses {
  void operator()(addrinfo* addresses) const { ::freeaddrinfo(addresses); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

// getaddrinfo() has no deadline: with its usual patience, a dead name server holds it for 20 s.
void make_lookups_impatient() {
  if ((_res.options & RES_INIT) == 0 && ::res_ninit(&_res) != 0) return;
  _res.retrans = 1;
  _res.retry = 1;
}

Result<Addresses> look_up(const Url& url, bool addresses_only) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICSERV | (addresses_only ? AI_NUMERICHOST : 0);
  hints.ai_socktype = SOCK_STREAM;
  if (!addresses_only) make_lookups_impatient();
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(url.host.c_str(), std::to_string(url.port).c_str(), &hints, &found);
  if (error != 0)
    return fail(ErrorKind::Network, "bad address " + url.host + ": " + gai_strerror(error));
  return Addresses(found);
}

Result<Socket> connect_to(const addrinfo& address, SteadyPoint deadline) {
  Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return system_error();
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return socket;
  if (errno != EINPROGRESS) return system_error();
  GNN_RETURN_IF_ERROR(socket.await(POLLOUT, deadline));
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return fail(ErrorKind::Network, std::generic_category().message(error));
  return socket;
}

Result<Socket> connect_to_any(const addrinfo& first, SteadyPoint deadline) {
  Error last{.kind = ErrorKind::Network, .message = "no address"};
  for (const addrinfo* address = &first; address != nullptr; address = address->ai_next) {
    Result<Socket> socket = connect_to(*address, deadline);
    if (socket) return socket;
    last = std::move(socket).error();
    if (last.kind == ErrorKind::Timeout) break;
  }
  return tl::unexpected(std::move(last));
}

// ---- TLS

struct FreeTls {
  void operator()(SSL_CTX* context) const { ::SSL_CTX_free(context); }
  void operator()(SSL* tls) const { ::SSL_free(tls); }
  void operator()(BIO_METHOD* method) const { ::BIO_meth_free(method); }
};
template <class T>
using Tls = std::unique_ptr<T, FreeTls>;

int descriptor_of(BIO* bio) {
  return static_cast<const Socket*>(::BIO_get_data(bio))->get();
}

// OpenSSL's own BIO of a socket raises SIGPIPE when the peer is gone.
int bio_write(BIO* bio, const char* data, int size) {
  ::BIO_clear_retry_flags(bio);
  const ssize_t sent = ::send(descriptor_of(bio), data, static_cast<size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) ::BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int bio_read(BIO* bio, char* data, int size) {
  ::BIO_clear_retry_flags(bio);
  const ssize_t got = ::recv(descriptor_of(bio), data, static_cast<size_t>(size), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) ::BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

long bio_control(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* socket_method() {
  static const Tls<BIO_METHOD> kMethod = [] {
    Tls<BIO_METHOD> made(::BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket"));
    ::BIO_meth_set_write(made.get(), bio_write);
    ::BIO_meth_set_read(made.get(), bio_read);
    ::BIO_meth_set_ctrl(made.get(), bio_control);
    return made;
  }();
  return kMethod.get();
}

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

// Whom the certificate must name.
bool expect_host(SSL* tls, const std::string& host) {
  if (is_address(host))
    return ::X509_VERIFY_PARAM_set1_ip_asc(::SSL_get0_param(tls), host.c_str()) == 1;
  return ::SSL_set1_host(tls, host.c_str()) == 1 &&
         ::SSL_set_tlsext_host_name(tls, host.c_str()) == 1;
}

std::string tls_reason(const SSL* tls) {
  const long verified = ::SSL_get_verify_result(tls);
  if (verified != X509_V_OK)
    return std::string("the server's certificate: ") + ::X509_verify_cert_error_string(verified);
  std::array<char, 256> text{};
  ::ERR_error_string_n(::ERR_get_error(), text.data(), text.size());
  return text.data();
}

// A connection, with TLS or without.
class ClientConnection {
 public:
  static Result<ClientConnection> open(const Url& url, bool addresses_only, SteadyPoint deadline) {
    // A look-up has no deadline of its own.
    GNN_RETURN_IF_ERROR(check_time(deadline));
    GNN_ASSIGN_OR_RETURN(const Addresses addresses, look_up(url, addresses_only));
    GNN_RETURN_IF_ERROR(check_time(deadline));
    GNN_ASSIGN_OR_RETURN(Socket socket, connect_to_any(*addresses, deadline));
    ClientConnection connection(std::move(socket), deadline);
    if (url.tls) GNN_RETURN_IF_ERROR(connection.begin_tls(url.host));
    return connection;
  }

  Status send(std::string_view text) {
    while (!text.empty()) {
      GNN_ASSIGN_OR_RETURN(const size_t sent, send_some(text));
      text.remove_prefix(sent);
    }
    return {};
  }

  // At least one byte, or none at the end.
  Result<size_t> receive(char* buffer, size_t size) {
    while (true) {
      const int got = tls_ ? ::SSL_read(tls_.get(), buffer, static_cast<int>(size))
                           : static_cast<int>(::recv(socket_->get(), buffer, size, 0));
      if (got > 0) return static_cast<size_t>(got);
      if (tls_) {
        GNN_ASSIGN_OR_RETURN(const bool at_end, await_tls(got));
        if (at_end) return size_t{0};
      } else {
        if (got == 0) return size_t{0};
        if (errno != EAGAIN && errno != EINTR) return system_error();
        GNN_RETURN_IF_ERROR(socket_->await(POLLIN, deadline_));
      }
    }
  }

 private:
  ClientConnection(Socket socket, SteadyPoint deadline)
      : socket_(std::make_unique<Socket>(std::move(socket))), deadline_(deadline) {}

  Status begin_tls(const std::string& host) {
    const Tls<SSL_CTX> context(::SSL_CTX_new(::TLS_client_method()));
    if (!context || ::SSL_CTX_set_default_verify_paths(context.get()) != 1)
      return fail(ErrorKind::Network, "no certificates to verify servers by");
    ::SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
    ::SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    tls_.reset(::SSL_new(context.get()));
    BIO* const bio = ::BIO_new(socket_method());
    if (!tls_ || bio == nullptr || !expect_host(tls_.get(), host))
      return fail(ErrorKind::Network, "TLS cannot be set up for " + host);
    ::BIO_set_data(bio, socket_.get());
    ::BIO_set_init(bio, 1);
    ::SSL_set_bio(tls_.get(), bio, bio);
    while (true) {
      const int done = ::SSL_connect(tls_.get());
      if (done == 1) return {};
      GNN_ASSIGN_OR_RETURN(const bool at_end, await_tls(done));
      if (at_end) return fail(ErrorKind::Network, "the connection ended in the TLS handshake");
    }
  }

  // Waits for what TLS needs next; true if the connection has ended in good order.
  Result<bool> await_tls(int result) {
    switch (::SSL_get_error(tls_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        GNN_RETURN_IF_ERROR(socket_->await(POLLIN, deadline_));
        return false;
      case SSL_ERROR_WANT_WRITE:
        GNN_RETURN_IF_ERROR(socket_->await(POLLOUT, deadline_));
        return false;
      case SSL_ERROR_ZERO_RETURN:
        return true;
      default:
        return fail(ErrorKind::Network, "TLS: " + tls_reason(tls_.get()));
    }
  }

  Result<size_t> send_some(std::string_view text) {
    while (true) {
      const int sent =
          tls_ ? ::SSL_write(tls_.get(), text.data(), static_cast<int>(text.size()))
               : static_cast<int>(::send(socket_->get(), text.data(), text.size(), MSG_NOSIGNAL));
      if (sent > 0) return static_cast<size_t>(sent);
      if (tls_) {
        GNN_ASSIGN_OR_RETURN(const bool at_end, await_tls(sent));
        if (at_end) return fail(ErrorKind::Network, "the connection ended early");
      } else {
        if (errno != EAGAIN && errno != EINTR) return system_error();
        GNN_RETURN_IF_ERROR(socket_->await(POLLOUT, deadline_));
      }
    }
  }

  std::unique_ptr<Socket> socket_;  // at one place, for the BIO
  SteadyPoint deadline_;
  Tls<SSL> tls_;
};

// ---- HTTP

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

Result<int> status_of(std::string_view head) {
  int status = 0;
  const bool is_http = head.starts_with("HTTP/1.1 ") || head.starts_with("HTTP/1.0 ");
  if (is_http && head.size() > 12) std::from_chars(head.data() + 9, head.data() + 12, status);
  if (status < 100) return fail(ErrorKind::Data, "expected an HTTP status");
  return status;
}

// The length of the body; nothing: it ends with the connection.
Result<std::optional<int64_t>> body_length(std::string_view head) {
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
Result<Reply> receive(ClientConnection& connection, int64_t max_bytes) {
  Reply reply;
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
        reply.body = received.substr(*body_at, static_cast<size_t>(*length));
        return reply;
      }
    } else if (received.size() > kMaxHeaderBytes) {
      return fail(ErrorKind::Data, "expected a shorter header");
    }
    GNN_ASSIGN_OR_RETURN(const size_t count, connection.receive(buffer.data(), buffer.size()));
    if (count == 0) {
      if (!body_at || length) return fail(ErrorKind::Network, "the connection ended early");
      reply.body = received.substr(*body_at);
      return reply;
    }
    received.append(buffer.data(), count);
    if (body_at) continue;
    const size_t end = received.find("\r\n\r\n");
    if (end == std::string::npos) continue;
    body_at = end + 4;
    const std::string_view head = std::string_view(received).substr(0, end + 2);
    GNN_ASSIGN_OR_RETURN(reply.status, status_of(head));
    GNN_ASSIGN_OR_RETURN(length, body_length(head));
  }
}

std::string host_header(const Url& url) {
  const bool ipv6 = url.host.find(':') != std::string::npos;
  const std::string host = ipv6 ? "[" + url.host + "]" : url.host;
  return url.port == (url.tls ? 443 : 80) ? host : host + ":" + std::to_string(url.port);
}

// Of HTTP/1.0, to which no server answers in chunks.
std::string text_of(const Url& url, const Request& request) {
  std::string text = std::string(request.method) + " " + url.path + request.target +
                     " HTTP/1.0\r\nHost: " + host_header(url) + "\r\nConnection: close\r\n";
  if (!request.body.empty())
    text += "Content-Type: " + request.content_type +
            "\r\nContent-Length: " + std::to_string(request.body.size()) + "\r\n";
  return text + "\r\n" + request.body;
}

}  // namespace

Result<Reply> send(const Url& url, const Request& request, const ClientLimits& limits) {
  const SteadyPoint deadline =
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(limits.time);
  GNN_ASSIGN_OR_RETURN(
      ClientConnection connection, ClientConnection::open(url, limits.addresses_only, deadline)
  );
  GNN_RETURN_IF_ERROR(connection.send(text_of(url, request)));
  return receive(connection, limits.body_bytes);
}

}  // namespace gnn::http
