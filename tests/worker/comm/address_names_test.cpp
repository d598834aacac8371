#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>

namespace gnn::comm {
namespace {

// This one has a name on every machine.
TEST(AddressNames, AnAddressIsItsOwnName) {
  sockaddr_in loopback{};
  loopback.sin_family = AF_INET;
  loopback.sin_port = htons(80);
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  char host[NI_MAXHOST] = {};
  char service[NI_MAXSERV] = {};
  const auto* address = reinterpret_cast<const sockaddr*>(&loopback);
  ASSERT_EQ(
      ::getnameinfo(address, sizeof loopback, host, sizeof host, service, sizeof service, 0), 0
  );
  EXPECT_EQ(std::string(host), "127.0.0.1");
  EXPECT_EQ(std::string(service), "80");
}

}  // namespace
}  // namespace gnn::comm
