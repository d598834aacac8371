#include "controller/client/cpprest_transport.h"

#include "common/guarded.h"
#include "common/log.h"

#include <cpprest/http_client.h>
#include <openssl/ssl.h>
#include <pplx/threadpool.h>

#include <map>
#include <mutex>
#include <stop_token>
#include <utility>

// The only file that knows cpprestsdk. What it does about the library's traps: the time-out is an
// idle timer of the client object, so there is one client for each time-out; nothing waits inside a
// continuation; bodies are read here, under a cap, instead of by extract_*(); the CA is set by the
// callback that runs for each new connection.
namespace gnn::client {
namespace {

using web::http::client::http_client;
using web::http::client::http_client_config;
using ByteBuffer = concurrency::streams::streambuf<uint8_t>;

constexpr size_t kIoThreads = 4;  // the library's default of 40 costs an arena each

// Replaces the system's roots, which the library has added, by our CA alone.
void set_up_tls(boost::asio::ssl::context& context, const KubeConfig& config) {
  namespace ssl = boost::asio::ssl;
  boost::system::error_code error;
  constexpr auto kOptions = ssl::context::default_workarounds | ssl::context::no_tlsv1 |
                            ssl::context::no_tlsv1_1 | ssl::context::no_sslv2 |
                            ssl::context::no_sslv3;
  if (context.set_options(kOptions, error)) {
    log_error("cannot disable old TLS versions", {{"error", error.message()}});
  }
  const auto load = [](const PemSource& source, std::string_view what) -> std::string {
    auto text = source.load();
    if (text) return *text;
    // Going on is safe: without a CA the handshake fails, and so does the call.
    log_error("cannot load a TLS file", {{"what", what}, {"error", text.error().message}});
    return {};
  };
  if (!config.ca.empty()) {
    SSL_CTX_set_cert_store(context.native_handle(), X509_STORE_new());
    const std::string ca = load(config.ca, "certificate authority");
    if (!ca.empty() && context.add_certificate_authority(boost::asio::buffer(ca), error)) {
      log_error("the certificate authority is not PEM", {{"error", error.message()}});
    }
  }
  if (!config.client_certificate.empty()) {
    const std::string certificate = load(config.client_certificate, "client certificate");
    const std::string key = load(config.client_key, "client key");
    if (context.use_certificate_chain(boost::asio::buffer(certificate), error)) {
      log_error("the client certificate is not PEM", {{"error", error.message()}});
    }
    if (context.use_private_key(boost::asio::buffer(key), ssl::context::pem, error)) {
      log_error(
          "the client key does not match the client certificate", {{"error", error.message()}}
      );
    }
  }
}

Error error_from(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const pplx::task_canceled&) {
    return {.kind = ErrorKind::Cancelled, .message = "cancelled"};
  } catch (const web::http::http_exception& error) {
    ErrorKind kind = ErrorKind::Network;
    if (error.error_code() == std::errc::timed_out) kind = ErrorKind::Timeout;
    if (error.error_code() == std::errc::operation_canceled) kind = ErrorKind::Cancelled;
    std::string message = error.what();
    // All that cpprestsdk says of a certificate that does not pass.
    if (message == "Error in SSL handshake") {
      message +=
          "; the server's certificate must be of the CA given, name the server and be in date";
    }
    return {.kind = kind, .message = std::move(message)};
  } catch (const std::exception& error) {
    return {.kind = ErrorKind::Network, .message = error.what()};
  }
}

// The server's URL as the library wants it. It resolves the host, and compares it with the
// certificate, as it stands there: an IPv6 address with its brackets is found nowhere. Without them it
// takes what follows the last colon for the port, hence that is always written. The Host header then
// lacks them too, which API servers accept; one of ours would be compared with the certificate.
web::uri uri_of(const std::string& server) {
  web::uri written(server);
  const std::string& host = written.host();
  if (!host.starts_with('[') || !host.ends_with(']')) return written;
  const int standard = written.scheme() == "https" ? 443 : 80;
  const std::string port = std::to_string(written.port() > 0 ? written.port() : standard);
  const std::string bare = host.substr(1, host.size() - 2);
  return web::uri(written.scheme() + "://" + bare + ":" + port + written.path());
}

std::map<std::string, std::string> kept_headers(const web::http::http_headers& headers) {
  std::map<std::string, std::string> kept;
  for (const char* name : {"retry-after", "content-type", "date", "age"}) {
    const auto found = headers.find(name);
    if (found != headers.end()) kept.emplace(name, found->second);
  }
  return kept;
}

// The library's cancellation, on when a stop is requested. Cancelling closes the connection.
class Cancellation {
 public:
  explicit Cancellation(std::stop_token stop) : on_stop_(std::move(stop), Cancel{source_}) {}

  [[nodiscard]] pplx::cancellation_token token() const { return source_.get_token(); }
  [[nodiscard]] bool cancelled() const { return source_.get_token().is_canceled(); }
  void cancel() const { source_.cancel(); }

 private:
  struct Cancel {
    pplx::cancellation_token_source source;
    void operator()() const { source.cancel(); }
  };
  pplx::cancellation_token_source source_;
  std::stop_callback<Cancel> on_stop_;
};

class CpprestStream final : public HttpStream {
 public:
  CpprestStream(web::http::http_response response, std::unique_ptr<Cancellation> cancellation)
      : response_(std::move(response)),
        cancellation_(std::move(cancellation)),
        headers_(kept_headers(response_.headers())),
        buffer_(response_.body().streambuf()) {}

