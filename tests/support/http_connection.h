#pragma once

#include "common/result.h"
#include "tests/support/http.h"

#include <openssl/ssl.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

// The wire level that http.cpp and fault_proxy.cpp share.
namespace gnn::testing {

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNoDeadline = Deadline::max();
[[nodiscard]] inline Deadline deadline_in(std::chrono::milliseconds duration) {
  return std::chrono::steady_clock::now() + duration;
}

struct SslContextDeleter {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using SslContext = std::unique_ptr<SSL_CTX, SslContextDeleter>;
[[nodiscard]] Result<SslContext> make_server_context(
    const std::string& certificate_file, const std::string& key_file
);

/// A TCP connection, with TLS or without.
/// Threads: one thread, except interrupt().
class Connection {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Connection>> connect(
      const HttpEndpoint& endpoint, Deadline deadline
  );
  /// Owns `fd` also on error. `context` may be null: no TLS.
  [[nodiscard]] static Result<std::unique_ptr<Connection>> accept(
      int fd, SSL_CTX* context, Deadline deadline
  );
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  /// At least one byte, or 0 at the end of the stream.
  /// Errors: Timeout, Network.
  [[nodiscard]] Result<size_t> read_some(char* buffer, size_t size, Deadline deadline);
  /// What is there now; nullopt: nothing yet.
  [[nodiscard]] Result<std::optional<size_t>> try_read(char* buffer, size_t size);
  [[nodiscard]] Status write_all(std::string_view data, Deadline deadline);

  /// Makes every pending and later operation fail; the peer sees the end of the stream.
  void interrupt();
  /// The destructor then closes with a TCP reset.
  void reset_on_close() { reset_ = true; }
  /// The destructor then says goodbye at the TLS level first.
  void close_orderly() { orderly_ = true; }

  [[nodiscard]] int fd() const { return fd_; }

 private:
  explicit Connection(int fd) : fd_(fd) {}
  [[nodiscard]] Status handshake(bool server, Deadline deadline);
  [[nodiscard]] Status wait(short events, Deadline deadline) const;

  int fd_;
  SSL* ssl_ = nullptr;
  bool reset_ = false;
  bool orderly_ = false;
};

/// Reads HTTP heads and bodies from one connection.
class HttpReader {
 public:
  explicit HttpReader(Connection& connection) : connection_(connection) {}

  struct Head {
    std::string first_line;
    HttpHeaders headers;
  };
  /// nullopt: the peer ended the stream before the first byte.
  [[nodiscard]] Result<std::optional<Head>> read_head(Deadline deadline);

  /// How the body that follows is delimited.
  enum class Framing { None, Length, Chunked, UntilClose };
  /// `length` only with Length.
  void begin_body(Framing framing, int64_t length);
  /// The next decoded bytes; empty: the body is complete.
  /// Errors: Network if the stream ends inside it.
  [[nodiscard]] Result<std::string> read_body(Deadline deadline);
  /// read_body() until it is complete.
  [[nodiscard]] Result<std::string> read_whole_body(Deadline deadline);

  /// Bytes wait in the buffer: the next read may succeed without the connection becoming readable.
  [[nodiscard]] bool has_buffered() const { return !buffer_.empty(); }
  /// Takes what has arrived, without waiting; false: the peer has left.
  [[nodiscard]] bool peer_is_there();

 private:
  [[nodiscard]] Status fill(Deadline deadline);
  [[nodiscard]] Result<std::string> take_line(Deadline deadline);
  [[nodiscard]] std::string take(int64_t limit);

  Connection& connection_;
  std::string buffer_;
  bool at_end_ = false;
  Framing framing_ = Framing::None;
  int64_t remaining_ = 0;  // of the body or of the chunk
  bool in_chunk_ = false;
  bool complete_ = true;
};

struct ReplyHead {
  int status = 0;
  HttpReader::Head head;
  HttpReader::Framing framing = HttpReader::Framing::None;
  int64_t length = 0;
};
/// Reads a reply's head (skipping 1xx) and prepares `reader` for its body.
[[nodiscard]] Result<ReplyHead> read_reply_head(
    HttpReader& reader, std::string_view method, Deadline deadline
);

}  // namespace gnn::testing
