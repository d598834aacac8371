#include "worker/agent/local_servers.h"

#include "common/contract.h"
#include "common/log.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

namespace gnn::agent {
namespace {

constexpr auto kLongLife = std::chrono::seconds(10);
constexpr auto kFirstPause = std::chrono::milliseconds(100);
constexpr int64_t kMostDoublings = 7;

Duration pause_after(int64_t quick_ends) {
  if (quick_ends == 0) return Duration::zero();
  return kFirstPause * (int64_t{1} << std::min(quick_ends - 1, kMostDoublings));
}

}  // namespace

Status LocalServers::start(MonotonicPoint now) {
  for (int64_t n = 0; n < options_.servers; ++n) {
    servers_.emplace_back().number = n;
    GNN_RETURN_IF_ERROR(start_one(servers_.back(), now));
  }
  return {};
}

Status LocalServers::start_one(Server& server, MonotonicPoint now) {
  Environment environment = current_environment();
  for (auto& [name, value] : options_.environment(server.number, server.restart))
    environment[name] = value;
  auto process = RankProcess::spawn(options_.command, std::move(environment));
  if (!process)
    return tl::make_unexpected(with_context(std::move(process).error(), "cannot start a server"));
  server.process = std::move(*process);
  server.started_at = now;
  server.start_at.reset();
  return {};
}

void LocalServers::add_poll_entries(std::vector<pollfd>& entries) const {
  for (const auto& server : servers_) {
    if (!server.process) continue;
    for (const int fd : {server.process->output(), server.process->error()})
      if (fd >= 0) entries.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  }
}

Status LocalServers::tend(MonotonicPoint now) {
  for (auto& server : servers_) {
    read(server);
    if (stopping_ || !server.start_at || now < *server.start_at) continue;
    server.restart += 1;
    GNN_RETURN_IF_ERROR(start_one(server, now));
  }
  return {};
}

void LocalServers::read(Server& server) {
  if (!server.process) return;
  const auto on_line = [&](std::string_view line) { options_.on_line(server.number, line); };
  // At most what a full pipe holds: one that never stops writing must not keep us from others.
  constexpr int kMostReads = 5;
  std::array<char, size_t{16} * 1024> buffer{};
  const auto drain = [&](int fd, LineSplitter& lines) {
    for (int reads = 0; fd >= 0 && reads < kMostReads; ++reads) {
      const ssize_t size = ::read(fd, buffer.data(), buffer.size());
      if (size < 0) return;
      if (size == 0) {
        fd == server.process->output() ? server.process->close_output()
                                       : server.process->close_error();
        return;
      }
      lines.append({buffer.data(), static_cast<size_t>(size)}, on_line);
    }
  };
  drain(server.process->output(), server.output);
  drain(server.process->error(), server.error);
}

bool LocalServers::on_exit(pid_t pid, int status, MonotonicPoint now) {
  const auto found = std::find_if(servers_.begin(), servers_.end(), [pid](const Server& server) {
    return server.process && server.process->pid() == pid;
  });
  if (found == servers_.end()) return false;
  read(*found);
  const auto on_line = [&](std::string_view line) { options_.on_line(found->number, line); };
  found->output.finish(on_line);
  found->error.finish(on_line);
  found->process->signal(SIGKILL);  // processes that it has started
  found->process.reset();
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : contract::kExitOther;
  if (code == contract::kExitDone || stopping_) return true;
  if (code == contract::kExitConfiguration || code == contract::kExitData) {
    if (!final_code_) final_code_ = code;
    log_error(
        "a server can't serve, which another start would not change: the job ends",
        {{"server", found->number}, {"exit_code", code}}
    );
    return true;
  }
  found->quick_ends = now - found->started_at < kLongLife ? found->quick_ends + 1 : 0;
  found->start_at = now + pause_after(found->quick_ends);
  std::string how = "exit code " + std::to_string(code);
  if (WIFSIGNALED(status)) how = "signal " + std::to_string(WTERMSIG(status));
  log_warning(
      "a server ended and is started again",
      {{"server", found->number}, {"restart", found->restart + 1}, {"ended_by", how}}
  );
  return true;
}

void LocalServers::signal(int number) {
  start_no_more();
  for (const auto& server : servers_)
    if (server.process) server.process->signal(number);
}

bool LocalServers::all_ended() const {
  return std::all_of(servers_.begin(), servers_.end(), [this](const Server& server) {
    return !server.process && (stopping_ || final_code_ || !server.start_at);
  });
}

}  // namespace gnn::agent
