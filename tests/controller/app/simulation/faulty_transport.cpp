#include "tests/controller/app/simulation/faulty_transport.h"

#include <array>
#include <chrono>
#include <ctime>

namespace gnn::simulation {
namespace {

using client::HttpRequest;
using client::HttpResponse;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Some API servers' clocks are off by this much.
constexpr std::array<int, 3> kSecondsAhead = {0, 0, 1};

}  // namespace

Result<HttpResponse> FaultyTransport::send(const HttpRequest& request) {
  time_.advance(milliseconds(dice_.between(1, 4)));
  hooks_.meanwhile();
  if (!faults_.on) return arrive(request);
  const bool writes = request.method != "GET";
  if (writes && dice_.chance(faults_.kills)) throw Killed();
  if (!dice_.chance(faults_.rate)) {
    HttpResponse reply = arrive(request);
    if (writes && dice_.chance(faults_.kills)) throw Killed();
    return reply;
  }
  switch (dice_.below(4)) {
    case 0:
      return fail(ErrorKind::Network, "connection refused");
    case 1:  // the request arrives, its answer does not
      static_cast<void>(arrive(request));
      time_.advance(dice_.chance(0.2) ? seconds(30) : seconds(1));
      return fail(ErrorKind::Timeout, "no answer");
    default:
      return failure(request);
  }
}

HttpResponse FaultyTransport::arrive(const HttpRequest& request) {
  HttpRequest seen = request;
  std::optional<HttpResponse> reply = hooks_.arrives(seen);
  if (!reply) reply = server_.handle(seen, actor_);
  reply->headers["date"] = date();
  return std::move(*reply);
}

HttpResponse FaultyTransport::failure(const HttpRequest& request) {
  HttpResponse reply;
  const auto with = [&](int status, const std::string& reason, const std::string& retry_after) {
    reply = refused(status, reason, "says the API server");
    if (!retry_after.empty()) reply.headers["retry-after"] = retry_after;
  };
  switch (dice_.below(6)) {
    case 0:
      with(500, "InternalError", "");
      break;
    case 1:
      with(
          503, "ServiceUnavailable", dice_.pick<std::string>({"1", "5", "3600", "-7", "soon", ""})
      );
      break;
    case 2:
      with(429, "TooManyRequests", dice_.pick<std::string>({"1", "2", "0"}));
      break;
    case 3:
      with(504, "Timeout", "");
      break;
    case 4:
      request.method == "PUT" || request.method == "PATCH" ? with(409, "Conflict", "")
                                                           : with(500, "InternalError", "1");
      break;
    default:
      reply = {.status = 502, .headers = {}, .body = "<html>Bad Gateway</html>"};
  }
  reply.headers["date"] = date();
  return reply;
}

TimePoint FaultyTransport::any_date() {
  const size_t server = dice_.below(kSecondsAhead.size());
  const bool wrong = server == 0 && faults_.on && faults_.wrong_clock;
  return std::chrono::floor<seconds>(time_.now()) + seconds(kSecondsAhead[server]) +
         (wrong ? std::chrono::hours(1) : std::chrono::hours(0));
}

std::string FaultyTransport::date() {
  const std::time_t stamp = std::chrono::floor<seconds>(any_date()).time_since_epoch().count();
  std::tm parts{};
  ::gmtime_r(&stamp, &parts);
  std::array<char, 40> text{};
  const size_t size = std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return {text.data(), size};
}

Result<std::unique_ptr<client::HttpStream>> FaultyTransport::open(const HttpRequest& /*request*/) {
  return fail(ErrorKind::Network, "watches are played by the caches' feed");
}

}  // namespace gnn::simulation
