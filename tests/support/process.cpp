#include "tests/support/process.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <future>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <tuple>
#include <unistd.h>
#include <utility>

namespace gnn::testing {
namespace {

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  Pipe() {
    int ends[2] = {-1, -1};
    if (pipe2(ends, O_CLOEXEC) == 0) {
      read_end = ends[0];
      write_end = ends[1];
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_end(read_end);
    close_end(write_end);
  }
  static void close_end(int& fd) {
    if (fd >= 0) close(fd);
    fd = -1;
  }
};

std::vector<char*> to_argv(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  return argv;
}

// fork and exec with the three standard files; only async-signal-safe calls between the two.
Result<pid_t> start_process(const std::vector<std::string>& arguments, int in, int out, int err) {
  std::vector<char*> argv = to_argv(arguments);
  Pipe failure;  // carries errno if exec fails
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return fail(ErrorKind::Internal, std::string("fork: ") + std::strerror(errno));
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    setpgid(0, 0);  // a Ctrl-C of the test's terminal is for the test to handle
    dup2(in, 0);
    dup2(out, 1);
    dup2(err, 2);
    std::signal(SIGPIPE, SIG_DFL);
    execvp(argv[0], argv.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(failure.write_end, &error, sizeof(error));
    _exit(127);
  }
  Pipe::close_end(failure.write_end);
  int error = 0;
  if (read(failure.read_end, &error, sizeof(error)) == sizeof(error)) {
    waitpid(pid, nullptr, 0);
    return fail(ErrorKind::NotFound, "starting " + arguments.front() + ": " + std::strerror(error));
  }
  return pid;
}

int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Result<CommandOutput> run_command(
    const std::vector<std::string>& arguments,
    std::string_view standard_input,
    std::chrono::milliseconds timeout
) {
  Pipe in;
  Pipe out;
  Pipe err;
  GNN_ASSIGN_OR_RETURN(
      const pid_t pid, start_process(arguments, in.read_end, out.write_end, err.write_end)
  );
  Pipe::close_end(in.read_end);
  Pipe::close_end(out.write_end);
  Pipe::close_end(err.write_end);
  fcntl(in.write_end, F_SETFL, O_NONBLOCK);
  if (standard_input.empty()) Pipe::close_end(in.write_end);

  CommandOutput result;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (out.read_end >= 0 || err.read_end >= 0) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      ::kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
      return fail(ErrorKind::Timeout, arguments.front() + " took longer than expected");
    }
    // poll ignores the entries whose descriptor is -1
    pollfd entries[3] = {
        {.fd = out.read_end, .events = POLLIN, .revents = 0},
        {.fd = err.read_end, .events = POLLIN, .revents = 0},
        {.fd = in.write_end, .events = POLLOUT, .revents = 0},
    };
    if (poll(entries, 3, static_cast<int>(left.count())) <= 0) continue;
    char bytes[65536];
    for (auto [index, fd, text] :
         {std::tuple{0, &out.read_end, &result.output}, std::tuple{1, &err.read_end, &result.errors}
         }) {
      if (entries[index].revents == 0) continue;
      const ssize_t count = read(*fd, bytes, sizeof(bytes));
      if (count > 0) {
        text->append(bytes, static_cast<size_t>(count));
      } else {
        Pipe::close_end(*fd);
      }
    }
    if (entries[2].revents != 0) {
      const ssize_t count = write(in.write_end, standard_input.data(), standard_input.size());
      if (count > 0) standard_input.remove_prefix(static_cast<size_t>(count));
      if (count < 0 || standard_input.empty()) Pipe::close_end(in.write_end);
    }
  }
  int status = 0;
  waitpid(pid, &status, 0);
  result.exit_code = exit_code_of(status);
  return result;
}

ProcessSpawner::ProcessSpawner() {
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || task_; });
      if (stopping_) return;
      std::exchange(task_, nullptr)();
    }
  });
}

ProcessSpawner::~ProcessSpawner() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Result<pid_t> ProcessSpawner::spawn(
    const std::vector<std::string>& arguments, const std::string& log_file
) {
  const int log = open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (log < 0) {
    close(null);
    return fail(ErrorKind::Io, "opening " + log_file + ": " + std::strerror(errno));
  }
  std::promise<Result<pid_t>> promise;
  {
    const std::lock_guard lock(mutex_);
    task_ = [&] { promise.set_value(start_process(arguments, null, log, log)); };
  }
  changed_.notify_all();
  Result<pid_t> pid = promise.get_future().get();
  close(log);
  close(null);
  return pid;
}

bool wait_for_exit(pid_t pid, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (waitpid(pid, nullptr, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace gnn::testing
