#include "tests/support/fault_proxy.h"

#include "common/overloaded.h"
#include "tests/support/control_plane.h"
#include "tests/support/http_connection.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <list>
#include <mutex>
#include <netinet/in.h>
#include <poll.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace gnn::testing {
namespace {

using Json = nlohmann::json;

constexpr auto kUpstreamTimeout = std::chrono::seconds(120);
constexpr size_t kMostOfRefusal = size_t{64} << 10;

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 404:
      return "Not Found";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 429:
      return "Too Many Requests";
    case 500:
      return "Internal Server Error";
    default:
      return "Answer";
  }
}

bool is_framing_header(std::string_view name) {
  for (const char* hop : {"Connection", "Keep-Alive", "Transfer-Encoding", "Content-Length"}) {
    if (name.size() == std::strlen(hop) && strncasecmp(name.data(), hop, name.size()) == 0)
      return true;
  }
  return false;
}

// A socket bound to a free loopback port, kept so that nobody else gets the port while we don't
// listen.
Result<int> bind_loopback(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    std::string error = std::strerror(errno);
    close(fd);
    return fail(ErrorKind::Network, "binding a loopback port: " + error);
  }
  return fd;
}

uint16_t port_of(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

// What ServeSnapshot answers; nullopt: the request is none of the snapshot's business.
std::optional<Answer> answer_from_snapshot(
    const Snapshot& snapshot, const RecordedRequest& request
) {
  const Answer json{.status = 200, .headers = {{"Content-Type", "application/json"}}, .body = {}};
  if (!request.is_list_or_get() || !request.path.starts_with(snapshot.collection_path)) return {};
  Answer answer = json;
  std::string rest = request.path.substr(snapshot.collection_path.size());
  if (rest.empty()) {
    answer.body = snapshot.list_body;
    return answer;
  }
  if (rest.front() != '/') return {};
  const std::string name = rest.substr(1, rest.find('/', 1) - 1);
  const Json list = Json::parse(snapshot.list_body);
  for (Json item : list.at("items")) {
    if (item.at("metadata").at("name") != name) continue;
    std::string kind = list.at("kind");  // GNNJobList; its items carry no kind
    item["kind"] = kind.substr(0, kind.size() - 4);
    item["apiVersion"] = list.at("apiVersion");
    answer.body = item.dump();
    return answer;
  }
  return answer_status(404, "NotFound", "\"" + name + "\" not found");
}

}  // namespace

bool RecordedRequest::is_write() const {
  return method == "POST" || method == "PUT" || method == "PATCH" || method == "DELETE";
}

bool RecordedRequest::is_watch() const {
  const std::string watch = find_parameter(query, "watch").value_or("");
  return method == "GET" && (watch == "true" || watch == "1");
}

Answer answer_status(int code, std::string_view reason, std::string_view message) {
  const Json status = {
      {"kind", "Status"},
      {"apiVersion", "v1"},
      {"metadata", Json::object()},
      {"status", "Failure"},
      {"message", message},
      {"reason", reason},
      {"code", code},
  };
  return {.status = code, .headers = {{"Content-Type", "application/json"}}, .body = status.dump()};
}

Answer answer_gone() {
  return answer_status(410, "Expired", "The resourceVersion for the provided watch is too old.");
}

Answer answer_conflict() {
  return answer_status(
      409, "Conflict", "the object has been modified; please apply your changes again"
  );
}

Answer answer_too_many_requests(std::chrono::seconds retry_after) {
  Answer answer =
      answer_status(429, "TooManyRequests", "too many requests, please try again later");
  answer.headers.add("Retry-After", std::to_string(retry_after.count()));
  return answer;
}

Answer answer_internal_error() {
  return answer_status(500, "InternalError", "an error on the server has prevented the request");
}

Answer answer_watch_expired() {
  Answer answer = answer_gone();
  answer.status = 200;
  answer.body = Json{{"type", "ERROR"}, {"object", Json::parse(answer.body)}}.dump() + "\n";
  return answer;
}

RequestMatcher any_watch() {
  return [](const RecordedRequest& request) { return request.is_watch(); };
}
RequestMatcher any_write() {
  return [](const RecordedRequest& request) { return request.is_write(); };
}
RequestMatcher any_request() {
  return [](const RecordedRequest&) { return true; };
}
RequestMatcher path_ends_with(std::string suffix) {
  return [suffix = std::move(suffix)](const RecordedRequest& request) {
    return request.path.ends_with(suffix);
  };
}

