#include "tests/support/http.h"

#include "tests/support/http_connection.h"

#include <algorithm>
#include <charconv>
#include <strings.h>
#include <utility>

namespace gnn::testing {
namespace {

bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

std::string request_text(
    const HttpEndpoint& endpoint,
    std::string_view method,
    std::string_view target,
    std::string_view body,
    const HttpHeaders& headers
) {
  std::string text = std::string(method) + " " + std::string(target) + " HTTP/1.1\r\n";
  text += "Host: " + endpoint.url.substr(endpoint.url.find("//") + 2) + "\r\nConnection: close\r\n";
  if (!endpoint.bearer_token.empty()) {
    text += "Authorization: Bearer " + endpoint.bearer_token + "\r\n";
  }
  for (const auto& [name, value] : headers) text += name + ": " + value + "\r\n";
  if (!body.empty()) {
    if (!headers.find("Content-Type")) text += "Content-Type: application/json\r\n";
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  }
  return text + "\r\n" + std::string(body);
}

}  // namespace

std::optional<std::string> HttpHeaders::find(std::string_view name) const {
  for (const auto& [key, value] : fields_) {
    if (same_name(key, name)) return value;
  }
  return std::nullopt;
}

void HttpHeaders::add(std::string name, std::string value) {
  fields_.emplace_back(std::move(name), std::move(value));
}

void HttpHeaders::remove(std::string_view name) {
  std::erase_if(fields_, [&](const auto& field) { return same_name(field.first, name); });
}

std::optional<std::string> find_parameter(const HttpQuery& query, std::string_view name) {
  const auto found = std::find_if(query.begin(), query.end(), [&](const auto& entry) {
    return entry.first == name;
  });
  if (found == query.end()) return std::nullopt;
  return found->second;
}

Result<UrlParts> parse_url(std::string_view url) {
  UrlParts parts;
  std::string_view rest = url;
  if (rest.starts_with("https://")) {
    parts.tls = true;
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else {
    return fail(
        ErrorKind::Configuration, "expected http(s)://HOST:PORT, found " + std::string(url)
    );
  }
  rest = rest.substr(0, rest.find('/'));
  const size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos ||
      std::from_chars(rest.data() + colon + 1, rest.data() + rest.size(), parts.port).ec !=
          std::errc{}) {
    return fail(ErrorKind::Configuration, "expected a port in " + std::string(url));
  }
  parts.host = rest.substr(0, colon);
  return parts;
}

std::string percent_decode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    int value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ec == std::errc{}) {
      decoded += static_cast<char>(value);
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

Result<HttpReply> http_request(
    const HttpEndpoint& endpoint,
    std::string_view method,
    std::string_view target,
    std::string_view body,
    const HttpHeaders& headers,
    std::chrono::milliseconds timeout
) {
  const Deadline deadline = deadline_in(timeout);
  GNN_ASSIGN_OR_RETURN(const auto connection, Connection::connect(endpoint, deadline));
  GNN_RETURN_IF_ERROR(
      connection->write_all(request_text(endpoint, method, target, body, headers), deadline)
  );
  HttpReader reader(*connection);
  GNN_ASSIGN_OR_RETURN(ReplyHead head, read_reply_head(reader, method, deadline));
  HttpReply reply{.status = head.status, .headers = std::move(head.head.headers), .body = {}};
  GNN_ASSIGN_OR_RETURN(reply.body, reader.read_whole_body(deadline));
  return reply;
}

struct HttpStream::State {
  explicit State(std::unique_ptr<Connection> open_connection)
      : connection(std::move(open_connection)), reader(*connection) {}

  std::unique_ptr<Connection> connection;
  HttpReader reader;
  int status = 0;
  std::string pending;  // of a line that hasn't ended
  bool complete = false;
};

HttpStream::HttpStream(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpStream::~HttpStream() = default;

Result<std::unique_ptr<HttpStream>> HttpStream::open(
    const HttpEndpoint& endpoint, std::string_view target, std::chrono::milliseconds timeout
) {
  const Deadline deadline = deadline_in(timeout);
  GNN_ASSIGN_OR_RETURN(auto connection, Connection::connect(endpoint, deadline));
  GNN_RETURN_IF_ERROR(connection->write_all(request_text(endpoint, "GET", target, {}, {}), deadline)
  );
  auto state = std::make_unique<State>(std::move(connection));
  GNN_ASSIGN_OR_RETURN(const ReplyHead head, read_reply_head(state->reader, "GET", deadline));
  state->status = head.status;
  return std::unique_ptr<HttpStream>(new HttpStream(std::move(state)));
}

int HttpStream::status() const {
  return state_->status;
}

Result<std::optional<std::string>> HttpStream::read_line(std::chrono::milliseconds timeout) {
  const Deadline deadline = deadline_in(timeout);
  while (true) {
    if (const size_t end = state_->pending.find('\n'); end != std::string::npos) {
      std::string line = state_->pending.substr(0, end);
      state_->pending.erase(0, end + 1);
      return line;
    }
    if (state_->complete) return std::nullopt;
    GNN_ASSIGN_OR_RETURN(const std::string bytes, state_->reader.read_body(deadline));
    if (bytes.empty()) state_->complete = true;
    state_->pending += bytes;
  }
}

}  // namespace gnn::testing
