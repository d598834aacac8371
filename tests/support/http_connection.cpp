#include "tests/support/http_connection.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <mutex>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace gnn::testing {
namespace {

constexpr int64_t kMaxHeadBytes = 1 << 20;

std::string system_error(std::string_view what) {
  return std::string(what) + ": " + std::strerror(errno);
}

std::string ssl_error(std::string_view what) {
  std::string text(what);
  while (const unsigned long code = ERR_get_error()) {
    char buffer[256];
    ERR_error_string_n(code, buffer, sizeof(buffer));
    text += std::string(": ") + buffer;
  }
  return text;
}

// OpenSSL writes with plain write(2), so a peer that left would end the test by SIGPIPE.
void ignore_sigpipe() {
  static std::once_flag once;
  std::call_once(once, [] { std::signal(SIGPIPE, SIG_IGN); });
}

void set_nonblocking(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

int poll_timeout(Deadline deadline) {
  if (deadline == kNoDeadline) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000));
}

Result<SslContext> make_client_context(const HttpEndpoint& endpoint) {
  SslContext context(SSL_CTX_new(TLS_client_method()));
  if (!context) return fail(ErrorKind::Internal, ssl_error("SSL_CTX_new"));
  if (!endpoint.ca_file.empty()) {
    if (SSL_CTX_load_verify_locations(context.get(), endpoint.ca_file.c_str(), nullptr) != 1) {
      return fail(ErrorKind::Io, ssl_error("CA file " + endpoint.ca_file));
    }
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  }
  if (!endpoint.certificate_file.empty()) {
    if (SSL_CTX_use_certificate_chain_file(context.get(), endpoint.certificate_file.c_str()) != 1 ||
        SSL_CTX_use_PrivateKey_file(context.get(), endpoint.key_file.c_str(), SSL_FILETYPE_PEM) !=
            1) {
      return fail(ErrorKind::Io, ssl_error("client certificate " + endpoint.certificate_file));
    }
  }
  return context;
}

std::string trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

}  // namespace

Result<SslContext> make_server_context(
    const std::string& certificate_file, const std::string& key_file
) {
  SslContext context(SSL_CTX_new(TLS_server_method()));
  if (!context) return fail(ErrorKind::Internal, ssl_error("SSL_CTX_new"));
  if (SSL_CTX_use_certificate_chain_file(context.get(), certificate_file.c_str()) != 1 ||
      SSL_CTX_use_PrivateKey_file(context.get(), key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return fail(ErrorKind::Io, ssl_error("server certificate " + certificate_file));
  }
  return context;
}

Result<std::unique_ptr<Connection>> Connection::connect(
    const HttpEndpoint& endpoint, Deadline deadline
) {
  ignore_sigpipe();
  GNN_ASSIGN_OR_RETURN(const UrlParts url, parse_url(endpoint.url));
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int rc = getaddrinfo(url.host.c_str(), nullptr, &hints, &found); rc != 0) {
    return fail(ErrorKind::Network, "resolving " + url.host + ": " + gai_strerror(rc));
  }
  sockaddr_in address{};
  std::memcpy(&address, found->ai_addr, sizeof(address));
  freeaddrinfo(found);
  address.sin_port = htons(url.port);

  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return fail(ErrorKind::Network, system_error("socket"));
  std::unique_ptr<Connection> connection(new Connection(fd));
  set_nonblocking(fd);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno != EINPROGRESS) {
      return fail(ErrorKind::Network, system_error("connecting to " + endpoint.url));
    }
    GNN_RETURN_IF_ERROR(connection->wait(POLLOUT, deadline));
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      errno = error;
      return fail(ErrorKind::Network, system_error("connecting to " + endpoint.url));
    }
  }
  if (!url.tls) return connection;

  GNN_ASSIGN_OR_RETURN(const SslContext context, make_client_context(endpoint));
  connection->ssl_ = SSL_new(context.get());
  X509_VERIFY_PARAM* parameters = SSL_get0_param(connection->ssl_);
  if (X509_VERIFY_PARAM_set1_ip_asc(parameters, url.host.c_str()) != 1) {
    SSL_set1_host(connection->ssl_, url.host.c_str());
    SSL_set_tlsext_host_name(connection->ssl_, url.host.c_str());
  }
  GNN_RETURN_IF_ERROR(connection->handshake(false, deadline));
  return connection;
}

Result<std::unique_ptr<Connection>> Connection::accept(
    int fd, SSL_CTX* context, Deadline deadline
) {
  ignore_sigpipe();
  std::unique_ptr<Connection> connection(new Connection(fd));
  set_nonblocking(fd);
  if (context != nullptr) {
    connection->ssl_ = SSL_new(context);
    GNN_RETURN_IF_ERROR(connection->handshake(true, deadline));
  }
  return connection;
}