  // After a body read to its end, the connection serves the next request.
  ~CpprestStream() override {
    if (!ended_) cancellation_->cancel();
  }

  [[nodiscard]] int status() const override { return response_.status_code(); }
  [[nodiscard]] const std::map<std::string, std::string>& headers() const override {
    return headers_;
  }

  [[nodiscard]] Result<std::string> read() override {
    try {
      // Waits for one byte, then takes what came with it.
      const auto first = buffer_.bumpc().get();
      if (first == ByteBuffer::traits::eof()) {
        if (cancellation_->cancelled()) return fail(ErrorKind::Cancelled, "cancelled");
        ended_ = true;
        return std::string();
      }
      std::string bytes(1, static_cast<char>(first));
      const size_t available = std::min(buffer_.in_avail(), size_t{256} << 10U);
      if (available > 0) {
        bytes.resize(1 + available);
        auto* target = reinterpret_cast<uint8_t*>(bytes.data() + 1);
        const size_t count = buffer_.getn(target, available).get();
        bytes.resize(1 + count);
      }
      return bytes;
    } catch (...) {
      Error error = error_from(std::current_exception());
      if (cancellation_->cancelled()) error.kind = ErrorKind::Cancelled;
      return tl::unexpected<Error>(std::move(error));
    }
  }

 private:
  web::http::http_response response_;
  std::unique_ptr<Cancellation> cancellation_;
  std::map<std::string, std::string> headers_;
  ByteBuffer buffer_;
  bool ended_ = false;
};

class CpprestTransport final : public HttpTransport {
 public:
  CpprestTransport(KubeConfig config, web::uri base)
      : config_(std::move(config)), base_(std::move(base)) {}

  [[nodiscard]] Result<HttpResponse> send(const HttpRequest& request) override {
    const auto deadline = std::chrono::steady_clock::now() + request.timeout;
    auto stream = open(request);
    if (!stream) return tl::unexpected<Error>(std::move(stream).error());
    HttpResponse response;
    response.status = (*stream)->status();
    response.headers = (*stream)->headers();
    while (true) {
      auto bytes = (*stream)->read();
      if (!bytes) return tl::unexpected<Error>(std::move(bytes).error());
      if (bytes->empty()) return response;
      response.body += *bytes;
      if (static_cast<int64_t>(response.body.size()) > request.max_body_bytes) {
        return fail(
            ErrorKind::Data,
            "expected a body of at most " + std::to_string(request.max_body_bytes) + " bytes"
        );
      }
      if (std::chrono::steady_clock::now() > deadline) {
        return fail(ErrorKind::Timeout, "timed out before the body's end");
      }
    }
  }

  [[nodiscard]] Result<std::unique_ptr<HttpStream>> open(const HttpRequest& request) override {
    auto cancellation = std::make_unique<Cancellation>(request.stop);
    try {
      web::http::http_request message(request.method);
      message.set_request_uri(web::uri(request.path));
      message.headers().add("Accept", request.accept);
      message.headers().add("User-Agent", "gnn-controller");
      if (!request.bearer_token.empty()) {
        message.headers().add("Authorization", "Bearer " + request.bearer_token);
      }
      if (!request.content_type.empty()) message.set_body(request.body, request.content_type);
      auto response = client_for(request.timeout)->request(message, cancellation->token()).get();
      return std::make_unique<CpprestStream>(std::move(response), std::move(cancellation));
    } catch (...) {
      Error error = error_from(std::current_exception());
      if (cancellation && cancellation->cancelled()) error.kind = ErrorKind::Cancelled;
      return tl::unexpected<Error>(std::move(error));
    }
  }

 private:
  std::shared_ptr<http_client> client_for(Duration timeout) {
    auto clients = clients_.lock();
    auto& client = (*clients)[timeout];
    if (!client) {
      http_client_config options;
      options.set_timeout(std::chrono::ceil<std::chrono::milliseconds>(timeout));
      options.set_validate_certificates(true);
      options.set_ssl_context_callback([config = config_](boost::asio::ssl::context& context) {
        set_up_tls(context, config);
      });
      client = std::make_shared<http_client>(base_, options);
    }
    return client;
  }

  const KubeConfig config_;
  const web::uri base_;
  Guarded<std::map<Duration, std::shared_ptr<http_client>>> clients_;
};

}  // namespace

Result<std::unique_ptr<HttpTransport>> make_cpprest_transport(const KubeConfig& config) {
  static std::once_flag once;
  std::call_once(once, [] {
    try {
      crossplat::threadpool::initialize_with_threads(kIoThreads);
    } catch (const std::exception& error) {
      // The library is already in use in this process, with its default.
      log_debug("cpprestsdk keeps its threads", {{"reason", error.what()}});
    }
  });
  try {
    return std::make_unique<CpprestTransport>(config, uri_of(config.server));
  } catch (const std::exception& error) {
    return fail(ErrorKind::Configuration, "server URL '" + config.server + "': " + error.what());
  }
}

}  // namespace gnn::client
