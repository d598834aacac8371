#include "worker/agent/agent.h"

#include "common/contract.h"
#include "common/guarded.h"
#include "common/log.h"
#include "common/running_time.h"
#include "worker/agent/final_result.h"
#include "worker/agent/memory_note.h"
#include "worker/agent/pages.h"
#include "worker/agent/rank_group.h"
#include "worker/agent/signals.h"
#include "worker/agent/stillness.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <poll.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace gnn::agent {
namespace {

constexpr int kTickMilliseconds = 250;
constexpr auto kMemoryInterval = std::chrono::seconds(1);
constexpr auto kFinalBarrier = std::chrono::seconds(10);
constexpr auto kHealthLimit = std::chrono::seconds(10);

// If node 0 does not end a stopped job in time, the agent leaves on its own.
constexpr auto kStopMargin = std::chrono::seconds(3);

constexpr auto kWatchInterval = std::chrono::milliseconds(250);
// For the result of an agent that hangs: the volume that holds it up may be the one to write to.
constexpr unsigned kSecondsForLastWord = 5;

// "node 0, rank 3, exit code 70" of the failure behind a directive; empty without one.
std::string culprit_of(const Directive& directive) {
  if (!directive.failure) return "";
  const Failure& failure = *directive.failure;
  std::string text = "node " + std::to_string(failure.node);
  if (failure.rank >= 0) text += ", rank " + std::to_string(failure.rank);
  return text + ", exit code " + std::to_string(failure.exit_code);
}

// An agent has pipes to its ranks, the store's host a connection to each agent and rank, and a rank
// connections to all others in more than one group. Without a file for one of them a job would wait
// for its rendezvous in vain.
int64_t open_files_of(const AgentOptions& options) {
  return 64 + 16 * options.processes_per_node + 4 * options.world_size();
}

std::optional<int64_t> memory_limit(const AgentOptions& options) {
  const auto state = memory_state(options.cgroup);
  return state ? state->limit_bytes : std::nullopt;
}

int end_agent(const AgentOptions& options, const Error& error) {
  log_error(error.message);
  const int exit_code = contract::exit_code_for(error.kind);
  const NodeResult result{.exit_code = exit_code, .message = error.message};
  if (auto status = write_result(options, result); !status)
    log_warning("cannot write the final result", {{"why", status.error().message}});
  return exit_code;
}

class Agent {
 public:
  Agent(const AgentOptions& options, StoreConnector connect, const AgentOutput& output)
      : options_(options),
        output_(output),
        signals_({SIGTERM, SIGINT, SIGCHLD}),
        progress_(options),
        link_(options, std::move(connect), clock_) {
    mine_.node = options.node;
  }
  ~Agent() {
    *over_.lock() = true;
    over_.notify_all();
    if (watch_.joinable()) watch_.join();
  }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  int run() {
    if (auto status = serve(); !status) return end_agent(options_, status.error());
    watch_ = std::thread([this] { watch_turns(); });
    while (!exit_code_) tick();
    return *exit_code_;
  }

 private:
  Status serve() {
    Pages pages{
        .metrics = [this] { return progress_.registry().expose(); },
        .progress = [this] { return *page_.lock(); },
        .healthy =
            [this] {
              return clock_.monotonic().time_since_epoch() - last_tick_.load() < kHealthLimit;
            }
    };
    refresh_page();
    GNN_ASSIGN_OR_RETURN(http_, serve_pages(options_.http_address, std::move(pages)));
    log_info(
        "agent started",
        {{"job", options_.job},
         {"attempt", options_.attempt},
         {"node", options_.node},
         {"http_port", http_->port()}}
    );
    return {};
  }

  // Peers notice an agent that hangs, but a job of one node has none, and no peer ends the agent.
  void watch_turns() {
    // Peers speak first: they know the whole job.
    const Duration limit = kLongestTurn + options_.peer_timeout;
    RunningTime running(clock_.monotonic());
    Stillness stillness(clock_.monotonic(), limit);
    const auto is_over = [this] {
      return over_.lock().wait_until(clock_, clock_.monotonic() + kWatchInterval, [](bool over) {
        return over;
      });
    };
    while (!is_over())
      if (stillness.hangs(last_tick_.load().count(), running.advance(clock_.monotonic())))
        end_hanging(limit);
  }

  // The supervising thread may hold any lock, and never answers again. Ranks die with it.
  [[noreturn]] void end_hanging(Duration limit) {
    ::signal(SIGALRM, SIG_DFL);
    ::alarm(kSecondsForLastWord);
    NodeResult result{.round = round_.load(), .exit_code = contract::kExitOther};
    result.message =
        "the agent of node " + std::to_string(options_.node) +
        " hung: its main thread stood still for more than " +
        std::to_string(std::chrono::duration_cast<std::chrono::seconds>(limit).count()) + " s";
    static_cast<void>(write_result(options_, result));
    log_error(result.message);
    ::_exit(static_cast<int>(result.exit_code));
  }

