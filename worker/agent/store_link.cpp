#include "worker/agent/store_link.h"

#include "common/log.h"

#include <algorithm>
#include <charconv>
#include <sys/eventfd.h>

namespace gnn::agent {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);
// While nothing changes: each exchange costs every node a few round trips.
constexpr auto kQuietInterval = std::chrono::milliseconds(300);
constexpr int64_t kQuietExchanges = 20;
constexpr auto kConnectSlice = std::chrono::milliseconds(2'000);
// The marks of all ranks of the directive's round. Apart from the directive, which changes seldom.
constexpr const char* kMarksKey = "marks";
// Counts how often pods that replace others have asked to take part.
constexpr const char* kAdmissionsKey = "admissions";

int64_t to_number(const std::optional<std::string>& text) {
  int64_t number = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), number);
  return number;
}

}  // namespace

CoordinatorOptions coordinator_options(const AgentOptions& options) {
  using std::chrono::milliseconds;
  // The agents need some of the grace period after the ranks have exited.
  const auto margin = std::min<milliseconds>(milliseconds(10'000), options.grace / 4);
  return {
      .nodes = options.nodes,
      .rounds_left = options.rounds_left,
      .rendezvous_timeout = options.rendezvous_timeout,
      .peer_timeout = options.peer_timeout,
      .blame_window = options.peer_timeout + kLongestTurn + milliseconds(1'000),
      .grace = options.grace - margin,
      .replaces_nodes = options.node_restart.has_value()
  };
}

StoreLink::StoreLink(const AgentOptions& options, StoreConnector connect, Clock& clock)
    : options_(&options),
      connect_(std::move(connect)),
      clock_(clock),
      attempt_(options.incarnation(0)),
      changed_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      servers_(options.peer_timeout),
      running_(clock.monotonic()) {
  outgoing_.lock()->report.node = options.node;
  thread_ = std::thread([this] { run(); });
}

StoreLink::~StoreLink() {
  outgoing_.lock()->stopping = true;
  outgoing_.notify_all();
  thread_.join();
}

int64_t StoreLink::report(NodeReport report) {
  int64_t number = 0;
  {
    auto outgoing = outgoing_.lock();
    ++outgoing->turns;
    if (outgoing->number > 0 && report == outgoing->report) return outgoing->number;
    number = ++outgoing->number;
    // New rates and marks alone can wait for the next exchange.
    outgoing->report.items_per_second = report.items_per_second;
    outgoing->report.marks = report.marks;
    if (report != outgoing->report || number == 1) outgoing->urgent = number;
    outgoing->report = std::move(report);
  }
  outgoing_.notify_all();
  return number;
}

StoreLink::View StoreLink::view() {
  return *view_.lock();
}

void StoreLink::clear_changed() const {
  uint64_t count = 0;
  [[maybe_unused]] const auto taken = ::read(changed_.get(), &count, sizeof count);
}

void StoreLink::publish(const std::function<void(View&)>& change) {
  change(*view_.lock());
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(changed_.get(), &one, sizeof one);
}

// Waits for one interval, or until `wakes` says so; returns false when the link ends.
template <class Wakes>
bool StoreLink::pause_unless(Wakes wakes) {
  auto outgoing = outgoing_.lock();
  outgoing.wait_until(clock_, clock_.monotonic() + interval(), [&wakes](const Outgoing& out) {
    return out.stopping || wakes(out);
  });
  return !outgoing->stopping;
}

std::chrono::milliseconds StoreLink::interval() const {
  return quiet_exchanges_ < kQuietExchanges ? kInterval : kQuietInterval;
}

bool StoreLink::pause() {
  return pause_unless([](const Outgoing&) { return false; });
}

bool StoreLink::pause_or_new_report() {
  const int64_t posted = view_.lock()->posted;
  return pause_unless([posted](const Outgoing& out) { return out.urgent > posted; });
}

std::string StoreLink::node_key(int64_t node, int64_t restart) const {
  return rendezvous::attempt_prefix(attempt_) + "node/" + std::to_string(node) + "/" +
         std::to_string(restart);
}

std::string StoreLink::admission_key(int64_t node) const {
  return rendezvous::attempt_prefix(attempt_) + "node/" + std::to_string(node) + "/admission";
}

Result<bool> StoreLink::try_join(std::shared_ptr<rendezvous::Store>& store) {
  if (!store) {
    GNN_ASSIGN_OR_RETURN(store, connect_(kConnectSlice));
    if (options_->node == 0) GNN_RETURN_IF_ERROR(rendezvous::announce_identity(*store, attempt_));
  }
  GNN_ASSIGN_OR_RETURN(const auto handshake, rendezvous::agent_handshake(*store, attempt_));
  switch (handshake.answer) {
    case rendezvous::HandshakeAnswer::Welcome:
      return is_newest_pod(*store);
    case rendezvous::HandshakeAnswer::Refused:
      return fail(ErrorKind::Conflict, "refused by the handshake: " + handshake.reason);
    case rendezvous::HandshakeAnswer::NotYet:
      // The name may lead to another host next time.
      store.reset();
      return fail(ErrorKind::PeerLost, handshake.reason);
  }
  return false;
}

// The last step of the handshake.
Result<bool> StoreLink::is_newest_pod(rendezvous::Store& store) const {
  if (options_->node == 0 || !options_->node_restart) return true;
  View view;
  const auto directive = read_directive(store, view);
  if (directive) return true;
  if (directive.error().kind != ErrorKind::Conflict)
    return tl::unexpected<Error>(directive.error());
  GNN_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t count, store.add(rendezvous::kRefusedKey, 1));
  return tl::unexpected<Error>(with_context(directive.error(), "refused by the handshake"));
}

Result<std::shared_ptr<rendezvous::Store>> StoreLink::join() {
  const auto deadline = clock_.monotonic() + options_->rendezvous_timeout;
  std::shared_ptr<rendezvous::Store> store;
  std::string said;
  for (;;) {
    auto joined = try_join(store);
    if (joined && *joined) return store;
    const Error error = joined ? Error{} : joined.error();
    if (error.kind == ErrorKind::Conflict) return fail(ErrorKind::PeerLost, error.message);
    if (error.message != said) log_info("waiting for the store", {{"why", error.message}});
    said = error.message;
    if (clock_.monotonic() > deadline)
      return fail(
          ErrorKind::PeerLost,
          "node 0 did not open the store within the rendezvous time-out: " + error.message
      );
    store.reset();
    // Reports cannot be posted yet, so a new one is no reason to retry sooner.
    if (!pause()) return fail(ErrorKind::Cancelled, "asked to end");
  }
}

void StoreLink::run() {
  auto store = join();
  if (!store) {
    publish([&](View& view) { view.lost = store.error(); });
    return;
  }
  const MonotonicPoint joined_at = running_.advance(clock_.monotonic());
  agent_.emplace(joined_at, kLongestTurn);
  if (options_->node == 0) coordinator_.emplace(coordinator_options(*options_), joined_at);
  publish([](View& view) { view.joined = true; });
  do {
    if (auto done = exchange(**store); !done) {
      publish([&](View& view) { view.lost = done.error(); });
      return;
    }
  } while (pause_or_new_report());
}

Status StoreLink::exchange(rendezvous::Store& store) {
  const Outgoing outgoing = *outgoing_.lock();
  View view = *view_.lock();
  const MonotonicPoint now = running_.advance(clock_.monotonic());
  if (!agent_->hangs(outgoing.turns, now)) ++beat_;
  NodeReport report = outgoing.report;
  report.beat = beat_;
  std::optional<Directive> directive;
  // First of all: a pod that was replaced writes nothing any more.
  if (!coordinator_) {
    GNN_ASSIGN_OR_RETURN(directive, read_directive(store, view));
    if (!directive) GNN_RETURN_IF_ERROR(ask_for_admission(store));
  }
  GNN_RETURN_IF_ERROR(store.set(node_key(options_->node, my_restart()), encode(report)));
  if (coordinator_) {
    GNN_ASSIGN_OR_RETURN(directive, decide(store, view, now));
  }
  const bool changed = directive != view.directive || outgoing.urgent > view.posted;
  quiet_exchanges_ = changed ? 0 : quiet_exchanges_ + 1;
  const auto update = [&](View& shared) {
    shared.directive = directive;
    shared.posted = outgoing.number;
    shared.refused = view.refused;
    shared.marks = view.marks;
    shared.nodes = view.nodes;
    shared.awaited = view.awaited;
    shared.staying_servers = view.staying_servers;
  };
  if (changed) {
    publish(update);
  } else {
    update(*view_.lock());
  }
  return {};
}

Result<Directive> StoreLink::decide(rendezvous::Store& store, View& view, MonotonicPoint now) {
  GNN_ASSIGN_OR_RETURN(
      const auto counts,
      store.get(
          {rendezvous::kRefusedKey,
           rendezvous::attempt_prefix(attempt_) + kAdmissionsKey,
           rendezvous::servers_key(attempt_.job_uid)}
      )
  );
  view.refused = to_number(counts[0]);
  GNN_RETURN_IF_ERROR(admit_new_pods(store, to_number(counts[1]), now));
  std::vector<std::string> keys;
  for (int64_t n = 0; n < options_->nodes; ++n)
    keys.push_back(node_key(n, coordinator_->restart_of(n)));
  GNN_ASSIGN_OR_RETURN(const auto values, store.get(keys));
  view.nodes.assign(values.size(), std::nullopt);
  for (size_t n = 0; n < values.size(); ++n) {
    if (!values[n]) continue;
    // An unreadable report counts as silence.
    if (auto report = decode_node_report(*values[n])) view.nodes[n] = std::move(*report);
  }
  GNN_RETURN_IF_ERROR(watch_servers(store, counts[2], now));
  Directive directive = coordinator_->decide(view.nodes, now);
  view.staying_servers = static_cast<int64_t>(servers_.live().size());
  // The last word stays as it is while servers hear it and leave.
  const bool leaves = announced_ && announced_->kind == DirectiveKind::Leave;
  directive.servers = leaves ? announced_->servers : servers_.live();
  view.awaited = coordinator_->awaited();
  view.marks = marks_of_round(view.nodes, directive.round);
  GNN_RETURN_IF_ERROR(announce_marks(store, view.marks));
  GNN_RETURN_IF_ERROR(announce(store, directive));
  return directive;
}

Status StoreLink::watch_servers(
    rendezvous::Store& store, const std::optional<std::string>& count, MonotonicPoint now
) {
  const int64_t servers = std::clamp<int64_t>(to_number(count), 0, kMostServers);
  if (servers == 0) return {};
  std::vector<std::string> keys;
  for (int64_t n = 0; n < servers; ++n) keys.push_back(rendezvous::server_key(attempt_.job_uid, n));
  GNN_ASSIGN_OR_RETURN(const auto values, store.get(keys));
  std::vector<std::optional<ServerReport>> reports(values.size());
  for (size_t n = 0; n < values.size(); ++n) {
    if (!values[n]) continue;
    // An unreadable report counts as silence.
    auto report = decode_server_report(*values[n], static_cast<int64_t>(n));
    if (report) reports[n] = std::move(*report);
  }
  servers_.update(reports, now);
  return {};
}

Status StoreLink::admit_new_pods(rendezvous::Store& store, int64_t asked, MonotonicPoint now) {
  if (asked == admissions_seen_) return {};
  std::vector<std::string> keys;
  for (int64_t n = 0; n < options_->nodes; ++n) keys.push_back(admission_key(n));
  GNN_ASSIGN_OR_RETURN(const auto values, store.get(keys));
  for (size_t n = 0; n < values.size(); ++n)
    coordinator_->admit(static_cast<int64_t>(n), to_number(values[n]), now);
  admissions_seen_ = asked;
  return {};
}

// Until node 0 has seen it: an older pod may write the same key.
Status StoreLink::ask_for_admission(rendezvous::Store& store) {
  if (my_restart() == 0) return {};
  GNN_RETURN_IF_ERROR(store.set(admission_key(options_->node), std::to_string(my_restart())));
  const std::string count = rendezvous::attempt_prefix(attempt_) + kAdmissionsKey;
  GNN_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t asked, store.add(count, 1));
  return {};
}

Status StoreLink::announce(rendezvous::Store& store, const Directive& directive) {
  if (announced_ == directive) return {};
  // Publish the round before any agent may start its ranks.
  GNN_RETURN_IF_ERROR(store.set(
      rendezvous::attempt_prefix(attempt_) + rendezvous::kRoundKey, std::to_string(directive.round)
  ));
  GNN_RETURN_IF_ERROR(
      store.set(rendezvous::attempt_prefix(attempt_) + rendezvous::kDirectiveKey, encode(directive))
  );
  announced_ = directive;
  return {};
}

Status StoreLink::announce_marks(rendezvous::Store& store, int64_t marks) {
  if (announced_marks_ == marks) return {};
  GNN_RETURN_IF_ERROR(
      store.set(rendezvous::attempt_prefix(attempt_) + kMarksKey, std::to_string(marks))
  );
  announced_marks_ = marks;
  return {};
}

Result<std::optional<Directive>> StoreLink::read_directive(rendezvous::Store& store, View& view)
    const {
  const std::string prefix = rendezvous::attempt_prefix(attempt_);
  GNN_ASSIGN_OR_RETURN(
      const auto values, store.get({prefix + rendezvous::kDirectiveKey, prefix + kMarksKey})
  );
  view.marks = to_number(values[1]);
  if (!values[0]) return std::optional<Directive>();
  GNN_ASSIGN_OR_RETURN(Directive directive, decode_directive(*values[0]));
  const auto newest = directive.restarts.find(options_->node);
  const int64_t admitted = newest == directive.restarts.end() ? 0 : newest->second;
  if (admitted > my_restart())
    return fail(
        ErrorKind::Conflict,
        "another pod took the place of this one: pod " + std::to_string(admitted) + " of node " +
            std::to_string(options_->node) + " takes part, and this is pod " +
            std::to_string(my_restart())
    );
  if (admitted < my_restart()) return std::optional<Directive>();  // not for this pod yet
  return std::optional(std::move(directive));
}

}  // namespace gnn::agent