class FaultProxy::Impl {
 public:
  explicit Impl(FaultProxyOptions options) : options_(std::move(options)) {}
  ~Impl() { stop(); }

  Status start();
  void stop();

  const std::string& url() const { return url_; }
  Result<Snapshot> take_snapshot(std::string_view collection_path);

  int add_fault(RequestMatcher matches, Fault fault, int times) {
    const std::lock_guard lock(mutex_);
    faults_.push_back({++last_fault_, std::move(matches), std::move(fault), times});
    return last_fault_;
  }
  void remove_fault(int number) {
    const std::lock_guard lock(mutex_);
    std::erase_if(faults_, [&](const ActiveFault& fault) { return fault.number == number; });
  }
  void clear_faults() {
    const std::lock_guard lock(mutex_);
    faults_.clear();
  }
  int times_applied(int number) const {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(std::count(applied_.begin(), applied_.end(), number));
  }
  void after_write(int k, std::function<void()> callback, RequestMatcher counts) {
    const std::lock_guard lock(mutex_);
    write_callbacks_.push_back({k, std::move(callback), std::move(counts)});
  }

  void cut_connections() {
    const std::lock_guard lock(mutex_);
    for (Client& client : clients_) {
      client.cut = true;
      if (client.connection != nullptr) client.connection->interrupt();
    }
    changed_.notify_all();
  }
  void set_listening(bool listening) {
    const std::lock_guard lock(mutex_);
    want_listening_ = listening;
    wake();
    // Returns once the accepting thread has done it, so that the caller sees the new state.
  }
  void wait_listening(bool listening) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_listening_ == listening; });
  }

  std::vector<RecordedRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return {requests_.begin(), requests_.end()};
  }
  bool wait_for_requests(
      const RequestMatcher& matches, int count, std::chrono::milliseconds timeout
  ) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] {
      return std::count_if(requests_.begin(), requests_.end(), matches) >= count;
    });
  }
  void forget_requests() {
    const std::lock_guard lock(mutex_);
    first_index_ += std::ssize(requests_);
    requests_.clear();
  }

 private:
  struct ActiveFault {
    int number;
    RequestMatcher matches;
    Fault fault;
    int times_left;  // negative: without end
  };
  struct WriteCallback {
    int writes_left;
    std::function<void()> callback;
    RequestMatcher counts;
  };
  struct Client {
    int64_t number = 0;
    Connection* connection = nullptr;  // null while the handshake runs and after the end
    bool cut = false;
    bool done = false;
    std::thread thread;
  };
  // What serving one request needs.
  struct Exchange {
    Client& client;
    Connection& connection;
    HttpReader& reader;
    RecordedRequest request;  // as received; its progress is kept in requests_
  };

  void wake() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
  }
  void accept_loop();
  void reap(bool all);
  void serve_client(Client& client, int fd);
  Result<bool> serve_requests(Client& client, Connection& connection);
  Result<std::optional<RecordedRequest>> read_request(Connection& connection, HttpReader& reader);
  std::optional<Fault> record_and_pick_fault(RecordedRequest& request);
  template <class F>
  void update(const Exchange& exchange, F change);

  // Each returns whether the connection may carry another request.
  Result<bool> serve(Exchange& exchange, const std::optional<Fault>& fault);
  Result<bool> forward(Exchange& exchange, const std::optional<Fault>& fault);
  Result<bool> answer(Exchange& exchange, const Answer& answer);
  Status stream_body(
      Exchange& exchange,
      Connection& upstream,
      HttpReader& upstream_reader,
      bool chunked,
      const std::optional<Fault>& fault
  );
  Status send_body(Exchange& exchange, std::string_view bytes, bool chunked, int64_t limit);
  void run_write_callbacks(const RecordedRequest& request);
  void hold(Exchange& exchange) const;
  void sleep(const Client& client, std::chrono::milliseconds duration);

  const FaultProxyOptions options_;
  std::string url_;
  SslContext tls_;
  int reserved_fd_ = -1;  // keeps the port ours
  int wake_fd_ = -1;
  std::thread accept_thread_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool stopping_ = false;
  bool want_listening_ = true;
  bool is_listening_ = false;
  std::list<Client> clients_;
  int64_t next_client_ = 0;
  std::vector<RecordedRequest> requests_;
  int64_t first_index_ = 0;  // of requests_[0]
  std::vector<ActiveFault> faults_;
  int last_fault_ = 0;
  std::vector<int> applied_;
  std::vector<WriteCallback> write_callbacks_;
};