  void tick() {
    wait_for_events();
    last_tick_.store(clock_.monotonic().time_since_epoch());
    const auto now = running_.advance(clock_.monotonic());
    for (const int signal : signals_.take())
      if (signal != SIGCHLD) on_stop_signal(signal, now);
    if (ranks_) ranks_->read(now);
    reap();
    const auto view = link_.view();
    note_marks(view.marks, now);
    if (ranks_) ranks_->watch(now, others_progress_at_);
    read_memory(now);
    judge_ranks();
    if (view.refused > refused_) {
      log_warning(
          "handshake refused a process of another job, attempt or round", {{"total", view.refused}}
      );
      refused_ = view.refused;
      progress_.on_refused(refused_);
    }
    obey(view, now);
    tell_servers(view);
    mine_.items_per_second = progress_.items_per_second();
    mine_.marks = ranks_ ? ranks_->marks() : 0;
    if (!exit_code_) posted_ = link_.report(mine_);
    all_items_per_second_ = sum_rates(view);
    refresh_page(view);
  }

  void wait_for_events() {
    std::vector<pollfd> entries{
        {.fd = signals_.fd(), .events = POLLIN, .revents = 0},
        {.fd = link_.changed_fd(), .events = POLLIN, .revents = 0}
    };
    if (ranks_) ranks_->add_poll_entries(entries);
    ::poll(entries.data(), entries.size(), kTickMilliseconds);
    link_.clear_changed();
  }

  void on_stop_signal(int signal, MonotonicPoint now) {
    if (!mine_.stop_requested) stop_since_ = now;
    mine_.stop_requested = true;
    log_info("asked to stop", {{"signal", signal}, {"node", options_.node}});
  }

  void reap() {
    int status = 0;
    for (pid_t pid = ::waitpid(-1, &status, WNOHANG); pid > 0;
         pid = ::waitpid(-1, &status, WNOHANG))
      if (ranks_) ranks_->on_exit(pid, status);
  }

  // This node's ranks are among those of the round: their marks come back a little later.
  void note_marks(int64_t marks_of_round, MonotonicPoint now) {
    if (marks_of_round != marks_of_round_) others_progress_at_ = now;
    marks_of_round_ = marks_of_round;
  }

  void read_memory(MonotonicPoint now) {
    if (!ranks_ || now - memory_at_ < kMemoryInterval) return;
    memory_at_ = now;
    const int64_t first_rank = options_.node * options_.processes_per_node;
    std::vector<int64_t> resident;
    for (int64_t i = 0; i < options_.processes_per_node; ++i) {
      resident.push_back(ranks_->resident_bytes(i));
      progress_.on_memory(first_rank + i, resident.back());
    }
    if (leaving_) return;
    if (const auto note = memory_notes_.take(resident, first_rank))
      leave_note(first_rank + note->local_rank, note->message);
  }

  // The termination message in case that the kernel ends the whole container; any other end replaces it.
  void leave_note(int64_t rank, const std::string& message) {
    NodeResult result{
        .round = mine_.round,
        .exit_code = contract::kExitOutOfMemory,
        .message = message,
        .numbers = progress_.numbers()
    };
    result.failure = Failure{
        .node = options_.node,
        .rank = rank,
        .exit_code = result.exit_code,
        .reason = std::string(contract::exit_reason(contract::kExitOutOfMemory))
    };
    if (auto status = write_result(options_, result); !status)
      log_warning("cannot write how much memory the ranks hold", {{"why", status.error().message}});
  }

  // Updates this node's report from how its ranks ended.
  void judge_ranks() {
    if (!ranks_ || leaving_) return;
    // The first failure, or its cause if that was found later.
    if (ranks_->failure() != mine_.failure) {
      mine_.phase = AgentPhase::Failed;
      mine_.failure = ranks_->failure();
      if (mine_.failure) progress_.on_failure(*mine_.failure);
      log_warning(
          "a rank failed",
          {{"node", options_.node},
           {"rank", mine_.failure->rank},
           {"round", mine_.round},
           {"why", mine_.failure->message},
           {"follow_on", mine_.failure->follow_on}}
      );
    } else if (mine_.phase == AgentPhase::Running && ranks_->all_ended()) {
      mine_.phase = ranks_->any_preempted() ? AgentPhase::Stopped : AgentPhase::Done;
    }
  }