Connection::~Connection() {
  if (ssl_ != nullptr) {
    if (orderly_ && !reset_) SSL_shutdown(ssl_);
    SSL_free(ssl_);
  }
  if (reset_) {
    const linger now{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  }
  ERR_clear_error();
  close(fd_);
}

Status Connection::wait(short events, Deadline deadline) const {
  while (true) {
    pollfd entry{.fd = fd_, .events = events, .revents = 0};
    const int ready = poll(&entry, 1, poll_timeout(deadline));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail(ErrorKind::Network, system_error("poll"));
    if (ready == 0 && std::chrono::steady_clock::now() >= deadline) {
      return fail(ErrorKind::Timeout, "nothing came in time");
    }
  }
}

Status Connection::handshake(bool server, Deadline deadline) {
  SSL_set_fd(ssl_, fd_);
  while (true) {
    ERR_clear_error();
    const int rc = server ? SSL_accept(ssl_) : SSL_connect(ssl_);
    if (rc == 1) return {};
    switch (SSL_get_error(ssl_, rc)) {
      case SSL_ERROR_WANT_READ:
        GNN_RETURN_IF_ERROR(wait(POLLIN, deadline));
        break;
      case SSL_ERROR_WANT_WRITE:
        GNN_RETURN_IF_ERROR(wait(POLLOUT, deadline));
        break;
      default:
        return fail(ErrorKind::Network, ssl_error("TLS handshake"));
    }
  }
}

Result<std::optional<size_t>> Connection::try_read(char* buffer, size_t size) {
  if (ssl_ == nullptr) {
    const ssize_t count = recv(fd_, buffer, size, 0);
    if (count >= 0) return static_cast<size_t>(count);
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return std::nullopt;
    return fail(ErrorKind::Network, system_error("receiving"));
  }
  ERR_clear_error();
  const int count = SSL_read(
      ssl_, buffer, static_cast<int>(std::min<size_t>(size, std::numeric_limits<int>::max()))
  );
  if (count > 0) return static_cast<size_t>(count);
  switch (SSL_get_error(ssl_, count)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return std::nullopt;
    case SSL_ERROR_ZERO_RETURN:
      return size_t{0};
    default:
      // An end without TLS goodbye: the framing of HTTP tells whether something is missing.
      if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) return size_t{0};
      return fail(ErrorKind::Network, ssl_error(system_error("receiving")));
  }
}

Result<size_t> Connection::read_some(char* buffer, size_t size, Deadline deadline) {
  while (true) {
    GNN_ASSIGN_OR_RETURN(const std::optional<size_t> count, try_read(buffer, size));
    if (count) return *count;
    GNN_RETURN_IF_ERROR(wait(POLLIN, deadline));
  }
}

Status Connection::write_all(std::string_view data, Deadline deadline) {
  while (!data.empty()) {
    ssize_t count = 0;
    bool want_read = false;
    if (ssl_ == nullptr) {
      count = send(fd_, data.data(), data.size(), MSG_NOSIGNAL);
      if (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        return fail(ErrorKind::Network, system_error("sending"));
      }
    } else {
      ERR_clear_error();
      // OpenSSL wants a repeated write to be the same one; a bounded piece keeps that simple.
      const int rc =
          SSL_write(ssl_, data.data(), static_cast<int>(std::min<size_t>(data.size(), 16384)));
      count = rc;
      if (rc <= 0) {
        const int error = SSL_get_error(ssl_, rc);
        if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
          return fail(ErrorKind::Network, ssl_error(system_error("sending")));
        }
        want_read = error == SSL_ERROR_WANT_READ;
      }
    }
    if (count > 0) {
      data.remove_prefix(static_cast<size_t>(count));
    } else {
      GNN_RETURN_IF_ERROR(wait(want_read ? POLLIN : POLLOUT, deadline));
    }
  }
  return {};
}

void Connection::interrupt() {
  shutdown(fd_, SHUT_RDWR);
}

Status HttpReader::fill(Deadline deadline) {
  char bytes[16384];
  GNN_ASSIGN_OR_RETURN(const size_t count, connection_.read_some(bytes, sizeof(bytes), deadline));
  if (count == 0) at_end_ = true;
  buffer_.append(bytes, count);
  return {};
}

bool HttpReader::peer_is_there() {
  char bytes[4096];
  while (!at_end_) {
    const auto count = connection_.try_read(bytes, sizeof(bytes));
    if (!count) return false;
    if (!*count) return true;
    if (**count == 0) at_end_ = true;
    buffer_.append(bytes, **count);
  }
  return false;
}

Result<std::string> HttpReader::take_line(Deadline deadline) {
  size_t from = 0;
  while (true) {
    if (const size_t end = buffer_.find('\n', from); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      return line;
    }
    if (std::ssize(buffer_) > kMaxHeadBytes) {
      return fail(ErrorKind::Network, "an HTTP head line without end");
    }
    if (at_end_)
      return fail(ErrorKind::Network, "the connection ended inside an HTTP head or chunk");
    from = buffer_.size();
    GNN_RETURN_IF_ERROR(fill(deadline));
  }
}

