#include "worker/agent/rank_process.h"

#include "common/contract.h"
#include "worker/agent/signals.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char** environ;

namespace gnn::agent {
namespace {

constexpr size_t kLongestLine = size_t{8} * 1024;

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return fail(ErrorKind::Io, std::string("pipe: ") + std::strerror(errno));
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return Pipe{.read = UniqueFd(ends[0]), .write = UniqueFd(ends[1])};
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (auto& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Marks every descriptor but the standard ones close-on-exec: not all libraries do so.
void close_others_at_exec() {
#ifdef SYS_close_range
  constexpr unsigned kCloexec = 4;  // CLOSE_RANGE_CLOEXEC
  if (::syscall(SYS_close_range, 3U, ~0U, kCloexec) == 0) return;
#endif
  for (int fd = 3; fd < 1024; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

}  // namespace

Environment current_environment() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals != std::string_view::npos)
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

void LineSplitter::append(
    std::string_view bytes, const std::function<void(std::string_view)>& on_line
) {
  for (const char c : bytes) {
    if (c != '\n') rest_ += c;
    if (c != '\n' && rest_.size() < kLongestLine) continue;
    on_line(rest_);
    rest_.clear();
  }
}

void LineSplitter::finish(const std::function<void(std::string_view)>& on_line) {
  if (!rest_.empty()) on_line(rest_);
  rest_.clear();
}

void become_child_of(pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent)
    ::_exit(contract::kExitOther);  // the parent died before the line above
  restore_signals();
}

Result<RankProcess> RankProcess::spawn(
    const std::vector<std::string>& command, Environment environment
) {
  GNN_ASSIGN_OR_RETURN(Pipe output, make_pipe());
  GNN_ASSIGN_OR_RETURN(Pipe error, make_pipe());
  std::array<int, 2> link{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link.data()) != 0)
    return fail(ErrorKind::Io, std::string("socketpair: ") + std::strerror(errno));
  UniqueFd ours(link[0]);
  const UniqueFd theirs(link[1]);
  environment[std::string(contract::kEnvAgentSocket)] = "fd:" + std::to_string(theirs.get());

  // No allocation between fork and exec: another thread may hold the allocator's lock.
  std::vector<std::string> arguments = command;
  std::vector<std::string> variables;
  variables.reserve(environment.size());
  for (const auto& [name, value] : environment)
    variables.emplace_back(name).append("=").append(value);
  const auto argument_pointers = pointers(arguments);
  const auto variable_pointers = pointers(variables);
  const pid_t parent = ::getpid();

  const pid_t child = ::fork();
  if (child < 0) return fail(ErrorKind::Io, std::string("fork: ") + std::strerror(errno));
  if (child == 0) {
    become_child_of(parent);
    ::dup2(output.write.get(), STDOUT_FILENO);
    ::dup2(error.write.get(), STDERR_FILENO);
    close_others_at_exec();
    ::fcntl(theirs.get(), F_SETFD, 0);
    ::execve(argument_pointers[0], argument_pointers.data(), variable_pointers.data());
    const char* why = std::strerror(errno);
    [[maybe_unused]] auto written = ::write(STDERR_FILENO, why, std::strlen(why));
    ::_exit(contract::kExitOther);
  }
  ::setpgid(child, child);  // both sides do it, so that it is done whoever runs first

  RankProcess process;
  process.pid_ = child;
  process.output_ = std::move(output.read);
  process.error_ = std::move(error.read);
  process.link_ = std::move(ours);
  return process;
}

void RankProcess::signal(int number) const {
  if (pid_ > 0) ::kill(-pid_, number);
}

}  // namespace gnn::agent
