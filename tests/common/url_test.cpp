#include "common/url.h"

#include <gtest/gtest.h>

#include <string>

namespace gnn {
namespace {

TEST(Url, ReadsHostPortAndPathAndRefusesWhatCouldMeanAnotherServerOrRequest) {
  EXPECT_EQ(parse_url("https://mlflow.example").value(), (Url{true, "mlflow.example", 443, ""}));
  EXPECT_EQ(parse_url("http://a-b.c:5000/x/y/").value(), (Url{false, "a-b.c", 5000, "/x/y"}));
  EXPECT_EQ(parse_url("http://[::1]/").value(), (Url{false, "::1", 80, ""}));
  for (const std::string text :
       {"",
        "mlflow",
        "ftp://a",
        "HTTP://a",
        "http://",
        "http://:80",
        "http:///x",
        "http://u@a",
        "http://u:p@a",
        "http://a:0",
        "http://a:65536",
        "http://a:+1",
        "http://a:1x",
        "http://a:",
        "http://[::1",
        "http://[]",
        "http://[::1]x",
        "http://[x%y]",
        "http://a b",
        "http://a\\b",
        "http://a?x",
        "http://a/x?y",
        "http://a/#x",
        "http://a/x y",
        "http://a/\r\nHost: b",
        "http://a\r\n",
        "http://a/%2e"})
    EXPECT_FALSE(parse_url(text)) << text;
  const auto secret = parse_url("http://user:hunter2@a");
  EXPECT_EQ(secret.error().message.find("hunter2"), std::string::npos);
}

}  // namespace
}  // namespace gnn
