#include "common/host_port.h"

#include <gtest/gtest.h>

namespace gnn {
namespace {

TEST(HostPort, ReadsAllForms) {
  EXPECT_EQ(parse_host_port(":8080").value().host, "");
  EXPECT_EQ(parse_host_port("127.0.0.1:0").value().port, 0);
  EXPECT_EQ(parse_host_port("[::1]:80").value().host, "::1");
  for (const char* text : {"", "8080", "a:b", "::1:80", "x:70000", "x:-1", "x:", "x:80 "}) {
    EXPECT_FALSE(parse_host_port(text)) << text;
  }
}

TEST(HostPort, WritesWhatItReads) {
  for (const char* text : {":8080", "127.0.0.1:0", "[::1]:80", "name:9"}) {
    const HostPort address = parse_host_port(text).value();
    EXPECT_EQ(format_host_port(address.host, address.port), text);
  }
}

TEST(HostPort, SaysWhatItExpectedAndFound) {
  const auto address = parse_host_port("8080");
  ASSERT_FALSE(address);
  EXPECT_EQ(address.error().kind, ErrorKind::Configuration);
  EXPECT_EQ(address.error().message, "expected HOST:PORT, found '8080'");
}

}  // namespace
}  // namespace gnn
