#include "common/http/server.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <cerrno>
#include <cstddef>
#include <httplib.h>
#include <iterator>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <string>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
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

std::string health_of(const Server& server, const std::string& host = "127.0.0.1") {
  httplib::Client client(host, server.port());
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

std::unique_ptr<Server> serve_everywhere() {
  auto server = Server::start({.host = "", .pages = {{.path = "/healthz", .answer = [] {
                                                        return Response{.body = "ok\n"};
                                                      }}}});
  EXPECT_TRUE(server.has_value());
  return std::move(*server);
}

TEST(HttpServer, ListensOnAllAddressesOfBothKinds) {
  const int socket = ::socket(AF_INET6, SOCK_STREAM, 0);
  if (socket < 0) GTEST_SKIP() << "this kernel has no IPv6";
  ::close(socket);
  const auto server = serve_everywhere();
  EXPECT_EQ(health_of(*server, "::1"), "200 ok\n");
  EXPECT_EQ(health_of(*server, "127.0.0.1"), "200 ok\n");
}

// As a kernel without IPv6 answers from now on.
bool switch_ipv6_off() {
  constexpr auto kFamily = static_cast<uint32_t>(offsetof(seccomp_data, args));
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFamily),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = std::size(rules), .filter = rules};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(HttpServer, ListensOnIpv4WhereTheKernelHasNoIpv6) {
  EXPECT_EXIT(
      {
        if (!switch_ipv6_off() || ::socket(AF_INET6, SOCK_STREAM, 0) >= 0) ::_exit(2);
        ::_exit(health_of(*serve_everywhere()) == "200 ok\n" ? 0 : 1);
      },
      ::testing::ExitedWithCode(0),
      ""
  );
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