namespace {
// The fault wants the connection broken here; nothing is wrong with the proxy.
tl::unexpected<Error> break_connection() {
  return fail(ErrorKind::Cancelled, "the connection is broken on purpose");
}
}  // namespace

Status FaultProxy::Impl::start() {
  if (!options_.certificate_file.empty()) {
    GNN_ASSIGN_OR_RETURN(tls_, make_server_context(options_.certificate_file, options_.key_file));
  }
  GNN_ASSIGN_OR_RETURN(reserved_fd_, bind_loopback(0));
  url_ = std::string(tls_ ? "https" : "http") +
         "://127.0.0.1:" + std::to_string(port_of(reserved_fd_));
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  accept_thread_ = std::thread([this] { accept_loop(); });
  wait_listening(true);
  return {};
}

void FaultProxy::Impl::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (Client& client : clients_) {
      client.cut = true;
      if (client.connection != nullptr) client.connection->interrupt();
    }
    changed_.notify_all();
  }
  if (accept_thread_.joinable()) {
    wake();
    accept_thread_.join();
  }
  reap(true);
  if (reserved_fd_ >= 0) close(reserved_fd_);
  if (wake_fd_ >= 0) close(wake_fd_);
}

void FaultProxy::Impl::reap(bool all) {
  std::list<Client> finished;
  {
    const std::lock_guard lock(mutex_);
    for (auto it = clients_.begin(); it != clients_.end();) {
      const auto next = std::next(it);
      if (all || it->done) finished.splice(finished.end(), clients_, it);
      it = next;
    }
  }
  for (Client& client : finished) client.thread.join();
}

void FaultProxy::Impl::accept_loop() {
  int listener = -1;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) break;
      if (want_listening_ && listener < 0) {
        // The reserving socket shares the port, so this cannot fail for want of it.
        auto bound = bind_loopback(port_of(reserved_fd_));
        GNN_ASSERT(bound && listen(*bound, 128) == 0, "the reserved port admits our own sockets");
        listener = *bound;
      } else if (!want_listening_ && listener >= 0) {
        close(listener);
        listener = -1;
      }
      is_listening_ = listener >= 0;
      changed_.notify_all();
    }
    pollfd entries[2] = {
        {.fd = wake_fd_, .events = POLLIN, .revents = 0},
        {.fd = listener, .events = POLLIN, .revents = 0},
    };
    poll(entries, listener >= 0 ? 2 : 1, -1);
    uint64_t ignored = 0;
    [[maybe_unused]] const ssize_t count = read(wake_fd_, &ignored, sizeof(ignored));
    if (listener >= 0 && (entries[1].revents & POLLIN) != 0) {
      const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd >= 0) {
        const std::lock_guard lock(mutex_);
        if (stopping_) {
          close(fd);
          break;
        }
        Client& client = clients_.emplace_back();
        client.number = next_client_++;
        client.thread = std::thread([this, &client, fd] { serve_client(client, fd); });
      }
    }
    reap(false);
  }
  if (listener >= 0) close(listener);
}

void FaultProxy::Impl::serve_client(Client& client, int fd) {
  auto connection = Connection::accept(fd, tls_.get(), deadline_in(std::chrono::seconds(10)));
  if (connection) {
    {
      const std::lock_guard lock(mutex_);
      client.connection = connection->get();
      if (client.cut) client.connection->interrupt();
    }
    const Result<bool> end = serve_requests(client, **connection);
    if (end) (*connection)->close_orderly();
  }
  const std::lock_guard lock(mutex_);
  client.connection = nullptr;
  if (connection) connection->reset();
  client.done = true;
  wake();
}

Result<bool> FaultProxy::Impl::serve_requests(Client& client, Connection& connection) {
  HttpReader reader(connection);
  while (true) {
    GNN_ASSIGN_OR_RETURN(std::optional<RecordedRequest> request, read_request(connection, reader));
    if (!request) return false;
    request->connection = client.number;
    const std::optional<Fault> fault = record_and_pick_fault(*request);
    Exchange exchange{client, connection, reader, std::move(*request)};
    const Result<bool> keep = serve(exchange, fault);
    update(exchange, [](RecordedRequest& record) { record.finished = true; });
    if (!keep || !*keep) return keep;
  }
}

