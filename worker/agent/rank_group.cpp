#include "worker/agent/rank_group.h"

#include "common/contract.h"
#include "worker/agent/memory_note.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <sys/socket.h>
#include <sys/wait.h>

namespace gnn::agent {
namespace {

constexpr size_t kStderrTail = 2048;
constexpr size_t kLongestMessage = size_t{64} * 1024;
// Of lines, at a time: all of a full pipe, so that the last words of a rank that ended are read. A
// rank that never stops writing must not keep us from the others.
constexpr int kMostReads = 5;

std::string seconds(std::chrono::nanoseconds duration) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(duration).count()) + " s";
}

int64_t contract_code(int code) {
  switch (code) {
    case contract::kExitConfiguration:
    case contract::kExitData:
    case contract::kExitPeerLost:
    case contract::kExitPreempted:
    case contract::kExitOutOfMemory:
      return code;
    default:
      return contract::kExitOther;
  }
}

Failure judge_signal(const RankExit& rank_exit, Failure failure) {
  failure.signal = WTERMSIG(rank_exit.status);
  const std::string who = "rank " + std::to_string(rank_exit.rank);
  if (failure.signal == SIGKILL && rank_exit.oom_kills > 0) {
    failure.exit_code = contract::kExitOutOfMemory;
    failure.message = who + " was killed by the kernel: out of memory";
    if (rank_exit.memory && rank_exit.memory->peak_bytes && rank_exit.memory->limit_bytes)
      failure.message += " (peak " + mebibytes(*rank_exit.memory->peak_bytes) + ", limit " +
                         mebibytes(*rank_exit.memory->limit_bytes) + ")";
  } else {
    failure.exit_code = contract::kExitOther;
    failure.message = who + " was killed by signal " + std::to_string(failure.signal) + " (" +
                      ::strsignal(static_cast<int>(failure.signal)) + ")";
  }
  failure.reason = contract::exit_reason(static_cast<int>(failure.exit_code));
  return failure;
}

std::chrono::milliseconds stage_timeout(const RankTimeouts& timeouts, progress::Phase phase) {
  switch (phase) {
    case progress::Phase::Setup:
    case progress::Phase::Done:
      return timeouts.setup;
    case progress::Phase::Train:
      return timeouts.step;
    case progress::Phase::Validate:
    case progress::Phase::Test:
      return timeouts.evaluation;
    case progress::Phase::Checkpoint:
      return timeouts.checkpoint;
  }
  return timeouts.setup;
}

Environment rank_environment(
    const AgentOptions& options, const RoundStart& round, int64_t local_rank
) {
  namespace c = contract;
  Environment environment = current_environment();
  const auto put = [&environment](std::string_view name, const std::string& value) {
    environment[std::string(name)] = value;
  };
  put(c::kEnvJob, options.job);
  put(c::kEnvJobUid, options.job_uid);
  put(c::kEnvAttempt, std::to_string(options.attempt));
  put(c::kEnvRound, std::to_string(round.round));
  put(c::kEnvCheckedData, round.checked_version);
  put(c::kEnvRank, std::to_string(options.node * options.processes_per_node + local_rank));
  put(c::kEnvLocalRank, std::to_string(local_rank));
  put(c::kEnvWorldSize, std::to_string(options.world_size()));
  put(c::kEnvLocalWorldSize, std::to_string(options.processes_per_node));
  put(c::kEnvGroupRank, std::to_string(options.node));
  put(c::kEnvMasterAddr, options.store_host);
  put(c::kEnvMasterPort, std::to_string(options.store_port));
  put(c::kEnvCollectiveTimeout,
      std::to_string(options.collective_timeout / std::chrono::seconds(1)));
  // The rank's share of the pod's CPUs; the user's own choice takes precedence.
  const int64_t node_cpus = options.cpus > 0 ? options.cpus : usable_cpus(options.cgroup);
  const int64_t cpus = std::max<int64_t>(1, node_cpus / options.processes_per_node);
  environment.try_emplace("OMP_NUM_THREADS", std::to_string(cpus));
  put(c::kEnvRankCpus, std::to_string(cpus));
  if (options.visible_gpus) put("CUDA_VISIBLE_DEVICES", *options.visible_gpus);
  // Saves the rank from starting itself again to get it (worker/main/passive_openmp.cpp).
  environment.try_emplace("OMP_WAIT_POLICY", "passive");
  // c10d warns with stack traces of what we report in one line; the user's choice takes precedence.
  environment.try_emplace("TORCH_CPP_LOG_LEVEL", "ERROR");
  return environment;
}

}  // namespace

