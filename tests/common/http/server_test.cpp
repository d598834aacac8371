#include "common/http/server.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <httplib.h>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace gnn::http {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

std::unique_ptr<Server> serve(const Limits& limits) {
  auto server = Server::start(
      {.host = "127.0.0.1",
       .pages = {{.path = "/healthz", .answer = [] { return Response{.body = "ok\n"}; }}},
       .limits = limits}
  );
  EXPECT_TRUE(server.has_value());
  return std::move(*server);
}

// A client that the test plays byte by byte.
class RawClient {
 public:
  explicit RawClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~RawClient() { ::close(socket_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool send(const std::string& text) const {
    return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  // What comes until the server closes the connection.
  std::string read_all() const {
    std::string text;
    char piece[1024];
    for (ssize_t size = 0; (size = ::recv(socket_, piece, sizeof piece, 0)) > 0;)
      text.append(piece, static_cast<size_t>(size));
    return text;
  }
  // 0 if the server closes the connection.
  char read_one() const {
    char one = 0;
    return ::recv(socket_, &one, 1, 0) == 1 ? one : '\0';
  }

 private:
  int socket_;
};

std::string health_of(const Server& server) {
  httplib::Client client("127.0.0.1", server.port());
  const auto answer = client.Get("/healthz");
  return answer ? std::to_string(answer->status) + " " + answer->body : "no answer";
}

TEST(HttpServer, AnswersItsPagesAndNoOthers) {
  const auto server = Server::start(
      {.host = "127.0.0.1",
       .pages =
           {{.path = "/metrics",
             .answer = [] { return Response{.content_type = "text/x", .body = "up 1\n"}; }},
            {.path = "/readyz",
             .answer = [] { return Response{.status = 503, .body = "not yet\n"}; }}}}
  );
  ASSERT_TRUE(server.has_value());
  httplib::Client client("127.0.0.1", (*server)->port());
  const auto metrics = client.Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_EQ(metrics->body, "up 1\n");
  EXPECT_EQ(metrics->get_header_value("Content-Type"), "text/x");
  EXPECT_EQ(client.Get("/readyz")->status, 503);
  EXPECT_EQ(client.Get("/else")->status, 404);
}

TEST(HttpServer, SaysWhereItCannotListen) {
  const auto server = Server::start({.host = "192.0.2.1", .port = 9});
  ASSERT_FALSE(server.has_value());
  EXPECT_NE(server.error().message.find("192.0.2.1:9"), std::string::npos);
}

// A header that never ends is cut off instead of being kept.
TEST(HttpServer, ReadsOnlySoMuchOfARequest) {
  const auto server = serve({.request_time = hours(1)});
  const RawClient client(server->port());
  ASSERT_TRUE(client.send("GET /healthz HTTP/1.1\r\nX: "));
  const std::string piece(64 * 1024, 'x');
  int pieces = 0;
  while (pieces < 1024 && client.send(piece)) ++pieces;
  EXPECT_LT(pieces, 1024) << "64 MiB were taken";
  EXPECT_EQ(health_of(*server), "200 ok\n");
}

TEST(HttpServer, TakesARequestThatComesInPieces) {
  const auto server = serve({.request_time = hours(1)});
  const RawClient client(server->port());
  for (const char piece : std::string("GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n"))
    ASSERT_TRUE(client.send({piece}));
  EXPECT_NE(client.read_all().find("200 OK"), std::string::npos);
}

// More of them than there may be connections, and none ever runs out of time.
TEST(HttpServer, ClientsThatSayNothingDoNotKeepOthersOut) {
  const auto server = serve({.request_time = hours(1), .connections = 16});
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(std::make_unique<RawClient>(server->port()));
    if (i % 2 == 0) silent.back()->send("GET");
  }
  EXPECT_EQ(health_of(*server), "200 ok\n");
}

TEST(HttpServer, ClientsThatDoNotTakeTheirAnswerDoNotKeepOthersOut) {
  const std::string large(size_t{8} << 20, 'x');
  const auto server = Server::start(
      {.host = "127.0.0.1",
       .pages =
           {{.path = "/healthz", .answer = [] { return Response{.body = "ok\n"}; }},
            {.path = "/large", .answer = [&] { return Response{.body = large}; }}},
       .limits = {.request_time = hours(1), .connections = 8}}
  );
  ASSERT_TRUE(server.has_value());
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 12; ++i) {
    slow.push_back(std::make_unique<RawClient>((*server)->port()));
    ASSERT_TRUE(slow.back()->send("GET /large HTTP/1.1\r\n\r\n"));
    ASSERT_EQ(slow.back()->read_one(), 'H') << "client " << i;
  }
  EXPECT_EQ(health_of(**server), "200 ok\n");
}

TEST(HttpServer, ClosesAConnectionWhoseTimeIsOver) {
  const auto server = serve({.request_time = milliseconds(50)});
  const RawClient client(server->port());
  ASSERT_TRUE(client.send("GET /hea"));
  EXPECT_EQ(client.read_all(), "");
}

TEST(HttpServer, ClosesTheOldestConnectionBeyondItsLimit) {
  const auto server = serve({.request_time = hours(1), .connections = 2});
  const RawClient first(server->port());
  const RawClient second(server->port());
  const RawClient third(server->port());
  EXPECT_EQ(first.read_all(), "");
  ASSERT_TRUE(second.send("GET /healthz HTTP/1.1\r\n\r\n"));
  EXPECT_NE(second.read_all().find("200 OK"), std::string::npos);
}

TEST(HttpServer, ItsEndWaitsForNoClient) {
  auto server = serve({.request_time = hours(1)});
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 10; ++i) silent.push_back(std::make_unique<RawClient>(server->port()));
  ASSERT_TRUE(silent.front()->send("GET /hea"));
  server.reset();
  for (const auto& client : silent) EXPECT_EQ(client->read_all(), "");
}

}  // namespace
}  // namespace gnn::http
