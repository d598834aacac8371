#include "worker/agent/local_agents.h"

#include "common/contract.h"
#include "common/log.h"
#include "common/progress_bar.h"
#include "worker/agent/line_writer.h"
#include "worker/agent/local_servers.h"
#include "worker/agent/rank_process.h"
#include "worker/agent/signals.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <netinet/in.h>
#include <poll.h>
#include <sstream>
#include <sys/socket.h>
#include <sys/wait.h>

namespace gnn::agent {
namespace {

// A listening socket on a free port of the loopback interface, held so that nobody else can take
// the port before the store does.
Result<UniqueFd> listen_on_free_port(uint16_t& port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!fd.valid() || ::bind(fd.get(), generic, length) != 0 || ::listen(fd.get(), 1024) != 0 ||
      ::getsockname(fd.get(), generic, &length) != 0)
    return fail(
        ErrorKind::Network, std::string("cannot open a port for the store: ") + std::strerror(errno)
    );
  port = ntohs(address.sin_port);
  return fd;
}

constexpr auto kServersHearTheEnd = std::chrono::seconds(3);
constexpr auto kServersEnd = std::chrono::seconds(10);

struct Child {
  pid_t pid = -1;
  int64_t node = 0;
  UniqueFd lines;    // what it and its ranks write
  UniqueFd numbers;  // JobNumbers of node 0, as bytes
  LineSplitter splitter{};
  std::optional<int> status{};
};

// What node 0's agent sends to the parent for the progress bar.
struct BarNumbers {
  int64_t epoch = 0;
  int64_t epochs = 0;
  int64_t step = 0;
  int64_t steps = 0;
  double loss = 0;
};

int agent_main(
    const AgentOptions& options,
    const ConnectorFactory& make_connector,
    int listening_socket,
    int numbers_fd
) {
  SystemClock clock;
  LineWriter lines({.fd = STDOUT_FILENO}, clock);
  const ScopedLogOutput log_output([&lines](std::string_view line) { lines.write(line); });
  AgentOutput output;
  output.on_line = [&lines](int64_t rank, RankStream, std::string_view line) {
    lines.write("rank " + std::to_string(rank) + " | " + std::string(line));
  };
  if (options.node == 0)
    output.on_numbers = [numbers_fd](const JobNumbers& numbers) {
      const BarNumbers bar{
          .epoch = numbers.epoch.value_or(0),
          .epochs = numbers.epochs.value_or(0),
          .step = numbers.step.value_or(0),
          .steps = numbers.steps_per_epoch.value_or(0),
          .loss = numbers.loss.value_or(0)
      };
      ::send(numbers_fd, &bar, sizeof bar, MSG_DONTWAIT | MSG_NOSIGNAL);
    };
  return run_agent(options, make_connector(options, listening_socket), output);
}

ssize_t write_to_writer(void* writer, const char* text, size_t size) {
  static_cast<LineWriter*>(writer)->write_text(std::string(text, size));
  return static_cast<ssize_t>(size);
}

struct CloseStream {
  void operator()(std::FILE* stream) const { std::fclose(stream); }
};
using Stream = std::unique_ptr<std::FILE, CloseStream>;

// A stream on `writer`, for what knows only streams. Never waits longer than the writer does.
Stream stream_on(LineWriter& writer) {
  return Stream(::fopencookie(
      &writer, "w", {.read = nullptr, .write = &write_to_writer, .seek = nullptr, .close = nullptr}
  ));
}

class LocalAgents {
 public:
  LocalAgents(const LocalJob& job, const ConnectorFactory& make_connector)
      : job_(job), make_connector_(make_connector), signals_({SIGINT, SIGTERM, SIGCHLD}) {}