Result<std::optional<RecordedRequest>> FaultProxy::Impl::read_request(
    Connection& connection, HttpReader& reader
) {
  GNN_ASSIGN_OR_RETURN(std::optional<HttpReader::Head> head, reader.read_head(kNoDeadline));
  if (!head) return std::nullopt;
  RecordedRequest request;
  request.received = std::chrono::steady_clock::now();
  const std::string& line = head->first_line;  // GET /path?query HTTP/1.1
  const size_t first = line.find(' ');
  const size_t second = line.find(' ', first + 1);
  if (first == std::string::npos || second == std::string::npos) {
    return fail(ErrorKind::Network, "bad request line: " + line);
  }
  request.method = line.substr(0, first);
  request.target = line.substr(first + 1, second - first - 1);
  const size_t question = request.target.find('?');
  request.path = percent_decode(request.target.substr(0, question));
  if (question != std::string::npos) {
    std::string_view rest = std::string_view(request.target).substr(question + 1);
    while (!rest.empty()) {
      const std::string_view pair = rest.substr(0, rest.find('&'));
      rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
      const size_t equals = pair.find('=');
      request.query.emplace_back(
          percent_decode(pair.substr(0, equals)),
          equals == std::string_view::npos ? "" : percent_decode(pair.substr(equals + 1))
      );
    }
  }
  request.headers = std::move(head->headers);

  const Deadline deadline = deadline_in(std::chrono::seconds(30));
  if (request.headers.find("Expect")) {
    GNN_RETURN_IF_ERROR(connection.write_all("HTTP/1.1 100 Continue\r\n\r\n", deadline));
  }
  int64_t length = 0;
  const std::string length_text = request.headers.find("Content-Length").value_or("0");
  std::from_chars(length_text.data(), length_text.data() + length_text.size(), length);
  const bool chunked =
      request.headers.find("Transfer-Encoding").value_or("").find("chunked") != std::string::npos;
  reader.begin_body(chunked ? HttpReader::Framing::Chunked : HttpReader::Framing::Length, length);
  GNN_ASSIGN_OR_RETURN(request.body, reader.read_whole_body(deadline));
  return request;
}

std::optional<Fault> FaultProxy::Impl::record_and_pick_fault(RecordedRequest& request) {
  const std::lock_guard lock(mutex_);
  request.index = first_index_ + std::ssize(requests_);
  std::optional<Fault> picked;
  for (auto it = faults_.rbegin(); it != faults_.rend(); ++it) {
    if (it->times_left == 0 || !it->matches(request)) continue;
    if (it->times_left > 0) --it->times_left;
    applied_.push_back(it->number);
    picked = it->fault;
    request.faulted = true;
    break;
  }
  requests_.push_back(request);
  changed_.notify_all();
  return picked;
}

template <class F>
void FaultProxy::Impl::update(const Exchange& exchange, F change) {
  const std::lock_guard lock(mutex_);
  const int64_t position = exchange.request.index - first_index_;
  if (position >= 0) change(requests_[static_cast<size_t>(position)]);
  changed_.notify_all();
}

Result<bool> FaultProxy::Impl::serve(Exchange& exchange, const std::optional<Fault>& fault) {
  if (!fault) return forward(exchange, fault);
  return std::visit(
      Overloaded{
          [&](const RefuseRequest&) -> Result<bool> { return break_connection(); },
          [&](const Answer& fixed) { return answer(exchange, fixed); },
          [&](const AnswerBy& by) { return answer(exchange, by.make(exchange.request)); },
          [&](const BlackHole& hole) -> Result<bool> {
            if (hole.after_body_bytes) return forward(exchange, fault);
            hold(exchange);
            return break_connection();
          },
          [&](const ServeSnapshot& stale) -> Result<bool> {
            const std::string& path = stale.snapshot.collection_path;
            if (exchange.request.is_watch() && exchange.request.path.starts_with(path)) {
              GNN_RETURN_IF_ERROR(exchange.connection.write_all(
                  "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n",
                  deadline_in(std::chrono::seconds(10))
              ));
              update(exchange, [](RecordedRequest& record) { record.status = 200; });
              hold(exchange);
              return break_connection();
            }
            if (const auto old = answer_from_snapshot(stale.snapshot, exchange.request)) {
              return answer(exchange, *old);
            }
            return forward(exchange, std::nullopt);
          },
          [&](const auto&) { return forward(exchange, fault); },
      },
      *fault
  );
}

