#pragma once

#include "common/clock.h"
#include "common/result.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/messages.h"
#include "worker/agent/rank_process.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace gnn::agent {

/// How a rank ended: what judge_exit() looks at.
struct RankExit {
  int64_t node = 0;
  int64_t rank = 0;
  int status = 0;         ///< from waitpid()
  bool stopping = false;  ///< the job was asked to stop
  int64_t oom_kills = 0;  ///< in our cgroup while the rank ran
  std::optional<MemoryState> memory{};
  std::optional<RankFailure> said{};
  bool no_server = false;  ///< it gave up waiting for a sampling server
  std::string stderr_tail{};
};

/// The failure, or nothing if the rank ended as it should: Done, or Preempted after a stop.
[[nodiscard]] std::optional<Failure> judge_exit(const RankExit& rank_exit);

/// Signs of life of a running rank: what judge_silence() looks at.
struct RankSigns {
  bool spoke = false;            ///< it has sent something since it started
  MonotonicPoint heard_at{};     ///< time of the latest message; before the first one, of the start
  MonotonicPoint progress_at{};  ///< time of the latest sign of progress; see wait_with_round()
  RankReport report{};
};

/// Counts the latest progress of any rank of the round, at `progress_at`, as progress of a rank that
/// waits in a collective: it may wait for that one. While no rank progresses, neither does it.
void wait_with_round(RankSigns& signs, MonotonicPoint progress_at);

/// Why a rank counts as hung. `follow_on`: it only waits for other ranks.
struct Silence {
  std::string message{};
  bool follow_on = false;
};
/// Nothing while the rank does not count as hung.
[[nodiscard]] std::optional<Silence> judge_silence(
    const RankSigns& signs, const RankTimeouts& timeouts, MonotonicPoint now
);

/// What the ranks of a round are told.
struct RoundStart {
  int64_t round = 0;
  std::string checked_version{};  ///< of the data, as ranks of earlier rounds have reported it
};

/// The ranks of one node in one round: starts them, reads their messages, notices those that hang,
/// and stops them. Keeps the failure that came first.
/// Threads: only the process's main thread (see RankProcess).
class RankGroup {
 public:
  using LineSink = std::function<void(int64_t rank, RankStream stream, std::string_view line)>;
  using ReportSink = std::function<void(int64_t rank, const RankReport& report)>;

  /// `on_line` is called with each line that a rank writes, `on_report` with each report.
  [[nodiscard]] static Result<RankGroup> start(
      const AgentOptions& options,
      const RoundStart& round,
      LineSink on_line,
      ReportSink on_report,
      MonotonicPoint now
  );

  void add_poll_entries(std::vector<pollfd>& entries) const;
  /// Reads what the ranks have written, without waiting.
  void read(MonotonicPoint now);
  /// Takes note of a child that ended; returns whether it was a rank of this group.
  bool on_exit(pid_t pid, int status);
  /// Kills ranks that hang. `others_progress_at`: when a rank of another node progressed last.
  void watch(MonotonicPoint now, MonotonicPoint others_progress_at);
  /// Asks the ranks to write a checkpoint and exit.
  void stop();
  /// Tells the ranks which sampling servers take part. One that can't take the message now gets the
  /// latest list with the next watch().
  void tell_servers(const std::vector<LiveServer>& servers);
  /// Kills all ranks; their ends count as no failure.
  void kill();

  [[nodiscard]] int64_t round() const { return round_; }
  [[nodiscard]] bool all_ended() const;
  [[nodiscard]] bool any_preempted() const;
  [[nodiscard]] int64_t running() const;
  /// The sum of the ranks' marks.
  [[nodiscard]] int64_t marks() const;
  [[nodiscard]] const std::optional<Failure>& failure() const { return failure_; }
  /// Resident bytes of a local rank; 0 if it has ended.
  [[nodiscard]] int64_t resident_bytes(int64_t local_rank) const;

 private:
  struct Rank {
    RankProcess process;
    int64_t rank = 0;
    RankSigns signs{};
    std::optional<RankFailure> said{};
    LineSplitter output{};
    LineSplitter error{};
    std::string stderr_tail{};
    std::optional<int> status{};
    bool knows_servers = true;  ///< it has been sent the latest list
    bool hung = false;          ///< its failure is kept already; its exit adds nothing
  };

  RankGroup() = default;
  void read_lines(Rank& rank, RankStream stream);
  void read_messages(Rank& rank, MonotonicPoint now);
  void keep(Failure failure);
  void send_servers();

  const AgentOptions* options_ = nullptr;
  int64_t round_ = 0;
  LineSink on_line_;
  ReportSink on_report_;
  std::deque<Rank> ranks_;
  std::optional<Failure> failure_;
  std::optional<MemoryState> memory_at_start_;
  std::string servers_;  // the message
  bool stopping_ = false;
  bool killed_ = false;
};

}  // namespace gnn::agent
