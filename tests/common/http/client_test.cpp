#include "common/http/client.h"

#include "tests/support/scripted_server.h"
#include "tests/support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace gnn::http {
namespace {

using gnn::testing::http_answer;
using gnn::testing::ScriptedRequest;
using gnn::testing::ScriptedServer;
using ::testing::HasSubstr;

TEST(HttpClient, SendsABodyAndReturnsAnyStatus) {
  ScriptedRequest got;
  ScriptedServer server([&](const ScriptedRequest& request) {
    got = request;
    return http_answer("302 Found\r\nLocation: http://169.254.169.254/", "elsewhere");
  });
  const auto reply = send(
      {.host = "localhost", .port = server.port(), .path = "/base"},
      {.method = "POST", .target = "/x?y=z", .content_type = "application/json", .body = "{}"},
      {}
  );
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 302);
  EXPECT_EQ(reply->body, "elsewhere");
  EXPECT_EQ(got.line, "POST /base/x?y=z HTTP/1.0");
  EXPECT_EQ(got.body, "{}");
}

TEST(HttpClient, LooksNoNameUpOnceItsTimeIsOver) {
  const auto reply =
      send({.host = "no address"}, {.target = "/"}, {.time = {}, .addresses_only = true});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().kind, ErrorKind::Timeout);
}

template <class T, void (*release)(T*)>
struct Release {
  void operator()(T* value) const { release(value); }
};
using Key = std::unique_ptr<EVP_PKEY, Release<EVP_PKEY, EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Release<X509, X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Release<X509_EXTENSION, X509_EXTENSION_free>>;
using File = std::unique_ptr<std::FILE, decltype(&std::fclose)>;

// A certificate that signs itself, for `names`, and its key.
struct Authority {
  explicit Authority(const std::string& names)
      : certificate_file(folder.path("certificate")), key_file(folder.path("key")) {
    const Key key(::EVP_EC_gen("P-256"));
    const Certificate certificate(::X509_new());
    ::X509_set_version(certificate.get(), X509_VERSION_3);
    ::ASN1_INTEGER_set(::X509_get_serialNumber(certificate.get()), 1);
    ::X509_gmtime_adj(::X509_getm_notBefore(certificate.get()), -60);
    ::X509_gmtime_adj(::X509_getm_notAfter(certificate.get()), 3600);
    ::X509_set_pubkey(certificate.get(), key.get());
    const Extension extension(
        ::X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str())
    );
    ::X509_add_ext(certificate.get(), extension.get(), -1);
    ::X509_sign(certificate.get(), key.get(), ::EVP_sha256());
    const File to(std::fopen(certificate_file.c_str(), "w"), &std::fclose);
    ::PEM_write_X509(to.get(), certificate.get());
    const File key_to(std::fopen(key_file.c_str(), "w"), &std::fclose);
    ::PEM_write_PrivateKey(key_to.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  }

  gnn::testing::TemporaryFolder folder;
  std::string certificate_file;
  std::string key_file;
};

// What a client comes to that trusts `trusted` alone, and asks a server that has `shown`.
Result<Reply> ask(const Authority& shown, const Authority& trusted, const std::string& host) {
  ScriptedServer server(
      [](const ScriptedRequest&) { return http_answer("200 OK", "secret"); },
      gnn::testing::must(gnn::testing::make_server_context(shown.certificate_file, shown.key_file))
  );
  ::setenv("SSL_CERT_FILE", trusted.certificate_file.c_str(), 1);
  auto reply = send({.tls = true, .host = host, .port = server.port()}, {.target = "/"}, {});
  ::unsetenv("SSL_CERT_FILE");
  return reply;
}

TEST(HttpClient, VerifiesAuthorityAndNameOfATlsServer) {
  const Authority by_name("DNS:localhost");
  const auto reply = ask(by_name, by_name, "localhost");
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->body, "secret");

  const auto stranger = ask(by_name, Authority("DNS:localhost"), "localhost");
  ASSERT_FALSE(stranger);
  EXPECT_THAT(stranger.error().message, HasSubstr("certificate"));
  const auto other_name = ask(by_name, by_name, "127.0.0.1");
  ASSERT_FALSE(other_name);
  EXPECT_THAT(other_name.error().message, HasSubstr("certificate"));

  const Authority by_address("IP:127.0.0.1");
  EXPECT_TRUE(ask(by_address, by_address, "127.0.0.1"));
}

}  // namespace
}  // namespace gnn::http