  int run() {
    uint16_t port = 0;
    auto socket = listen_on_free_port(port);
    if (!socket) return failed(socket.error());
    const std::string uid = rendezvous::fresh_job_uid();
    for (int64_t node = 0; node < job_.nodes; ++node)
      if (auto status = start_agent(node, uid, port, socket->get()); !status) {
        kill_all();
        return failed(status.error());
      }
    socket->reset();
    if (auto status = start_servers(uid, port); !status) {
      kill_all();
      return failed(status.error());
    }
    // A bar only if both are terminals: lines in a file must not depend on a terminal's width.
    const bool shows_bar = ::isatty(STDOUT_FILENO) != 0 && ::isatty(STDERR_FILENO) != 0;
    // After all forks: it has a thread. A reader that stalls, as a terminal that Ctrl-S stopped, must
    // not keep us from a signal.
    lines_.emplace(LineWriterOptions{.fd = shows_bar ? STDERR_FILENO : STDOUT_FILENO}, clock_);
    if (shows_bar) bar_stream_ = stream_on(*lines_);
    progress_ = bar_stream_ ? make_progress_bar(bar_stream_.get(), STDERR_FILENO)
                            : std::make_unique<SilentProgressBar>();
    while (!all_ended()) tick();
    end_servers();
    end_bar();
    return exit_code();
  }

 private:
  static int failed(const Error& error) {
    log_error(error.message);
    return contract::exit_code_for(error.kind);
  }

  Result<AgentOptions> options_of(int64_t node, const std::string& uid, uint16_t port) const {
    const auto environment = rendezvous::process_environment();
    // Time-outs in this process's environment apply here, too.
    const auto lookup = [&](std::string_view name) -> std::optional<std::string> {
      namespace c = contract;
      if (name == c::kEnvContract) return std::to_string(c::kVersion);
      if (name == c::kEnvJob) return job_.job;
      if (name == c::kEnvJobUid) return uid;
      if (name == c::kEnvAttempt) return "0";
      if (name == c::kEnvRoundsLeft) return std::to_string(job_.rounds_left);
      if (name == c::kEnvNnodes) return std::to_string(job_.nodes);
      if (name == c::kEnvNodeRank) return std::to_string(node);
      if (name == c::kEnvNprocPerNode) return std::to_string(job_.processes_per_node);
      if (name == c::kEnvMasterAddr) return "127.0.0.1";
      if (name == c::kEnvMasterPort) return std::to_string(port);
      if (name == c::kEnvHttpAddress) return "127.0.0.1:0";
      if (name == c::kEnvGraceSeconds) return std::to_string(job_.grace.count() / 1000);
      if (name == c::kEnvTerminationLog) {
        const auto file = environment(name);
        return file ? *file + "." + std::to_string(node) : "/dev/null";
      }
      if (auto given = environment(name)) return given;
      const auto own = job_.environment.find(std::string(name));
      return own == job_.environment.end() ? std::nullopt : std::optional(own->second);
    };
    GNN_ASSIGN_OR_RETURN(AgentOptions options, parse_agent_options(lookup, job_.rank_command));
    // However many servers there are: threads change the order of sums, and so bits.
    options.cpus = std::max<int64_t>(1, usable_cpus() / job_.nodes);
    if (const int64_t gpus = job_.gpus_per_process * job_.processes_per_node; gpus > 0)
      options.visible_gpus = visible_gpus_of_node(node, gpus, environment("CUDA_VISIBLE_DEVICES"));
    return options;
  }

  // Servers share the machine with the nodes.
  int64_t cpus_of_server() const {
    return std::max<int64_t>(1, usable_cpus() / (job_.nodes + job_.servers));
  }

  Status start_servers(const std::string& uid, uint16_t port) {
    LocalServersOptions options{.servers = job_.servers, .command = job_.server_command};
    options.environment = [this, uid, port](int64_t server, int64_t restart) {
      return server_environment(uid, port, server, restart);
    };
    options.on_line = [this](int64_t server, std::string_view line) {
      say("server " + std::to_string(server) + " | " + std::string(line));
    };
    servers_.emplace(std::move(options));
    return servers_->start(clock_.monotonic());
  }

