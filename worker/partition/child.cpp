#include "worker/partition/child.h"

#include "worker/data/mapped_pages.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <fstream>
#include <new>
#include <string_view>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gnn::partition {
namespace {

constexpr int kFailed = 1;
constexpr int kOutOfMemory = 2;
constexpr int64_t kNoLimit = int64_t{1} << 50;  // no machine has more

// Private memory that can be written to, as RLIMIT_DATA counts it.
int64_t data_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmData:")) {
      return std::stoll(line.substr(line.find_first_of("0123456789"))) * 1024;
    }
  }
  return 0;
}

void limit_memory(int64_t bytes) {
  std::ofstream("/proc/self/oom_score_adj") << "1000";
  if (bytes > kNoLimit) return;
  const auto most = static_cast<rlim_t>(data_bytes() + bytes);
  const rlimit limit{.rlim_cur = most, .rlim_max = most};
  setrlimit(RLIMIT_DATA, &limit);
}

void send(int pipe, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = write(pipe, text.data(), text.size());
    if (sent <= 0) return;
    text.remove_prefix(static_cast<size_t>(sent));
  }
}

// The child's whole life. Destructors of what this process made do not run: threads that they would
// wait for are not here.
[[noreturn]] void live(int pipe, int64_t memory_bytes, const std::function<Status()>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A core of the whole data set, or a handler of this process, helps nobody.
  const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};
  setrlimit(RLIMIT_CORE, &no_core);
  for (const int signal : {SIGBUS, SIGABRT, SIGFPE, SIGTERM, SIGINT}) {
    ::signal(signal, SIG_DFL);
  }
  data::leave_other_faults_to_the_kernel();
  limit_memory(memory_bytes);
  try {
    const Status status = work();
    if (status) _exit(0);
    send(pipe, std::string(1, static_cast<char>(status.error().kind)) + status.error().message);
    _exit(kFailed);
  } catch (const std::bad_alloc&) {
    _exit(kOutOfMemory);
  } catch (const std::exception& error) {
    send(pipe, std::string(1, static_cast<char>(ErrorKind::Internal)) + error.what());
    _exit(kFailed);
  }
}

std::string receive(int pipe) {
  std::string text;
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t got = read(pipe, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
}

int wait_for(pid_t child) {
  int state = 0;
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
  }
  return state;
}

}  // namespace

Status run_in_child(
    const std::string& what, int64_t memory_bytes, const std::function<Status()>& work
) {
  std::array<int, 2> pipes{};
  if (pipe2(pipes.data(), O_CLOEXEC) != 0) {
    return fail(ErrorKind::Io, what + ": can't make a pipe: " + std::strerror(errno));
  }
  const pid_t child = fork();
  if (child == 0) {
    close(pipes[0]);
    live(pipes[1], memory_bytes, work);
  }
  const int code = errno;
  close(pipes[1]);
  if (child < 0) {
    close(pipes[0]);
    return fail(ErrorKind::OutOfMemory, what + ": can't start a process: " + std::strerror(code));
  }
  const std::string text = receive(pipes[0]);
  close(pipes[0]);
  const int state = wait_for(child);
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) {
    return {};
  }
  if (WIFEXITED(state) && WEXITSTATUS(state) == kFailed && !text.empty()) {
    return fail(static_cast<ErrorKind>(text.front()), what + ": " + text.substr(1));
  }
  if ((WIFEXITED(state) && WEXITSTATUS(state) == kOutOfMemory) ||
      (WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL)) {
    return fail(ErrorKind::OutOfMemory, what + ": its process ran out of memory");
  }
  return fail(
      ErrorKind::Internal,
      what + ": its process " +
          (WIFSIGNALED(state) ? std::string("crashed: ") + strsignal(WTERMSIG(state))
                              : "ended with code " + std::to_string(WEXITSTATUS(state)))
  );
}

}  // namespace gnn::partition
