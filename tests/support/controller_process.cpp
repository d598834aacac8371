#include "tests/support/controller_process.h"

#include "tests/support/must.h"
#include "tests/support/process.h"
#include "tests/support/read_file.h"

#include <atomic>
#include <csignal>
#include <regex>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>

namespace gnn::testing {
namespace {

using namespace std::chrono_literals;

ProcessSpawner& spawner() {
  static ProcessSpawner instance;
  return instance;
}

}  // namespace

bool eventually(const std::function<bool()>& done, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

ControllerProcess::ControllerProcess(
    const ControlPlane& cluster, const ControllerArguments& arguments
) {
  static std::atomic<int> number = 0;
  log_file_ = cluster.directory() / ("controller-" + std::to_string(++number) + ".log");
  std::vector<std::string> line;
  if (!arguments.clock_file.empty()) {
    line = {
        "/usr/bin/env",
        std::string("LD_PRELOAD=") + kFaketimeLibrary,
        "FAKETIME_TIMESTAMP_FILE=" + arguments.clock_file,
        "FAKETIME_NO_CACHE=1",
        "FAKETIME_DONT_FAKE_MONOTONIC=1",
    };
  }
  const std::vector<std::string> program{
      GNN_CONTROLLER_BINARY,
      "run",
      "--kubeconfig=" + arguments.kubeconfig,
      "--bind-address=127.0.0.1:0",
      "--health-bind-address=127.0.0.1:0",
      "--progress=" + arguments.progress,
  };
  line.insert(line.end(), program.begin(), program.end());
  if (!arguments.name_space.empty()) line.push_back("--namespace=" + arguments.name_space);
  line.insert(line.end(), arguments.more.begin(), arguments.more.end());
  pid_ = must(spawner().spawn(line, log_file_));
}

ControllerProcess::~ControllerProcess() {
  if (ended_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void ControllerProcess::signal(int number) const {
  if (ended_) return;
  ::kill(pid_, number);
  if (number != SIGSTOP) return;
  // Threads stop one by one: until the last has, another may read a reply and send a request.
  siginfo_t change{};
  ::waitid(P_PID, static_cast<id_t>(pid_), &change, WSTOPPED | WEXITED | WNOWAIT);
}

int ControllerProcess::terminate() {
  signal(SIGTERM);
  return wait(30s);
}

int ControllerProcess::wait(std::chrono::milliseconds timeout) {
  int status = 0;
  const bool ended = eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, timeout);
  if (!ended) return -1;
  ended_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool ControllerProcess::wait_working(std::chrono::milliseconds timeout) {
  return eventually(
      [this] { return log().find("caches are synced, reconciling") != std::string::npos; }, timeout
  );
}

std::string ControllerProcess::log() const {
  return read_file(log_file_);
}

HttpReply ControllerProcess::http(const std::string& path) const {
  std::smatch found;
  const std::string text = log();
  const std::string port = path == "/metrics" ? "port" : "health_port";
  if (!std::regex_search(text, found, std::regex("\"" + port + "\":([0-9]+)"))) {
    throw std::runtime_error("the controller serves nothing yet: " + text);
  }
  HttpEndpoint endpoint;
  endpoint.url = "http://127.0.0.1:" + found[1].str();
  return must(http_request(endpoint, "GET", path));
}

int run_release(
    const std::string& kubeconfig,
    const std::string& name_space,
    std::chrono::milliseconds timeout,
    const std::vector<std::string>& more
) {
  std::vector<std::string> command = {
      GNN_CONTROLLER_BINARY,
      "release",
      "--kubeconfig=" + kubeconfig,
      "--namespace=" + name_space,
      "--log-level=error"
  };
  command.insert(command.end(), more.begin(), more.end());
  return must(run_command(command, {}, timeout)).exit_code;
}

}  // namespace gnn::testing