std::optional<Failure> judge_exit(const RankExit& rank_exit) {
  Failure failure{.node = rank_exit.node, .rank = rank_exit.rank};
  failure.stderr_tail = rank_exit.stderr_tail;
  if (WIFSIGNALED(rank_exit.status)) return judge_signal(rank_exit, std::move(failure));
  const int code = WEXITSTATUS(rank_exit.status);
  if (code == contract::kExitDone) return std::nullopt;
  if (code == contract::kExitPreempted && rank_exit.stopping) return std::nullopt;
  failure.exit_code = contract_code(code);
  failure.reason = contract::exit_reason(static_cast<int>(failure.exit_code));
  failure.follow_on = code == contract::kExitPeerLost && !rank_exit.no_server;
  failure.message = rank_exit.said ? rank_exit.said->message
                                   : "rank " + std::to_string(rank_exit.rank) +
                                         " exited with code " + std::to_string(code);
  return failure;
}

void wait_with_round(RankSigns& signs, MonotonicPoint progress_at) {
  if (signs.report.in_collective) signs.progress_at = std::max(signs.progress_at, progress_at);
}

std::optional<Silence> judge_silence(
    const RankSigns& signs, const RankTimeouts& timeouts, MonotonicPoint now
) {
  const std::string phase(to_string(signs.report.phase));
  if (signs.spoke && now - signs.heard_at > timeouts.heartbeat)
    return Silence{
        .message = "no heartbeat for " + seconds(now - signs.heard_at) + " in phase " + phase +
                   ", step " + std::to_string(signs.report.step.global_step)
    };
  const auto limit = stage_timeout(timeouts, signs.report.phase);
  if (now - signs.progress_at <= limit) return std::nullopt;
  const bool waits = signs.report.in_collective;
  return Silence{
      .message =
          "no progress for " + seconds(now - signs.progress_at) + " in phase " + phase +
          (waits ? ", waiting in collective " + std::to_string(signs.report.collectives_done + 1)
                 : std::string(", outside of any collective")),
      .follow_on = waits
  };
}

Result<RankGroup> RankGroup::start(
    const AgentOptions& options,
    const RoundStart& round,
    LineSink on_line,
    ReportSink on_report,
    MonotonicPoint now
) {
  RankGroup group;
  group.options_ = &options;
  group.round_ = round.round;
  group.on_line_ = std::move(on_line);
  group.on_report_ = std::move(on_report);
  group.memory_at_start_ = memory_state(options.cgroup);
  for (int64_t local_rank = 0; local_rank < options.processes_per_node; ++local_rank) {
    auto process =
        RankProcess::spawn(options.rank_command, rank_environment(options, round, local_rank));
    if (!process) {
      group.kill();
      return tl::make_unexpected(with_context(std::move(process).error(), "cannot start a rank"));
    }
    Rank rank{.process = std::move(*process)};
    rank.rank = options.node * options.processes_per_node + local_rank;
    rank.signs.heard_at = now;
    rank.signs.progress_at = now;
    group.ranks_.push_back(std::move(rank));
  }
  return group;
}

void RankGroup::add_poll_entries(std::vector<pollfd>& entries) const {
  for (const auto& rank : ranks_)
    for (const int fd : {rank.process.output(), rank.process.error(), rank.process.link()})
      if (fd >= 0) entries.push_back({.fd = fd, .events = POLLIN, .revents = 0});
}

void RankGroup::read(MonotonicPoint now) {
  for (auto& rank : ranks_) {
    read_messages(rank, now);
    read_lines(rank, RankStream::Output);
    read_lines(rank, RankStream::Error);
  }
}

void RankGroup::read_lines(Rank& rank, RankStream stream) {
  const bool is_error = stream == RankStream::Error;
  const int fd = is_error ? rank.process.error() : rank.process.output();
  if (fd < 0) return;
  auto& splitter = is_error ? rank.error : rank.output;
  const auto on_line = [&](std::string_view line) { on_line_(rank.rank, stream, line); };
  std::array<char, size_t{16} * 1024> buffer{};
  for (int reads = 0; reads < kMostReads; ++reads) {
    const ssize_t size = ::read(fd, buffer.data(), buffer.size());
    if (size > 0) {
      const std::string_view bytes(buffer.data(), static_cast<size_t>(size));
      splitter.append(bytes, on_line);
      if (!is_error) continue;
      rank.stderr_tail += bytes;
      if (rank.stderr_tail.size() > kStderrTail)
        rank.stderr_tail.erase(0, rank.stderr_tail.size() - kStderrTail);
      continue;
    }
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    splitter.finish(on_line);
    is_error ? rank.process.close_error() : rank.process.close_output();
    return;
  }
}