Result<bool> FaultProxy::Impl::answer(Exchange& exchange, const Answer& answer) {
  std::string text = "HTTP/1.1 " + std::to_string(answer.status) + " " +
                     std::string(reason_phrase(answer.status)) + "\r\n";
  for (const auto& [name, value] : answer.headers) text += name + ": " + value + "\r\n";
  text += "Content-Length: " + std::to_string(answer.body.size()) + "\r\n\r\n" + answer.body;
  update(exchange, [&](RecordedRequest& record) { record.status = answer.status; });
  GNN_RETURN_IF_ERROR(exchange.connection.write_all(text, deadline_in(std::chrono::seconds(30))));
  update(exchange, [&](RecordedRequest& record) { record.reply_bytes = std::ssize(answer.body); });
  return true;
}

Result<bool> FaultProxy::Impl::forward(Exchange& exchange, const std::optional<Fault>& fault) {
  const RecordedRequest& request = exchange.request;
  const Delay* delay = fault ? std::get_if<Delay>(&*fault) : nullptr;
  const EditRequest* edited = fault ? std::get_if<EditRequest>(&*fault) : nullptr;
  const std::string body = edited != nullptr ? edited->edit(request) : request.body;
  if (delay != nullptr) sleep(exchange.client, delay->before_request);

  HttpEndpoint endpoint{.url = options_.upstream_url, .ca_file = options_.upstream_ca_file};
  if (!request.headers.find("Authorization")) {
    endpoint.certificate_file = options_.upstream_certificate_file;
    endpoint.key_file = options_.upstream_key_file;
  }
  const Deadline deadline = deadline_in(kUpstreamTimeout);
  GNN_ASSIGN_OR_RETURN(const auto upstream, Connection::connect(endpoint, deadline));

  std::string text = request.method + " " + request.target + " HTTP/1.1\r\n";
  text += "Host: " + endpoint.url.substr(endpoint.url.find("//") + 2) + "\r\nConnection: close\r\n";
  for (const auto& [name, value] : request.headers) {
    // Plain bodies, so that faults count the bytes that the client reads.
    if (is_framing_header(name) || strcasecmp(name.c_str(), "Host") == 0 ||
        strcasecmp(name.c_str(), "Expect") == 0 ||
        strcasecmp(name.c_str(), "Accept-Encoding") == 0) {
      continue;
    }
    text += name + ": " + value + "\r\n";
  }
  if (!body.empty() || request.is_write()) {
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  }
  GNN_RETURN_IF_ERROR(upstream->write_all(text + "\r\n" + body, deadline));

  // The client may leave before the reply comes, and cut_connections() must get through.
  HttpReader reader(*upstream);
  pollfd entries[2] = {
      {.fd = upstream->fd(), .events = POLLIN, .revents = 0},
      {.fd = exchange.connection.fd(), .events = POLLIN, .revents = 0},
  };
  while (poll(entries, 2, -1) >= 0 && (entries[0].revents & POLLIN) == 0) {
    if (entries[1].revents != 0 && !exchange.reader.peer_is_there()) return break_connection();
  }
  GNN_ASSIGN_OR_RETURN(const ReplyHead reply, read_reply_head(reader, request.method, deadline));
  if (request.is_write()) run_write_callbacks(request);
  if (delay != nullptr) sleep(exchange.client, delay->before_reply);
  if (fault && std::holds_alternative<LoseReply>(*fault)) return break_connection();

  text = reply.head.first_line + "\r\n";
  for (const auto& [name, value] : reply.head.headers) {
    if (!is_framing_header(name)) text += name + ": " + value + "\r\n";
  }
  const bool has_body = reply.framing != HttpReader::Framing::None;
  const bool chunked = has_body && reply.framing != HttpReader::Framing::Length;
  if (chunked) {
    text += "Transfer-Encoding: chunked\r\n";
  } else if (has_body) {
    text += "Content-Length: " + std::to_string(reply.length) + "\r\n";
  }
  update(exchange, [&](RecordedRequest& record) { record.status = reply.status; });
  GNN_RETURN_IF_ERROR(
      exchange.connection.write_all(text + "\r\n", deadline_in(std::chrono::seconds(30)))
  );
  GNN_RETURN_IF_ERROR(stream_body(exchange, *upstream, reader, chunked, fault));
  return true;
}