  void obey(const StoreLink::View& view, MonotonicPoint now) {
    if (leaving_) return continue_leaving(view, now);
    if (view.lost)
      return begin_leaving(
          Directive{
              .kind = DirectiveKind::Leave,
              .exit_code = contract::kExitPeerLost,
              .message = view.lost->message
          },
          now
      );
    if (stop_since_ && (!view.directive || now - *stop_since_ > options_.grace + kStopMargin))
      return begin_leaving(
          Directive{
              .kind = DirectiveKind::Leave,
              .exit_code = contract::kExitPreempted,
              .message = view.directive ? "asked to stop; the job did not stop in time"
                                        : "asked to stop before the rendezvous"
          },
          now
      );
    if (!view.directive) return;
    const Directive& directive = *view.directive;
    switch (directive.kind) {
      case DirectiveKind::Prepare:
        if (gives_up_its_place(directive))
          return begin_leaving(
              Directive{
                  .kind = DirectiveKind::Leave,
                  .exit_code = contract::kExitPreempted,
                  .message = "asked to stop; another pod takes its place"
              },
              now
          );
        return prepare(directive);
      case DirectiveKind::Run:
        return start_ranks(directive.round, now);
      case DirectiveKind::Stop:
        if (ranks_) return ranks_->stop();
        if (mine_.phase == AgentPhase::Ready) mine_.phase = AgentPhase::Unstarted;
        return;
      case DirectiveKind::Leave:
        return begin_leaving(directive, now);
    }
  }

  // This node alone was asked to stop, and the others go on with another pod of it.
  bool gives_up_its_place(const Directive& directive) const {
    return mine_.stop_requested && directive.failure && directive.failure->node == options_.node &&
           directive.failure->exit_code == contract::kExitPreempted;
  }

  void prepare(const Directive& directive) {
    if (mine_.round == directive.round) return;
    if (ranks_) {
      ranks_->kill();
      reap();
      if (!ranks_->all_ended()) return;  // the next tick tries again
      ranks_.reset();
    }
    mine_.round = directive.round;
    round_.store(directive.round);
    mine_.phase = AgentPhase::Ready;
    mine_.failure.reset();
    progress_.on_round(directive.round);
    log_warning(
        "restarting in place",
        {{"node", options_.node},
         {"round", directive.round},
         {"culprit", culprit_of(directive)},
         {"why", directive.failure ? directive.failure->message : std::string()}}
    );
  }

  void start_ranks(int64_t round, MonotonicPoint now) {
    if (mine_.phase != AgentPhase::Ready || mine_.round != round || mine_.failure) return;
    auto started = RankGroup::start(
        options_,
        {.round = round, .checked_version = checked_version_},
        output_.on_line,
        [this](int64_t rank, const RankReport& report) { on_report(rank, report); },
        now
    );
    mine_.phase = AgentPhase::Running;
    if (started) {
      ranks_ = std::move(*started);
      told_servers_.clear();
      return;
    }
    Failure failure{.node = options_.node, .exit_code = contract::kExitOther, .reason = "Error"};
    failure.message = started.error().message;
    mine_.failure = std::move(failure);
    mine_.phase = AgentPhase::Failed;
  }

  // Ranks start without any, and hear of changes.
  void tell_servers(const StoreLink::View& view) {
    if (!view.directive) return;
    const auto& servers = view.directive->servers;
    note_servers(servers);
    if (!ranks_ || servers == told_servers_) return;
    told_servers_ = servers;
    ranks_->tell_servers(servers);
  }

  void note_servers(const std::vector<LiveServer>& servers) {
    if (servers == known_servers_) return;
    known_servers_ = servers;
    progress_.on_servers(static_cast<int64_t>(servers.size()));
    if (options_.node == 0)
      log_info("sampling servers changed", {{"live", static_cast<int64_t>(servers.size())}});
  }

  void on_report(int64_t rank, const RankReport& report) {
    progress_.on_report(rank, report, clock_.monotonic(), clock_.now());
    if (!report.checked_version.empty()) checked_version_ = report.checked_version;
    if (output_.on_numbers && rank == options_.node * options_.processes_per_node)
      output_.on_numbers(progress_.numbers());
  }

  void begin_leaving(const Directive& directive, MonotonicPoint now) {
    leaving_ = directive;
    leaving_since_ = now;
    if (ranks_) ranks_->kill();
    const bool ended_well = directive.exit_code == contract::kExitDone;
    if (!ended_well)
      log_warning(
          "leaving",
          {{"node", options_.node},
           {"code", directive.exit_code},
           {"culprit", culprit_of(directive)},
           {"why", directive.message}}
      );
    continue_leaving(link_.view(), now);
  }