void RankGroup::read_messages(Rank& rank, MonotonicPoint now) {
  std::vector<char> buffer(kLongestMessage);
  while (rank.process.link() >= 0) {
    const ssize_t size = ::recv(rank.process.link(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size < 0) return;
    if (size == 0) return rank.process.close_link();
    auto message = decode_rank_message({buffer.data(), static_cast<size_t>(size)});
    if (!message) continue;  // not written by our code; the heartbeat time-out covers the rest
    rank.signs.spoke = true;
    rank.signs.heard_at = now;
    if (message->failure) rank.said = std::move(message->failure);
    if (!message->report) continue;
    if (message->report->marks != rank.signs.report.marks) rank.signs.progress_at = now;
    rank.signs.report = std::move(*message->report);
    on_report_(rank.rank, rank.signs.report);
  }
}

bool RankGroup::on_exit(pid_t pid, int status) {
  const auto found = std::find_if(ranks_.begin(), ranks_.end(), [pid](const Rank& rank) {
    return rank.process.pid() == pid;
  });
  if (found == ranks_.end()) return false;
  // Its last lines may still be in the pipes.
  read_messages(*found, found->signs.heard_at);
  read_lines(*found, RankStream::Output);
  read_lines(*found, RankStream::Error);
  found->process.signal(SIGKILL);  // processes that it has started
  found->status = status;
  if (killed_ || found->hung) return true;
  RankExit rank_exit{
      .node = options_->node, .rank = found->rank, .status = status, .stopping = stopping_
  };
  rank_exit.memory = memory_state(options_->cgroup);
  if (rank_exit.memory && memory_at_start_)
    rank_exit.oom_kills = rank_exit.memory->oom_kills - memory_at_start_->oom_kills;
  rank_exit.said = found->said;
  rank_exit.no_server = found->signs.report.served && found->signs.report.served->gave_up;
  rank_exit.stderr_tail = found->stderr_tail;
  if (auto failure = judge_exit(rank_exit)) keep(std::move(*failure));
  return true;
}

void RankGroup::watch(MonotonicPoint now, MonotonicPoint others_progress_at) {
  send_servers();
  MonotonicPoint progress_at = others_progress_at;
  for (const auto& rank : ranks_) progress_at = std::max(progress_at, rank.signs.progress_at);
  for (auto& rank : ranks_) {
    if (rank.status || rank.hung) continue;
    wait_with_round(rank.signs, progress_at);
    const auto silence = judge_silence(rank.signs, options_->timeouts, now);
    if (!silence) continue;
    Failure failure{.node = options_->node, .rank = rank.rank, .exit_code = contract::kExitOther};
    failure.follow_on = silence->follow_on;
    failure.reason = "Hung";
    failure.message = "rank " + std::to_string(rank.rank) + " hangs: " + silence->message;
    failure.stderr_tail = rank.stderr_tail;
    keep(std::move(failure));
    rank.hung = true;
    rank.process.signal(SIGKILL);
  }
}

void RankGroup::keep(Failure failure) {
  if (!failure_ || (failure_->follow_on && !failure.follow_on)) failure_ = std::move(failure);
}

void RankGroup::stop() {
  if (stopping_) return;
  stopping_ = true;
  for (const auto& rank : ranks_)
    if (rank.process.link() >= 0)
      ::send(
          rank.process.link(), kStopMessage.data(), kStopMessage.size(), MSG_DONTWAIT | MSG_NOSIGNAL
      );
}

void RankGroup::tell_servers(const std::vector<LiveServer>& servers) {
  servers_ = encode(servers);
  for (auto& rank : ranks_) rank.knows_servers = false;
  send_servers();
}

void RankGroup::send_servers() {
  for (auto& rank : ranks_) {
    if (rank.knows_servers || rank.process.link() < 0) continue;
    const ssize_t sent =
        ::send(rank.process.link(), servers_.data(), servers_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    rank.knows_servers = sent >= 0;
  }
}

void RankGroup::kill() {
  killed_ = true;
  for (const auto& rank : ranks_)
    if (!rank.status) rank.process.signal(SIGKILL);
}

bool RankGroup::all_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
    return rank.status.has_value();
  });
}

int64_t RankGroup::running() const {
  return std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return !rank.status; });
}

int64_t RankGroup::marks() const {
  uint64_t marks = 0;  // what the ranks sent may overflow
  for (const auto& rank : ranks_) marks += static_cast<uint64_t>(rank.signs.report.marks);
  return static_cast<int64_t>(marks);
}

bool RankGroup::any_preempted() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
    return rank.status && WIFEXITED(*rank.status) &&
           WEXITSTATUS(*rank.status) == contract::kExitPreempted;
  });
}

int64_t RankGroup::resident_bytes(int64_t local_rank) const {
  const auto& rank = ranks_.at(static_cast<size_t>(local_rank));
  if (rank.status) return 0;
  std::ifstream file("/proc/" + std::to_string(rank.process.pid()) + "/statm");
  int64_t total = 0;
  int64_t resident = 0;
  file >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace gnn::agent