Result<std::optional<HttpReader::Head>> HttpReader::read_head(Deadline deadline) {
  while (buffer_.empty()) {
    if (at_end_) return std::nullopt;
    GNN_RETURN_IF_ERROR(fill(deadline));
  }
  Head head;
  GNN_ASSIGN_OR_RETURN(head.first_line, take_line(deadline));
  while (true) {
    GNN_ASSIGN_OR_RETURN(const std::string line, take_line(deadline));
    if (line.empty()) return head;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) return fail(ErrorKind::Network, "bad header line: " + line);
    head.headers.add(line.substr(0, colon), trim(std::string_view(line).substr(colon + 1)));
  }
}

void HttpReader::begin_body(Framing framing, int64_t length) {
  framing_ = framing;
  remaining_ = framing == Framing::Length ? length : 0;
  in_chunk_ = false;
  complete_ = framing == Framing::None || (framing == Framing::Length && length == 0);
}

std::string HttpReader::take(int64_t limit) {
  std::string bytes = buffer_.substr(0, static_cast<size_t>(limit));
  buffer_.erase(0, bytes.size());
  return bytes;
}

Result<std::string> HttpReader::read_body(Deadline deadline) {
  while (!complete_) {
    if (framing_ == Framing::Chunked && remaining_ == 0) {
      if (in_chunk_) {  // the line end after a chunk's data
        GNN_ASSIGN_OR_RETURN([[maybe_unused]] const std::string line_end, take_line(deadline));
        in_chunk_ = false;
      }
      GNN_ASSIGN_OR_RETURN(const std::string line, take_line(deadline));
      const auto [end, error] =
          std::from_chars(line.data(), line.data() + line.size(), remaining_, 16);
      if (error != std::errc{} || end == line.data()) {
        return fail(ErrorKind::Network, "bad chunk size: " + line);
      }
      in_chunk_ = true;
      if (remaining_ > 0) continue;
      while (true) {  // trailers
        GNN_ASSIGN_OR_RETURN(const std::string trailer, take_line(deadline));
        if (trailer.empty()) break;
      }
      complete_ = true;
      break;
    }
    if (buffer_.empty()) {
      if (at_end_) {
        if (framing_ != Framing::UntilClose) {
          return fail(ErrorKind::Network, "the connection ended inside an HTTP body");
        }
        complete_ = true;
        break;
      }
      GNN_RETURN_IF_ERROR(fill(deadline));
      continue;
    }
    if (framing_ == Framing::UntilClose) return take(std::ssize(buffer_));
    std::string bytes = take(remaining_);
    remaining_ -= std::ssize(bytes);
    if (framing_ == Framing::Length && remaining_ == 0) complete_ = true;
    return bytes;
  }
  return std::string();
}

Result<std::string> HttpReader::read_whole_body(Deadline deadline) {
  std::string body;
  while (true) {
    GNN_ASSIGN_OR_RETURN(const std::string bytes, read_body(deadline));
    if (bytes.empty()) return body;
    body += bytes;
  }
}

Result<ReplyHead> read_reply_head(HttpReader& reader, std::string_view method, Deadline deadline) {
  ReplyHead reply;
  do {
    GNN_ASSIGN_OR_RETURN(std::optional<HttpReader::Head> head, reader.read_head(deadline));
    if (!head) return fail(ErrorKind::Network, "the connection ended before a reply");
    reply.head = std::move(*head);
    const std::string& line = reply.head.first_line;  // HTTP/1.1 200 OK
    const size_t space = line.find(' ');
    if (space == std::string::npos ||
        std::from_chars(line.data() + space + 1, line.data() + line.size(), reply.status).ec !=
            std::errc{}) {
      return fail(ErrorKind::Network, "bad status line: " + line);
    }
  } while (reply.status < 200);

  const HttpHeaders& headers = reply.head.headers;
  const std::optional<std::string> length = headers.find("Content-Length");
  if (method == "HEAD" || reply.status == 204 || reply.status == 304) {
    reply.framing = HttpReader::Framing::None;
  } else if (headers.find("Transfer-Encoding").value_or("").find("chunked") != std::string::npos) {
    reply.framing = HttpReader::Framing::Chunked;
  } else if (length) {
    reply.framing = HttpReader::Framing::Length;
    const auto [end, error] =
        std::from_chars(length->data(), length->data() + length->size(), reply.length);
    if (error != std::errc{} || reply.length < 0) {
      return fail(ErrorKind::Network, "bad Content-Length: " + *length);
    }
  } else {
    reply.framing = HttpReader::Framing::UntilClose;
  }
  reader.begin_body(reply.framing, reply.length);
  return reply;
}

}  // namespace gnn::testing
