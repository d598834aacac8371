// Requests and replies over loopback, by worker/rpc beside other libraries and bare sockets:
//   gnn_rpc_bench [--seconds=N] [NAME...]
// Prints for each: the rate of 1 MB replies beside writev's, the latency of 1 KB calls with one stream of 1 MB replies
// beside them, and the peak memory of both processes. Ends with 1 when worker/rpc misses its goals.
#include "common/stopwatch.h"
#include "tests/bench/rpc/transport.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace gnn::bench {

std::span<const std::byte> reply_bytes(std::byte kind) {
  static const std::vector<std::byte> all = [] {
    std::vector<std::byte> bytes(kLargeBytes);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
    return bytes;
  }();
  return std::span(all).first(kind == std::byte{1} ? kLargeBytes : kSmallBytes);
}

const std::vector<std::byte>& request_bytes(bool large) {
  static const std::array<std::vector<std::byte>, 2> all{
      std::vector<std::byte>(kSmallBytes, std::byte{0}),
      std::vector<std::byte>(kSmallBytes, std::byte{1})
  };
  return large ? all[1] : all[0];
}

void check_reply(bool large, std::span<const std::byte> reply) {
  const auto expected = reply_bytes(std::byte{large});
  if (reply.size() != expected.size() || reply.back() != expected.back() ||
      reply[reply.size() / 2] != expected[reply.size() / 2])
    give_up("a reply is not the one that was asked for");
}

void give_up(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::_Exit(2);
}

namespace {

constexpr int kCalls = 10'000;
constexpr double kRateGoal = 0.7;     // of writev's
constexpr double kLatencyGoal = 5.0;  // p99 in medians

struct Figures {
  double rate = 0;       // bytes per second
  double alone_p50 = 0;  // seconds, nothing beside
  double p50 = 0;        // seconds, a stream beside
  double p99 = 0;
  double server_bytes = 0;
  double client_bytes = 0;
};

// A child that ends with this process.
pid_t fork_child() {
  const pid_t pid = ::fork();
  if (pid < 0) give_up("cannot fork");
  if (pid == 0) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return pid;
}

double peak_bytes_of(pid_t pid) {
  rusage usage{};
  int status = 0;
  ::wait4(pid, &status, 0, &usage);
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) give_up("a process of the benchmark failed");
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

std::vector<double> call_often(Transport::Connection& connection) {
  std::vector<double> seconds;
  for (int i = 0; i < kCalls; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    connection.call();
    seconds.push_back(seconds_since(begin));
  }
  std::ranges::sort(seconds);
  return seconds;
}

Figures measure_client(Transport& transport, uint16_t port, double target_seconds) {
  Figures figures;
  const std::atomic<bool> never{false};
  {
    const auto connection = transport.connect(port);
    constexpr int64_t kWarmUp = 200;
    const auto begin = std::chrono::steady_clock::now();
    connection->stream(kWarmUp, kInFlight, never);
    const auto count =
        std::max(kWarmUp, static_cast<int64_t>(kWarmUp * target_seconds / seconds_since(begin)));
    const auto measured = std::chrono::steady_clock::now();
    connection->stream(count, kInFlight, never);
    figures.rate = static_cast<double>(count) * kLargeBytes / seconds_since(measured);
    figures.alone_p50 = call_often(*connection)[kCalls / 2];
  }
  const auto streaming = transport.connect(port);
  const auto calling = transport.connect(port);
  std::atomic<bool> stop{false};
  std::thread stream([&] { streaming->stream(INT64_MAX, 1, stop); });
  const auto seconds = call_often(*calling);
  stop = true;
  stream.join();
  figures.p50 = seconds[kCalls / 2];
  figures.p99 = seconds[kCalls * 99 / 100];
  return figures;
}

Figures measure(Transport& transport, double target_seconds) {
  std::array<int, 2> port_pipe{};
  std::array<int, 2> result_pipe{};
  if (::pipe(port_pipe.data()) != 0 || ::pipe(result_pipe.data()) != 0) give_up("no pipe");
  const pid_t server = fork_child();
  if (server == 0) {
    transport.serve([&](uint16_t port) {
      if (::write(port_pipe[1], &port, sizeof port) != sizeof port) give_up("no pipe");
    });
  }
  uint16_t port = 0;
  if (::read(port_pipe[0], &port, sizeof port) != sizeof port) give_up("no server");
  const pid_t client = fork_child();
  if (client == 0) {
    const Figures figures = measure_client(transport, port, target_seconds);
    const auto written = ::write(result_pipe[1], &figures, sizeof figures);
    std::_Exit(written == sizeof figures ? 0 : 2);
  }
  Figures figures;
  ::close(result_pipe[1]);
  if (::read(result_pipe[0], &figures, sizeof figures) != sizeof figures) give_up("no figures");
  figures.client_bytes = peak_bytes_of(client);
  ::kill(server, SIGKILL);
  figures.server_bytes = peak_bytes_of(server);
  for (const int fd : {port_pipe[0], port_pipe[1], result_pipe[0]}) ::close(fd);
  return figures;
}

int run(double seconds, const std::vector<std::string_view>& names) {
  std::vector<std::unique_ptr<Transport>> transports;
  transports.push_back(make_writev());
  transports.push_back(make_rpc());
#ifdef GNN_BENCH_ZEROMQ
  transports.push_back(make_zeromq());
#endif
#ifdef GNN_BENCH_GRPC
  transports.push_back(make_grpc());
#endif
  std::optional<double> limit;
  bool good = true;
  std::printf(
      "%-11s %9s %9s | %9s | %9s %9s %7s | %10s %10s\n",
      "",
      "1 MB GB/s",
      "of writev",
      "1 KB us",
      "p50 us",
      "p99 us",
      "p99/p50",
      "server MB",
      "client MB"
  );
  for (const auto& transport : transports) {
    if (!names.empty() && std::ranges::find(names, transport->name()) == names.end()) continue;
    const Figures figures = measure(*transport, seconds);
    if (transport->name() == "writev") limit = figures.rate;
    const double share = limit ? figures.rate / *limit : 0;
    std::printf(
        "%-11s %9.2f %8.0f%% | %9.0f | %9.0f %9.0f %7.1f | %10.0f %10.0f\n",
        transport->name().c_str(),
        figures.rate / 1e9,
        100 * share,
        figures.alone_p50 * 1e6,
        figures.p50 * 1e6,
        figures.p99 * 1e6,
        figures.p99 / figures.p50,
        figures.server_bytes / 1e6,
        figures.client_bytes / 1e6
    );
    std::fflush(stdout);
    if (transport->name() != "worker/rpc") continue;
    good = (!limit || share >= kRateGoal) && figures.p99 <= kLatencyGoal * figures.p50;
  }
  std::printf(
      "goals of worker/rpc: at least %.0f %% of writev, p99 at most %.0f times p50: %s\n",
      100 * kRateGoal,
      kLatencyGoal,
      good ? "met" : "MISSED"
  );
  return good ? 0 : 1;
}

}  // namespace
}  // namespace gnn::bench

int main(int argc, char** argv) {
  double seconds = 3;
  std::vector<std::string_view> names;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--seconds="))
      seconds = std::atof(argv[i] + std::string_view("--seconds=").size());
    else
      names.push_back(argument);
  }
  return gnn::bench::run(seconds, names);
}