  void continue_leaving(const StoreLink::View& view, MonotonicPoint now) {
    const bool late = now - leaving_since_ > kFinalBarrier;
    if (ranks_ && !ranks_->all_ended() && !late) return;
    if (!result_written_) {
      result_written_ = true;
      const NodeResult result = make_result();
      if (auto status = write_result(options_, result); !status)
        log_warning("cannot write the final result", {{"why", status.error().message}});
      mine_.phase = AgentPhase::Left;
      posted_ = link_.report(mine_);
    }
    // The final barrier: wait until the others can read that this node left in order. Node 0 hosts
    // the store and leaves last.
    const bool posted = view.lost || !view.joined || view.posted >= posted_;
    const bool alone = options_.node != 0 || view.lost || (others_left(view) && servers_left(view));
    if (late || (posted && alone)) exit_code_ = code_of(*leaving_);
  }

  // A directive still names the failure of the last round, whose node may have been replaced since.
  bool is_lost(int64_t node, const StoreLink::View& view) const {
    const auto& failure = leaving_->failure;
    const bool ended_by_it = leaving_->exit_code == contract::kExitPeerLost && failure &&
                             failure->rank < 0 && failure->node == node;
    return ended_by_it || view.awaited == node;
  }

  // Servers go on where the job does.
  bool servers_left(const StoreLink::View& view) const {
    return leaving_->exit_code != contract::kExitDone || view.staying_servers == 0;
  }

  bool others_left(const StoreLink::View& view) const {
    for (size_t n = 1; n < view.nodes.size(); ++n) {
      // A node that never came, or that was lost, will not report that it leaves.
      if (!view.nodes[n]) continue;
      if (is_lost(static_cast<int64_t>(n), view)) continue;
      if (view.nodes[n]->phase != AgentPhase::Left) return false;
    }
    return true;
  }

  // The culprit's node exits with the failure's code; the other nodes have lost a peer.
  int code_of(const Directive& directive) const {
    const bool shared = directive.exit_code == contract::kExitDone ||
                        directive.exit_code == contract::kExitPreempted;
    const bool culprit = directive.failure && directive.failure->node == options_.node;
    return static_cast<int>(shared || culprit ? directive.exit_code : contract::kExitPeerLost);
  }

  NodeResult make_result() const {
    NodeResult result;
    result.round = mine_.round;
    result.exit_code = code_of(*leaving_);
    result.message = leaving_->message;
    if (leaving_->exit_code != contract::kExitDone)
      result.failure = leaving_->failure ? leaving_->failure : mine_.failure;
    result.numbers = progress_.numbers();
    return result;
  }

  double sum_rates(const StoreLink::View& view) const {
    if (view.nodes.empty()) return mine_.items_per_second;
    double sum = 0;
    for (const auto& node : view.nodes)
      if (node) sum += node->items_per_second;
    return sum;
  }

  void refresh_page(const StoreLink::View& view = {}) {
    std::string phase = "Rendezvous";
    if (leaving_) {
      phase = "Leaving";
    } else if (ranks_) {
      phase = to_string(progress_.phase());
    }
    progress_.on_phase(phase, ranks_ ? ranks_->running() : 0);
    auto page = encode_progress(
        options_,
        {.round = mine_.round,
         .phase = phase,
         .items_per_second = all_items_per_second_,
         .awaited_node = view.awaited},
        progress_.numbers()
    );
    *page_.lock() = std::move(page);
  }

  const AgentOptions& options_;
  const AgentOutput& output_;
  SystemClock clock_;
  RunningTime running_{clock_.monotonic()};
  SignalEvents signals_;  // before all members that start threads
  NodeProgress progress_;
  StoreLink link_;
  Guarded<std::string> page_;
  std::atomic<Duration> last_tick_{SystemClock().monotonic().time_since_epoch()};
  std::unique_ptr<http::Server> http_;
  std::optional<RankGroup> ranks_;
  std::string checked_version_;  // of this node's data
  std::vector<LiveServer> known_servers_;
  std::vector<LiveServer> told_servers_;  // what this round's ranks know
  NodeReport mine_;
  int64_t posted_ = 0;
  int64_t refused_ = 0;
  int64_t marks_of_round_ = 0;
  MonotonicPoint others_progress_at_{};
  double all_items_per_second_ = 0;
  MonotonicPoint memory_at_{};
  MemoryNotes memory_notes_{memory_limit(options_)};
  std::optional<MonotonicPoint> stop_since_;
  std::optional<Directive> leaving_;
  MonotonicPoint leaving_since_{};
  bool result_written_ = false;
  std::optional<int> exit_code_;
  // Of the thread that watches this one.
  std::atomic<int64_t> round_{0};  // mine_.round, for that thread
  Guarded<bool> over_{false};
  std::thread watch_;
};

}  // namespace

int run_agent(const AgentOptions& options, StoreConnector connect, const AgentOutput& output) {
  // Before anything opens files: the result is one, too.
  if (auto status = allow_open_files(open_files_of(options)); !status)
    return end_agent(options, status.error());
  Agent agent(options, std::move(connect), output);
  return agent.run();
}

}  // namespace gnn::agent
