#include "controller/client/kube_config.h"

#include "tests/support/fake_clock.h"
#include "tests/support/temporary_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace gnn::client {
namespace {

std::string kubeconfig(const std::string& cluster, const std::string& user) {
  return R"(apiVersion: v1
kind: Config
current-context: main
contexts:
- {name: other, context: {cluster: nowhere, user: nobody}}
- {name: main, context: {cluster: c, user: u, namespace: team}}
clusters:
- {name: c, cluster: )" +
         cluster + R"(}
users:
- {name: u, user: )" +
         user + "}\n";
}

class Files : public ::testing::Test {
 protected:
  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    return folder_.write(name, text);
  }

  gnn::testing::TemporaryFolder folder_;
};

TEST(Kubeconfig, ReadsInlineDataAndRelativeFiles) {
  const KubeConfig config = parse_kubeconfig(
                                kubeconfig(
                                    "{server: 'https://10.0.0.1:6443', certificate-authority-data: "
                                    "SGVsbG8sIENBIQ==}",
                                    "{client-certificate: pki/me.crt, client-key: /abs/me.key}"
                                ),
                                "/home/x/.kube"
  )
                                .value();
  EXPECT_EQ(config.server, "https://10.0.0.1:6443");
  EXPECT_EQ(config.ca.load().value(), "Hello, CA!");
  EXPECT_EQ(config.client_certificate.file, "/home/x/.kube/pki/me.crt");
  EXPECT_EQ(config.client_key.file, "/abs/me.key");
  EXPECT_EQ(config.namespace_, "team");
}

TEST(Kubeconfig, RefusesWhatItWouldNotDoSafely) {
  const std::string server = "{server: 'https://x'}";
  const struct {
    std::string cluster;
    std::string user;
    std::string says;
  } cases[] = {
      {server, "{exec: {command: aws}}", "'exec' is not supported"},
      {server, "{auth-provider: {name: gcp}}", "'auth-provider' is not supported"},
      {server, "{username: a, password: b}", "'username' is not supported"},
      {"{server: 'https://x', insecure-skip-tls-verify: true}", "{}", "insecure-skip-tls-verify"},
      {"{server: 'http://example.com'}", "{}", "https://"},
      {"{server: 'http://localhost.evil.com'}", "{}", "https://"},
      {"{server: 'https://x', proxy-url: 'http://p'}", "{}", "'proxy-url' is not supported"},
      {server, "{client-certificate: a}", "or neither"},
      {"{server: 'https://x', certificate-authority-data: '*'}", "{}", "expected base64"},
  };
  for (const auto& each : cases) {
    const auto config = parse_kubeconfig(kubeconfig(each.cluster, each.user), "/");
    ASSERT_FALSE(config) << each.cluster << each.user;
    EXPECT_EQ(config.error().kind, ErrorKind::Configuration);
    EXPECT_NE(config.error().message.find(each.says), std::string::npos) << config.error().message;
  }
}

TEST(Kubeconfig, NamesTheEntryThatIsMissing) {
  const auto config = parse_kubeconfig(kubeconfig("{server: 'https://x'}", "{}"), "/", "other");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().message, "no entry 'nowhere' in clusters");
}

TEST(Kubeconfig, TextThatIsNoKubeconfigIsAnError) {
  for (const char* text : {"", "[", "[]", "a: b", "current-context: [1]", "\xff\xfe"}) {
    EXPECT_FALSE(parse_kubeconfig(text, "/")) << text;
  }
}

TEST(InCluster, OutsideAPodItSaysSo) {
  const auto config = in_cluster_config(std::nullopt, std::nullopt);
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().kind, ErrorKind::NotFound);
}

TEST_F(Files, InClusterReadsTheServiceAccount) {
  static_cast<void>(write("token", "secret\n"));
  static_cast<void>(write("ca.crt", "CA"));
  static_cast<void>(write("namespace", "system"));
  const KubeConfig config = in_cluster_config("fd00::1", "443", folder_.path()).value();
  EXPECT_EQ(config.server, "https://[fd00::1]:443");
  EXPECT_EQ(config.namespace_, "system");
  EXPECT_EQ(config.ca.load().value(), "CA");
}

TEST_F(Files, TokenIsReadAgainAfterAMinuteAndOnRefusal) {
  gnn::testing::FakeClock clock;
  KubeConfig config;
  config.token_file = write("token", "one\n");
  TokenSource tokens(config, clock);
  EXPECT_EQ(tokens.token(), "one");
  static_cast<void>(write("token", "two\n"));
  clock.advance(std::chrono::seconds(59));
  EXPECT_EQ(tokens.token(), "one");
  clock.advance(std::chrono::seconds(1));
  EXPECT_EQ(tokens.token(), "two");
  static_cast<void>(write("token", "three\n"));
  EXPECT_TRUE(tokens.refresh_after_refusal());
  EXPECT_FALSE(tokens.refresh_after_refusal());
  EXPECT_EQ(tokens.token(), "three");
}

TEST_F(Files, AVanishedTokenFileKeepsTheLastToken) {
  gnn::testing::FakeClock clock;
  KubeConfig config;
  config.token_file = write("token", "one");
  TokenSource tokens(config, clock);
  EXPECT_EQ(tokens.token(), "one");
  std::filesystem::remove(config.token_file);
  clock.advance(std::chrono::minutes(2));
  EXPECT_EQ(tokens.token(), "one");
}

}  // namespace
}  // namespace gnn::client