  Environment server_environment(
      const std::string& uid, uint16_t port, int64_t server, int64_t restart
  ) const {
    namespace c = contract;
    const auto mine = rendezvous::process_environment();
    Environment environment;
    const auto put = [&environment](std::string_view name, std::string value) {
      environment[std::string(name)] = std::move(value);
    };
    for (const Environment* given : {&job_.environment, &job_.rank_environment})
      for (const auto& [name, value] : *given)
        if (!mine(name)) put(name, value);
    put(c::kEnvContract, std::to_string(c::kVersion));
    put(c::kEnvJob, job_.job);
    put(c::kEnvJobUid, uid);
    put(c::kEnvServer, std::to_string(server));
    put(c::kEnvServerRestart, std::to_string(restart));
    put(c::kEnvNnodes, std::to_string(job_.nodes));
    put(c::kEnvNprocPerNode, std::to_string(job_.processes_per_node));
    put(c::kEnvMasterAddr, "127.0.0.1");
    put(c::kEnvMasterPort, std::to_string(port));
    put(c::kEnvHttpAddress, "127.0.0.1:0");
    put(c::kEnvGraceSeconds, std::to_string(job_.grace.count() / 1000));
    put(c::kEnvRankCpus, std::to_string(cpus_of_server()));
    const auto file = mine(c::kEnvTerminationLog);
    put(c::kEnvTerminationLog, file ? *file + ".s" + std::to_string(server) : "/dev/null");
    // As an agent does for its ranks.
    if (!mine("OMP_NUM_THREADS")) put("OMP_NUM_THREADS", std::to_string(cpus_of_server()));
    if (!mine("OMP_WAIT_POLICY")) put("OMP_WAIT_POLICY", "passive");
    return environment;
  }

  // They end by themselves where all is done, but for one that was about to begin.
  void end_servers() {
    servers_->start_no_more();
    if (exit_code() == contract::kExitDone) await_servers(kServersHearTheEnd);
    servers_->signal(SIGTERM);
    await_servers(kServersEnd);
    servers_->signal(SIGKILL);
    await_servers(kServersEnd);
  }

  void await_servers(Duration limit) {
    const auto until = clock_.monotonic() + limit;
    while (!servers_->all_ended() && clock_.monotonic() < until) tick();
  }

