#pragma once

#include "tests/support/http_connection.h"
#include "tests/support/must.h"

#include <openssl/ssl.h>

#include <arpa/inet.h>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace gnn::testing {

/// What a client asked.
struct ScriptedRequest {
  std::string line{};  ///< "POST /x HTTP/1.0"
  std::string body{};
};

/// "HTTP/1.1 STATUS" with that body.
inline std::string http_answer(std::string_view status, std::string_view body) {
  return "HTTP/1.1 " + std::string(status) + "\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + std::string(body);
}

/// A server on 127.0.0.1 that answers each request, one to a connection, with the bytes that a function
/// gives: no bytes leave the client without an answer for as long as the server lives.
class ScriptedServer {
 public:
  using Answer = std::function<std::string(const ScriptedRequest& request)>;

  /// `answer` is called on the server's thread. With a context it speaks TLS.
  explicit ScriptedServer(Answer answer, SslContext context = nullptr)
      : answer_(std::move(answer)),
        context_(std::move(context)),
        listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    ::listen(listener_, 8);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~ScriptedServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  [[nodiscard]] uint16_t port() const { return port_; }

 private:
  void run() {
    while (true) {
      const int client = ::accept(listener_, nullptr, nullptr);
      if (client < 0) return;
      serve(client);
    }
  }

  void serve(int client) {
    const Deadline deadline = deadline_in(std::chrono::seconds(10));
    auto connection = Connection::accept(client, context_.get(), deadline);
    if (!connection) return;  // the client may refuse the certificate
    HttpReader reader(**connection);
    auto head = reader.read_head(deadline);
    if (!head || !*head) return;
    ScriptedRequest request{.line = (*head)->first_line};
    const auto length = (*head)->headers.find("content-length");
    if (length) {
      reader.begin_body(HttpReader::Framing::Length, std::stoll(*length));
      request.body = must(reader.read_whole_body(deadline));
    }
    const std::string answer = answer_(request);
    if (answer.empty()) return silent_.push_back(*std::move(connection));
    // A client that has read enough may be gone.
    static_cast<void>((*connection)->write_all(answer, deadline));
    (*connection)->close_orderly();
  }

  Answer answer_;
  SslContext context_;
  int listener_;
  uint16_t port_ = 0;
  std::vector<std::unique_ptr<Connection>> silent_;  // the thread's
  std::thread thread_;
};

}  // namespace gnn::testing
