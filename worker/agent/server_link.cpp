#include "worker/agent/server_link.h"

#include "common/contract.h"
#include "common/host_port.h"
#include "common/log.h"

#include <charconv>
#include <sys/eventfd.h>

namespace gnn::agent {
namespace {

constexpr auto kServerInterval = std::chrono::milliseconds(300);
constexpr auto kServerConnectSlice = std::chrono::milliseconds(2'000);

bool is_below(const std::optional<std::string>& text, int64_t least) {
  int64_t number = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), number);
  return number < least;
}

}  // namespace

ServerLink::ServerLink(const ServerOptions& options, ServerDoors doors, Clock& clock)
    : options_(&options),
      doors_(std::move(doors)),
      clock_(clock),
      changed_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      running_(clock.monotonic()),
      loop_(clock.monotonic(), kLongestTurn) {
  thread_ = std::thread([this] { run(); });
}

ServerLink::~ServerLink() {
  outgoing_.lock()->stopping = true;
  outgoing_.notify_all();
  thread_.join();
}

int64_t ServerLink::report(State state) {
  int64_t number = 0;
  {
    auto outgoing = outgoing_.lock();
    ++outgoing->turns;
    if (outgoing->number > 0 && state == outgoing->state) return outgoing->number;
    number = ++outgoing->number;
    outgoing->state = state;
  }
  outgoing_.notify_all();
  return number;
}

ServerLink::View ServerLink::view() {
  return *view_.lock();
}

void ServerLink::clear_changed() const {
  uint64_t count = 0;
  [[maybe_unused]] const auto taken = ::read(changed_.get(), &count, sizeof count);
}

void ServerLink::publish(const std::function<void(View&)>& change) {
  change(*view_.lock());
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(changed_.get(), &one, sizeof one);
}

void ServerLink::run() {
  for (;;) {
    const Status done = store_ ? exchange() : join();
    if (!done) {
      if (done.error().kind == ErrorKind::Conflict)
        return publish([&](View& view) { view.replaced = done.error(); });
      explain(done.error());
      // The name may lead to another host next time, which has another attempt.
      store_.reset();
      attempt_.reset();
      if (view_.lock()->joined) publish([](View& view) { view.joined = false; });
    }
    if (!pause()) return;
  }
}

void ServerLink::explain(const Error& error) {
  if (error.message != said_) log_info("waiting for the store", {{"why", error.message}});
  said_ = error.message;
}

// Waits for one interval, or for news of this server; returns false when the link ends.
bool ServerLink::pause() {
  const bool connected = store_ != nullptr;
  const int64_t posted = view_.lock()->posted;
  auto outgoing = outgoing_.lock();
  outgoing.wait_until(
      clock_,
      clock_.monotonic() + kServerInterval,
      [connected, posted](const Outgoing& out) {
        return out.stopping || (connected && out.number > posted);
      }
  );
  return !outgoing->stopping;
}

Status ServerLink::join() {
  GNN_ASSIGN_OR_RETURN(auto store, doors_.connect(kServerConnectSlice));
  GNN_ASSIGN_OR_RETURN(host_, doors_.own_address());
  store_ = std::move(store);
  return {};
}

Status ServerLink::exchange() {
  const Outgoing outgoing = *outgoing_.lock();
  const MonotonicPoint now = running_.advance(clock_.monotonic());
  if (!loop_.hangs(outgoing.turns, now)) ++beat_;
  const std::string& uid = options_->pod.job_uid;
  std::vector<std::string> keys{
      rendezvous::kIdentityKey,
      rendezvous::server_key(uid, options_->server()),
      rendezvous::servers_key(uid)
  };
  if (attempt_)
    keys.push_back(
        rendezvous::attempt_prefix({.job_uid = uid, .attempt = *attempt_}) +
        rendezvous::kDirectiveKey
    );
  GNN_ASSIGN_OR_RETURN(const auto values, store_->get(keys));
  const rendezvous::HostAttempt host = rendezvous::attempt_of_host(values[0], uid);
  if (!host.attempt) return fail(ErrorKind::PeerLost, host.reason);
  attempt_ = host.attempt;
  if (values[1]) {
    const auto other = decode_server_report(*values[1], options_->server());
    if (other && other->server.restart > options_->restart)
      return fail(
          ErrorKind::Conflict,
          "another pod took the place of this one: pod " + std::to_string(other->server.restart) +
              " of server " + std::to_string(options_->server()) + " takes part, and this is pod " +
              std::to_string(options_->restart)
      );
  }
  GNN_RETURN_IF_ERROR(announce(outgoing, values[2]));
  if (!view_.lock()->joined) {
    log_info("joined the store", {{"attempt", *attempt_}, {"address", host_}});
    said_.clear();
  }
  publish([&](View& view) {
    view.joined = true;
    view.posted = outgoing.number;
  });
  // One that can't be read says nothing.
  if (keys.size() == 4 && values[3])
    if (const auto directive = decode_directive(*values[3])) follow(*directive);
  return {};
}

Status ServerLink::announce(const Outgoing& outgoing, const std::optional<std::string>& count) {
  if (outgoing.state.port == 0) return {};
  const ServerReport report{
      .server =
          {.server = options_->server(),
           .restart = options_->restart,
           .address = format_host_port(host_, outgoing.state.port)},
      .beat = beat_,
      .leaving = outgoing.state.leaving
  };
  const std::string& uid = options_->pod.job_uid;
  GNN_RETURN_IF_ERROR(store_->set(rendezvous::server_key(uid, options_->server()), encode(report)));
  // Others may write a lower number at the same time, so it is looked at each time.
  const int64_t least = options_->server() + 1;
  if (!is_below(count, least)) return {};
  return store_->set(rendezvous::servers_key(uid), std::to_string(least));
}

void ServerLink::follow(const Directive& directive) {
  if (doors_.on_servers && directive.servers != servers_) {
    servers_ = directive.servers;
    doors_.on_servers(servers_);
  }
  const bool done =
      directive.kind == DirectiveKind::Leave && directive.exit_code == contract::kExitDone;
  if (done) publish([](View& view) { view.done = true; });
}

}  // namespace gnn::agent