  Status start_agent(int64_t node, const std::string& uid, uint16_t port, int listening_socket) {
    GNN_ASSIGN_OR_RETURN(const AgentOptions options, options_of(node, uid, port));
    std::array<int, 2> lines{};
    std::array<int, 2> numbers{};
    if (::pipe2(lines.data(), O_CLOEXEC) != 0 ||
        ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, numbers.data()) != 0)
      return fail(ErrorKind::Io, std::string("cannot start an agent: ") + std::strerror(errno));
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) return fail(ErrorKind::Io, std::string("fork: ") + std::strerror(errno));
    if (child == 0) {
      become_child_of(parent);
      ::dup2(lines[1], STDOUT_FILENO);
      ::dup2(lines[1], STDERR_FILENO);
      if (node != 0) ::close(listening_socket);
      // Ranks inherit it. The agent has no thread yet.
      for (const auto& [name, value] : job_.rank_environment)
        ::setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
      const int socket = node == 0 ? listening_socket : -1;
      // Not exit(), which would run the parent's exit handlers in the child.
      ::_exit(agent_main(options, make_connector_, socket, numbers[1]));
    }
    ::setpgid(child, child);
    ::close(lines[1]);
    ::close(numbers[1]);
    ::fcntl(lines[0], F_SETFL, O_NONBLOCK);
    Child entry;
    entry.pid = child;
    entry.node = node;
    entry.lines = UniqueFd(lines[0]);
    entry.numbers = UniqueFd(numbers[0]);
    children_.push_back(std::move(entry));
    return {};
  }

  void tick() {
    std::vector<pollfd> entries{{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
    for (const auto& child : children_)
      for (const int fd : {child.lines.get(), child.numbers.get()})
        if (fd >= 0) entries.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    servers_->add_poll_entries(entries);
    ::poll(entries.data(), entries.size(), 200);
    for (const int signal : signals_.take())
      if (signal != SIGCHLD) on_stop_signal();
    for (auto& child : children_) {
      read_lines(child);
      read_numbers(child);
    }
    reap();
    tend_servers();
  }

  void tend_servers() {
    const Status tended = servers_->tend(clock_.monotonic());
    if (!tended) say(tended.error().message);
    if ((!tended || servers_->final_code()) && !all_ended()) kill_agents();
  }

  void on_stop_signal() {
    if (++stop_signals_ > 1) return kill_all();
    say("stopping after a checkpoint; interrupt again to stop at once");
    // One agent is enough: it tells the others, as when one pod is evicted in a cluster.
    for (const auto& child : children_)
      if (!child.status) {
        ::kill(child.pid, SIGTERM);
        return;
      }
  }

  void reap() {
    int status = 0;
    for (pid_t pid = ::waitpid(-1, &status, WNOHANG); pid > 0;
         pid = ::waitpid(-1, &status, WNOHANG)) {
      if (servers_->on_exit(pid, status, clock_.monotonic())) continue;
      for (auto& child : children_)
        if (child.pid == pid) {
          read_lines(child);
          child.splitter.finish([&](std::string_view line) { show(child, line); });
          child.status = status;
        }
    }
  }

  void read_lines(Child& child) {
    std::array<char, size_t{16} * 1024> buffer{};
    for (int reads = 0; reads < 64 && child.lines.valid(); ++reads) {
      const ssize_t size = ::read(child.lines.get(), buffer.data(), buffer.size());
      if (size < 0) return;
      if (size == 0) return child.lines.reset();
      child.splitter.append({buffer.data(), static_cast<size_t>(size)}, [&](std::string_view line) {
        show(child, line);
      });
    }
  }

  void show(const Child& child, std::string_view line) {
    say("node " + std::to_string(child.node) + " | " + std::string(line));
  }

  void say(const std::string& line) {
    if (bar_stream_) return progress_->say(line);
    lines_->write(line);
  }

  void read_numbers(Child& child) {
    BarNumbers bar;
    while (child.numbers.valid()) {
      const ssize_t size = ::recv(child.numbers.get(), &bar, sizeof bar, MSG_DONTWAIT);
      if (size < 0) return;
      if (size != sizeof bar) return child.numbers.reset();
      draw(bar);
    }
  }

  void draw(const BarNumbers& bar) {
    if (bar.epoch == 0) return;
    if (bar.epoch != bar_epoch_) {
      end_bar();
      bar_epoch_ = bar.epoch;
      progress_->begin(
          "epoch " + std::to_string(bar.epoch) + "/" + std::to_string(bar.epochs),
          bar.steps,
          "steps"
      );
    }
    char note[32];
    std::snprintf(note, sizeof note, "loss %.4f", bar.loss);
    progress_->advance_to(bar.step, note);
  }

  void end_bar() {
    if (bar_epoch_ > 0) progress_->end();
    bar_epoch_ = 0;
  }

  void kill_all() {
    kill_agents();
    if (servers_) servers_->signal(SIGKILL);
  }

  void kill_agents() {
    // Their ranks die with them (PR_SET_PDEATHSIG).
    for (const auto& child : children_)
      if (!child.status) ::kill(-child.pid, SIGKILL);
  }

  bool all_ended() const {
    return std::all_of(children_.begin(), children_.end(), [](const Child& child) {
      return child.status.has_value();
    });
  }

  // The most informative code: the culprit's rather than the PeerLost of the other nodes.
  int exit_code() const {
    if (const auto code = servers_->final_code()) return *code;
    int code = contract::kExitDone;
    for (const auto& child : children_) {
      const int status = *child.status;
      const int mine = WIFEXITED(status) ? WEXITSTATUS(status) : contract::kExitOther;
      if (code == contract::kExitDone || (code == contract::kExitPeerLost && mine != 0))
        code = mine;
    }
    return code;
  }

  const LocalJob& job_;
  const ConnectorFactory& make_connector_;
  SignalEvents signals_;
  std::vector<Child> children_;
  SystemClock clock_;
  std::optional<LocalServers> servers_;
  std::optional<LineWriter> lines_;
  Stream bar_stream_;
  std::unique_ptr<ProgressBar> progress_;
  int64_t bar_epoch_ = 0;
  int stop_signals_ = 0;
};

}  // namespace

std::string visible_gpus_of_node(
    int64_t node, int64_t gpus, const std::optional<std::string>& visible
) {
  std::istringstream names(visible.value_or(""));
  std::string mine;
  for (int64_t i = 0; i < (node + 1) * gpus; ++i) {
    std::string name = std::to_string(i);
    if (visible && !std::getline(names, name, ',')) break;
    if (i < node * gpus) continue;
    mine += (mine.empty() ? "" : ",") + name;
  }
  return mine;
}

int run_agents_locally(const LocalJob& job, const ConnectorFactory& make_connector) {
  return LocalAgents(job, make_connector).run();
}

}  // namespace gnn::agent