Status FaultProxy::Impl::stream_body(
    Exchange& exchange,
    Connection& upstream,
    HttpReader& upstream_reader,
    bool chunked,
    const std::optional<Fault>& fault
) {
  const CutReply* cut = fault ? std::get_if<CutReply>(&*fault) : nullptr;
  const BlackHole* hole = fault ? std::get_if<BlackHole>(&*fault) : nullptr;
  const Fragment* fragment = fault ? std::get_if<Fragment>(&*fault) : nullptr;
  std::optional<int64_t> left;  // until the fault strikes
  if (cut != nullptr) left = cut->after_body_bytes;
  if (hole != nullptr) left = hole->after_body_bytes;
  const auto strike = [&]() -> Status {
    if (hole != nullptr) hold(exchange);
    if (cut != nullptr && cut->reset) exchange.connection.reset_on_close();
    if (cut != nullptr && !cut->reset) exchange.connection.close_orderly();
    return break_connection();
  };

  while (true) {
    if (left == 0) return strike();
    // One read of what has come; the client is watched meanwhile, because watches are silent for
    // long.
    if (!upstream_reader.has_buffered()) {
      pollfd entries[2] = {
          {.fd = upstream.fd(), .events = POLLIN, .revents = 0},
          {.fd = exchange.connection.fd(), .events = POLLIN, .revents = 0},
      };
      poll(entries, 2, -1);
      if (entries[1].revents != 0 && !exchange.reader.peer_is_there()) return break_connection();
      if (entries[0].revents == 0) continue;
    }
    Result<std::string> bytes =
        upstream_reader.read_body(deadline_in(std::chrono::milliseconds(50)));
    if (!bytes && bytes.error().kind == ErrorKind::Timeout) continue;
    if (!bytes) return tl::make_unexpected(std::move(bytes).error());
    if (bytes->empty()) break;
    update(exchange, [&](RecordedRequest& record) {
      if (record.status >= 400 && record.refusal.size() < kMostOfRefusal) record.refusal += *bytes;
    });
    const int64_t limit = left ? std::min<int64_t>(*left, std::ssize(*bytes)) : std::ssize(*bytes);
    const int64_t piece = fragment != nullptr ? fragment->bytes : std::ssize(*bytes);
    for (int64_t at = 0; at < limit; at += piece) {
      const std::string_view part =
          std::string_view(*bytes).substr(static_cast<size_t>(at), static_cast<size_t>(piece));
      GNN_RETURN_IF_ERROR(
          send_body(exchange, part, chunked, std::min<int64_t>(std::ssize(part), limit - at))
      );
    }
    if (left) *left -= limit;
    if (left == 0 && limit < std::ssize(*bytes)) return strike();
  }
  if (chunked)
    return exchange.connection.write_all("0\r\n\r\n", deadline_in(std::chrono::seconds(30)));
  return {};
}

// Sends the first `limit` of `bytes`, in the framing of all of them: a chunk may stay incomplete.
Status FaultProxy::Impl::send_body(
    Exchange& exchange, std::string_view bytes, bool chunked, int64_t limit
) {
  std::string framed;
  if (chunked) {
    char size[32];
    std::snprintf(size, sizeof(size), "%zx\r\n", bytes.size());
    framed = size;
  }
  framed += bytes.substr(0, static_cast<size_t>(limit));
  if (chunked && limit == std::ssize(bytes)) framed += "\r\n";
  GNN_RETURN_IF_ERROR(exchange.connection.write_all(framed, deadline_in(std::chrono::seconds(30))));
  update(exchange, [&](RecordedRequest& record) { record.reply_bytes += limit; });
  return {};
}

void FaultProxy::Impl::run_write_callbacks(const RecordedRequest& request) {
  std::vector<std::function<void()>> due;
  {
    const std::lock_guard lock(mutex_);
    for (WriteCallback& entry : write_callbacks_) {
      if (entry.counts(request) && --entry.writes_left == 0) due.push_back(entry.callback);
    }
    std::erase_if(write_callbacks_, [](const WriteCallback& entry) {
      return entry.writes_left <= 0;
    });
  }
  for (const auto& callback : due) callback();
}

