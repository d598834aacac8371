#include "worker/agent/coordinator.h"

#include "common/contract.h"

#include <algorithm>
#include <string>
#include <vector>

namespace gnn::agent {
namespace {

using Reports = std::vector<std::optional<NodeReport>>;

template <class Predicate>
bool all_nodes(const Reports& reports, Predicate predicate) {
  return std::all_of(reports.begin(), reports.end(), [&](const auto& report) {
    return report && predicate(*report);
  });
}

bool retryable(int64_t exit_code) {
  return exit_code != contract::kExitConfiguration && exit_code != contract::kExitData &&
         exit_code != contract::kExitOutOfMemory;
}

std::string seconds(std::chrono::milliseconds duration) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(duration).count()) + " s";
}

std::vector<int64_t> missing_nodes(const Reports& reports, int64_t round) {
  std::vector<int64_t> missing;
  for (size_t n = 0; n < reports.size(); ++n)
    if (!reports[n] || reports[n]->round != round) missing.push_back(static_cast<int64_t>(n));
  return missing;
}

// "0, 2, 5"
std::string joined(const std::vector<int64_t>& nodes) {
  std::string text;
  for (const int64_t node : nodes) text += (text.empty() ? "" : ", ") + std::to_string(node);
  return text;
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, MonotonicPoint now)
    : options_(options), seen_(static_cast<size_t>(options.nodes)), gathering_since_(now) {
  for (auto& seen : seen_) seen.at = now;
}

const Directive& Coordinator::decide(const Reports& reports, MonotonicPoint now) {
  if (directive_.kind == DirectiveKind::Leave) return directive_;
  if (const auto lost = lost_node(reports, now)) {
    const auto& report = reports[static_cast<size_t>(*lost)];
    const bool left = report && report->phase == AgentPhase::Left;
    lose(*lost, left ? "left on its own" : "was silent for " + seconds(options_.peer_timeout), now);
  }
  switch (directive_.kind) {
    case DirectiveKind::Prepare:
      gather(reports, now);
      break;
    case DirectiveKind::Run:
      watch_round(reports, now);
      break;
    case DirectiveKind::Stop:
      watch_stop(reports, now);
      break;
    case DirectiveKind::Leave:
      break;
  }
  return directive_;
}

std::optional<int64_t> Coordinator::lost_node(const Reports& reports, MonotonicPoint now) {
  for (size_t n = 0; n < reports.size(); ++n) {
    const auto& report = reports[n];
    const auto node = static_cast<int64_t>(n);
    // Not here yet: gather() has the time-out. A pod that was admitted has been here.
    if (!report && restart_of(node) == 0) continue;
    if (report && report->beat != seen_[n].beat) seen_[n] = {.beat = report->beat, .at = now};
    const bool silent = now - seen_[n].at > options_.peer_timeout;
    const bool lost = silent || (report && report->phase == AgentPhase::Left);
    if (awaited_ == node) {
      // It is back before another pod took its place.
      if (!lost && report && !report->stop_requested) awaited_.reset();
    } else if (lost) {
      return node;
    }
  }
  return std::nullopt;
}

int64_t Coordinator::restart_of(int64_t node) const {
  const auto found = directive_.restarts.find(node);
  return found == directive_.restarts.end() ? 0 : found->second;
}

void Coordinator::admit(int64_t node, int64_t restart, MonotonicPoint now) {
  const bool open =
      directive_.kind == DirectiveKind::Prepare || directive_.kind == DirectiveKind::Run;
  if (!options_.replaces_nodes || !open || node <= 0 || node >= options_.nodes) return;
  if (restart <= restart_of(node)) return;
  if (awaited_ != node) lose(node, "was replaced by a new pod", now);
  if (directive_.kind == DirectiveKind::Leave) return;
  awaited_.reset();
  replacements_ += restart - restart_of(node);
  directive_.restarts[node] = restart;
  seen_[static_cast<size_t>(node)] = {.beat = -1, .at = now};
  // Pods that were replaced before they came have cost a restart, too.
  if (directive_.round >= replacements_) return;
  if (replacements_ > options_.rounds_left)
    return leave(
        contract::kExitPeerLost,
        "node " + std::to_string(node) + " was replaced more often than restarts are left",
        std::nullopt
    );
  directive_.round = replacements_;
}

bool Coordinator::may_replace(int64_t node) const {
  return options_.replaces_nodes && node != 0 && !awaited_ &&
         directive_.round < options_.rounds_left;
}

void Coordinator::lose(int64_t node, const std::string& message, MonotonicPoint now) {
  Failure failure{.node = node, .exit_code = contract::kExitPeerLost, .reason = "PeerLost"};
  failure.message = "the agent of node " + std::to_string(node) + " " + message;
  const bool stops = directive_.kind == DirectiveKind::Stop;
  if (stops || !may_replace(node)) return leave(failure.exit_code, failure.message, failure);
  awaited_ = node;
  begin_next_round(failure, now);
}

// The node that alone was asked to stop, if another pod may take its place.
std::optional<int64_t> Coordinator::only_leaver(const Reports& reports) const {
  std::optional<int64_t> leaver;
  for (size_t n = 0; n < reports.size(); ++n) {
    if (!reports[n] || !reports[n]->stop_requested) continue;
    if (leaver) return std::nullopt;
    leaver = static_cast<int64_t>(n);
  }
  return leaver && may_replace(*leaver) ? leaver : std::nullopt;
}