void FaultProxy::Impl::hold(Exchange& exchange) const {
  while (exchange.reader.peer_is_there()) {
    pollfd entry{.fd = exchange.connection.fd(), .events = POLLIN, .revents = 0};
    poll(&entry, 1, -1);
  }
}

void FaultProxy::Impl::sleep(const Client& client, std::chrono::milliseconds duration) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, duration, [&] { return stopping_ || client.cut; });
}

Result<Snapshot> FaultProxy::Impl::take_snapshot(std::string_view collection_path) {
  const HttpEndpoint endpoint{
      .url = options_.upstream_url,
      .ca_file = options_.upstream_ca_file,
      .certificate_file = options_.upstream_certificate_file,
      .key_file = options_.upstream_key_file,
      .bearer_token = {},
  };
  GNN_ASSIGN_OR_RETURN(const HttpReply reply, http_request(endpoint, "GET", collection_path));
  if (reply.status != 200) {
    return fail(
        ErrorKind::NotFound,
        "snapshot of " + std::string(collection_path) + ": status " + std::to_string(reply.status)
    );
  }
  return Snapshot{.collection_path = std::string(collection_path), .list_body = reply.body};
}

FaultProxy::FaultProxy(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FaultProxy::~FaultProxy() = default;

Result<std::unique_ptr<FaultProxy>> FaultProxy::start(FaultProxyOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  GNN_RETURN_IF_ERROR(impl->start());
  return std::unique_ptr<FaultProxy>(new FaultProxy(std::move(impl)));
}

Result<std::unique_ptr<FaultProxy>> FaultProxy::in_front_of(ControlPlane& control_plane) {
  GNN_ASSIGN_OR_RETURN(
      const ControlPlane::CertificateFiles certificate,
      control_plane.issue_server_certificate("fault-proxy")
  );
  return in_front_of(control_plane, certificate.certificate, certificate.key);
}

Result<std::unique_ptr<FaultProxy>> FaultProxy::in_front_of(
    const ControlPlane& control_plane, std::string certificate_file, std::string key_file
) {
  return start({
      .upstream_url = control_plane.server_url(),
      .upstream_ca_file = control_plane.ca_file(),
      .upstream_certificate_file = control_plane.client_certificate_file(),
      .upstream_key_file = control_plane.client_key_file(),
      .certificate_file = std::move(certificate_file),
      .key_file = std::move(key_file),
  });
}

const std::string& FaultProxy::url() const {
  return impl_->url();
}
int FaultProxy::add_fault(RequestMatcher matches, Fault fault, int times) {
  return impl_->add_fault(std::move(matches), std::move(fault), times);
}
void FaultProxy::remove_fault(int number) {
  impl_->remove_fault(number);
}
void FaultProxy::clear_faults() {
  impl_->clear_faults();
}
int FaultProxy::times_applied(int number) const {
  return impl_->times_applied(number);
}
void FaultProxy::after_write(int k, std::function<void()> callback, RequestMatcher counts) {
  impl_->after_write(k, std::move(callback), std::move(counts));
}
Result<Snapshot> FaultProxy::take_snapshot(std::string_view collection_path) {
  return impl_->take_snapshot(collection_path);
}
void FaultProxy::cut_connections() {
  impl_->cut_connections();
}
void FaultProxy::refuse_connections() {
  impl_->set_listening(false);
  impl_->wait_listening(false);
}
void FaultProxy::accept_connections() {
  impl_->set_listening(true);
  impl_->wait_listening(true);
}
std::vector<RecordedRequest> FaultProxy::requests() const {
  return impl_->requests();
}
std::vector<RecordedRequest> FaultProxy::requests(const RequestMatcher& matches) const {
  std::vector<RecordedRequest> found = impl_->requests();
  std::erase_if(found, [&](const RecordedRequest& request) { return !matches(request); });
  return found;
}
bool FaultProxy::wait_for_requests(
    const RequestMatcher& matches, int count, std::chrono::milliseconds timeout
) const {
  return impl_->wait_for_requests(matches, count, timeout);
}
void FaultProxy::forget_requests() {
  impl_->forget_requests();
}

}  // namespace gnn::testing