void Coordinator::gather(const Reports& reports, MonotonicPoint now) {
  for (size_t n = 0; n < reports.size(); ++n)
    if (reports[n] && reports[n]->stop_requested && awaited_ != static_cast<int64_t>(n))
      return leave(
          contract::kExitPreempted, "asked to stop before the ranks had started", std::nullopt
      );
  const int64_t round = directive_.round;
  const auto ready = [round](const NodeReport& report) {
    return report.round == round && report.phase == AgentPhase::Ready;
  };
  if (!awaited_ && all_nodes(reports, ready)) {
    directive_.kind = DirectiveKind::Run;
    follow_on_since_.reset();
    return;
  }
  // A failure at the barrier, such as a rank that cannot be started, ends the attempt.
  for (const auto& report : reports)
    if (report && report->round == round && report->failure)
      return leave(report->failure->exit_code, report->failure->message, report->failure);
  if (now - gathering_since_ <= options_.rendezvous_timeout) return;
  const std::vector<int64_t> missing = missing_nodes(reports, round);
  Failure failure{.exit_code = contract::kExitPeerLost, .reason = "PeerLost"};
  if (!missing.empty()) failure.node = missing.front();
  if (awaited_) failure.node = *awaited_;
  failure.message = "after " + seconds(options_.rendezvous_timeout) +
                    ", these nodes had not reached the barrier of round " + std::to_string(round) +
                    ": " + joined(missing);
  leave(contract::kExitPeerLost, failure.message, failure);
}

std::optional<Failure> Coordinator::first_failure(const Reports& reports, MonotonicPoint now) {
  std::optional<Failure> follow_on;
  for (const auto& report : reports) {
    if (!report || report->round != directive_.round || !report->failure) continue;
    if (!report->failure->follow_on) return report->failure;
    if (!follow_on) follow_on = report->failure;
  }
  if (!follow_on) return std::nullopt;
  if (!follow_on_since_) follow_on_since_ = now;
  if (now - *follow_on_since_ < options_.blame_window) return std::nullopt;
  return follow_on;
}

void Coordinator::watch_round(const Reports& reports, MonotonicPoint now) {
  const int64_t round = directive_.round;
  const auto stop = [](const std::optional<NodeReport>& report) {
    return report && report->stop_requested;
  };
  if (std::any_of(reports.begin(), reports.end(), stop)) {
    directive_.kind = DirectiveKind::Stop;
    stopping_since_ = now;
    return;
  }
  if (const auto failure = first_failure(reports, now)) return end_round(*failure, now);
  const auto done = [round](const NodeReport& report) {
    return report.round == round && report.phase == AgentPhase::Done;
  };
  if (all_nodes(reports, done)) leave(contract::kExitDone, "done", std::nullopt);
}

void Coordinator::watch_stop(const Reports& reports, MonotonicPoint now) {
  const auto ended = [](const NodeReport& report) {
    return report.phase == AgentPhase::Done || report.phase == AgentPhase::Stopped ||
           report.phase == AgentPhase::Failed;
  };
  // The ranks that run are waiting for that node's: no work is lost.
  for (const auto& report : reports)
    if (report && report->phase == AgentPhase::Unstarted)
      return leave(
          contract::kExitPreempted, "asked to stop before all ranks had started", std::nullopt
      );
  const auto done = [](const NodeReport& report) { return report.phase == AgentPhase::Done; };
  if (all_nodes(reports, done)) return leave(contract::kExitDone, "done", std::nullopt);
  const auto failure = first_failure(reports, now);
  const bool all_ended = all_nodes(reports, ended);
  if (const auto leaver = only_leaver(reports); leaver && all_ended && !failure) {
    awaited_ = leaver;
    Failure left{.node = *leaver, .exit_code = contract::kExitPreempted, .reason = "Preempted"};
    left.message = "node " + std::to_string(*leaver) + " was asked to stop";
    return begin_next_round(left, now);
  }
  if (all_ended || failure)
    return leave(
        contract::kExitPreempted,
        failure ? "asked to stop; then " + failure->message : "asked to stop",
        failure
    );
  if (now - stopping_since_ > options_.grace)
    leave(
        contract::kExitPreempted,
        "asked to stop; some ranks were still running after " + seconds(options_.grace),
        std::nullopt
    );
}

void Coordinator::end_round(const Failure& failure, MonotonicPoint now) {
  if (!retryable(failure.exit_code)) return leave(failure.exit_code, failure.message, failure);
  if (directive_.round >= options_.rounds_left)
    return leave(
        failure.exit_code,
        failure.message + " (no restart left after round " + std::to_string(directive_.round) + ")",
        failure
    );
  begin_next_round(failure, now);
}

void Coordinator::begin_next_round(const Failure& failure, MonotonicPoint now) {
  directive_.kind = DirectiveKind::Prepare;
  directive_.round += 1;
  directive_.failure = failure;
  gathering_since_ = now;
}

void Coordinator::leave(int64_t exit_code, std::string message, std::optional<Failure> failure) {
  directive_.kind = DirectiveKind::Leave;
  directive_.exit_code = exit_code;
  directive_.message = std::move(message);
  if (failure) directive_.failure = std::move(failure);
}

}  // namespace gnn::agent
