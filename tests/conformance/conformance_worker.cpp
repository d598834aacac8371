// A worker in one file that follows docs/worker-contract.md and trains nothing: what any image must
// do so that gnn-controller can run it. Each node is one process; an epoch is a pause. Its store is
// a line protocol on the store's port:
//   "<uid>/<attempt>/<round> <node>"  joins
//   "go"                              starts training
//   "epoch <n>"                       ends an epoch on all nodes
//   "stop"                            preempts
//   "done", "bye"                     the final barrier
//
// Besides the contract's environment it reads CONFORMANCE_EPOCH_SECONDS (default 1),
// CONFORMANCE_FAIL_NODE and CONFORMANCE_EXIT_CODE: that node exits with that code in the first
// epoch of the first attempt.
#include "common/contract.h"
#include "common/guarded.h"

#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <netdb.h>
#include <optional>
#include <poll.h>
#include <signal.h>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

namespace contract = gnn::contract;
using Json = nlohmann::json;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kRendezvousTimeout = 120s;
constexpr auto kPeerSilence = 15s;

std::atomic<bool> stop_asked = false;

// Ends the process with a code of the contract.
struct Exit : std::runtime_error {
  Exit(int exit_code, const std::string& why) : std::runtime_error(why), code(exit_code) {}
  int code;
};

std::string environment(std::string_view name, std::optional<std::string> fallback = {}) {
  const char* value = std::getenv(std::string(name).c_str());
  if (value != nullptr) return value;
  if (fallback) return *fallback;
  throw Exit(contract::kExitConfiguration, std::string(name) + " is not set");
}

int64_t number(std::string_view name, std::optional<std::string> fallback = {}) {
  const std::string text = environment(name, std::move(fallback));
  try {
    return std::stoll(text);
  } catch (const std::exception&) {
    throw Exit(
        contract::kExitConfiguration, std::string(name) + ": expected a number, found " + text
    );
  }
}

struct Settings {
  std::string job = environment(contract::kEnvJob);
  std::string uid = environment(contract::kEnvJobUid);
  int64_t attempt = number(contract::kEnvAttempt);
  int64_t node = number(contract::kEnvNodeRank);
  int64_t nodes = number(contract::kEnvNnodes);
  int64_t processes = number(contract::kEnvNprocPerNode);
  std::string master = environment(contract::kEnvMasterAddr);
  std::string master_port = environment(contract::kEnvMasterPort);
  std::string http =
      environment(contract::kEnvHttpAddress, ":" + std::to_string(contract::kHttpPort));
  std::string result_file =
      environment(contract::kEnvTerminationLog, std::string(contract::kTerminationLog));
  double epoch_seconds = std::stod(environment("CONFORMANCE_EPOCH_SECONDS", "1"));
  int64_t fail_node = number("CONFORMANCE_FAIL_NODE", "-1");
  int64_t fail_code = number("CONFORMANCE_EXIT_CODE", "70");
  int64_t epochs = read_epochs();

  // What a node joins with; an old pod or another job's has a different one.
  [[nodiscard]] std::string round_id() const { return uid + "/" + std::to_string(attempt) + "/0"; }

 private:
  // training.epochs of the mounted job.
  static int64_t read_epochs() {
    const std::string path = environment(contract::kEnvConfig, std::string(contract::kConfigFile));
    std::ifstream in(path);
    if (!in) throw Exit(contract::kExitConfiguration, "cannot read " + path);
    for (std::string line; std::getline(in, line);) {
      const size_t at = line.find("epochs:");
      if (at != std::string::npos) return std::max(1, std::atoi(line.c_str() + at + 7));
    }
    return 5;
  }
};

// What /progress and the result report.
struct State {
  std::string phase = "Rendezvous";
  int64_t epoch = 0;
};
using SharedState = gnn::Guarded<State>;

Json base(const Settings& settings) {
  return {
      {"contract", contract::kVersion},
      {"job", settings.job},
      {"jobUid", settings.uid},
      {"attempt", settings.attempt},
      {"round", 0},
      {"node", settings.node},
  };
}

Json progress(const Settings& settings, const State& state) {
  Json json = base(settings);
  json["phase"] = state.phase;
  json["epoch"] = state.epoch;
  json["epochs"] = settings.epochs;
  json["globalStep"] = state.epoch * 10;
  json["loss"] = std::to_string(1.0 / static_cast<double>(1 + state.epoch));
  json["rate"] = "1000";
  return json;
}

void write_result(const std::string& file, Json result, int code, const std::string& message) {
  result["exitCode"] = code;
  result["reason"] = contract::exit_reason(code);
  if (!message.empty()) result["message"] = message.substr(0, 1000);
  std::ofstream(file) << result.dump();
}

// One end of a connection that carries lines.
class Line {
 public:
  explicit Line(int descriptor) : descriptor_(descriptor) {}
  ~Line() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Line(Line&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), received_(std::move(other.received_)) {}
  Line& operator=(Line&&) = delete;

  void write(const std::string& text) {
    const std::string line = text + "\n";
    if (::send(descriptor_, line.data(), line.size(), MSG_NOSIGNAL) != std::ssize(line)) {
      throw Exit(contract::kExitPeerLost, "a peer is gone");
    }
  }

  // The next line; nothing if none comes in time.
  std::optional<std::string> read(std::chrono::milliseconds timeout) {
    const auto deadline = Clock::now() + timeout;
    while (true) {
      const size_t end = received_.find('\n');
      if (end != std::string::npos) {
        const std::string line = received_.substr(0, end);
        received_.erase(0, end + 1);
        return line;
      }
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      if (left <= 0ms) return std::nullopt;
      pollfd entry{.fd = descriptor_, .events = POLLIN, .revents = 0};
      if (::poll(&entry, 1, static_cast<int>(left.count())) <= 0) continue;
      char buffer[512];
      const ssize_t count = ::recv(descriptor_, buffer, sizeof(buffer), 0);
      if (count <= 0 || received_.size() > 4096)
        throw Exit(contract::kExitPeerLost, "a peer is gone");
      received_.append(buffer, static_cast<size_t>(count));
    }
  }

  std::string must_read(std::chrono::milliseconds timeout) {
    auto line = read(timeout);
    if (!line) throw Exit(contract::kExitPeerLost, "a peer is silent");
    return *line;
  }

 private:
  int descriptor_;
  std::string received_;
};

struct Address {
  explicit Address(const std::string& host, const std::string& port, int flags) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags;
    const char* node = host.empty() ? nullptr : host.c_str();
    if (::getaddrinfo(node, port.c_str(), &hints, &found) != 0) found = nullptr;
  }
  ~Address() {
    if (found != nullptr) ::freeaddrinfo(found);
  }
  Address(const Address&) = delete;
  Address& operator=(const Address&) = delete;
  addrinfo* found = nullptr;
};

int listen_on(const std::string& host, const std::string& port) {
  const Address address(host, port, AI_PASSIVE);
  if (address.found == nullptr) throw Exit(contract::kExitOther, "bad address " + host);
  // Without a host there are two, of which that of IPv6 takes the clients of both.
  const addrinfo* at = address.found;
  for (const addrinfo* each = at; each != nullptr; each = each->ai_next) {
    if (each->ai_family == AF_INET6) at = each;
  }
  const int listener = ::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(listener, at->ai_addr, at->ai_addrlen) != 0 || ::listen(listener, 64) != 0) {
    throw Exit(contract::kExitOther, "cannot listen on " + host + ":" + port);
  }
  return listener;
}

// Serves /healthz, /progress and /metrics; each connection gets one reply.
void serve(int listener, const Settings& settings, SharedState& shared) {
  while (true) {
    const int client = ::accept(listener, nullptr, nullptr);
    if (client < 0) return;
    char buffer[1024];
    const ssize_t count = ::recv(client, buffer, sizeof(buffer), 0);
    const std::string request(buffer, static_cast<size_t>(std::max<ssize_t>(count, 0)));
    const std::string path =
        request.substr(std::min<size_t>(4, request.size()), request.find(' ', 4) - 4);
    std::string body = "ok\n";
    std::string status = "200 OK";
    const State state = *shared.lock();
    if (path == contract::kProgressPath) {
      body = progress(settings, state).dump();
    } else if (path == contract::kMetricsPath) {
      const Json now = progress(settings, state);
      body = "# TYPE gnn_train_epoch gauge\ngnn_train_epoch{job=\"" + settings.job + "\",node=\"" +
             std::to_string(settings.node) + "\"} " + std::to_string(now["epoch"].get<int64_t>()) +
             "\n";
    } else if (path != contract::kHealthPath) {
      status = "404 Not Found";
      body = "not here\n";
    } else if (state.phase == "Rendezvous") {
      status = "503 Service Unavailable";
    }
    const std::string reply = "HTTP/1.1 " + status +
                              "\r\nContent-Length: " + std::to_string(body.size()) +
                              "\r\nConnection: close\r\n\r\n" + body;
    ::send(client, reply.data(), reply.size(), MSG_NOSIGNAL);
    ::close(client);
  }
}

void give_up_after(Clock::time_point deadline, const std::string& what) {
  if (stop_asked) throw Exit(contract::kExitPreempted, "asked to stop before training started");
  if (Clock::now() > deadline) throw Exit(contract::kExitPeerLost, what);
}

// Node 0: waits for every other node of this attempt.
std::map<int64_t, Line> gather(const Settings& settings) {
  const int listener = listen_on("", settings.master_port);
  const auto deadline = Clock::now() + kRendezvousTimeout;
  std::map<int64_t, Line> peers;
  while (std::ssize(peers) < settings.nodes - 1) {
    give_up_after(deadline, "some nodes did not join in time");
    pollfd entry{.fd = listener, .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, 200) <= 0) continue;
    Line peer(::accept(listener, nullptr, nullptr));
    try {
      std::istringstream hello(peer.must_read(2s));
      std::string id;
      int64_t node = 0;
      if (hello >> id >> node && id == settings.round_id() && node > 0 && node < settings.nodes) {
        peers.erase(node);
        peers.emplace(node, std::move(peer));
      } else {
        peer.write("refused");
      }
    } catch (const Exit&) {
      // That node is gone.
    }
  }
  ::close(listener);
  return peers;
}

// Other nodes: join node 0, however late its name resolves.
Line join(const Settings& settings) {
  const auto deadline = Clock::now() + kRendezvousTimeout;
  while (true) {
    give_up_after(deadline, "node 0 cannot be reached");
    const Address address(settings.master, settings.master_port, 0);
    if (address.found != nullptr) {
      const int descriptor = ::socket(address.found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (::connect(descriptor, address.found->ai_addr, address.found->ai_addrlen) == 0) {
        Line store(descriptor);
        try {
          store.write(settings.round_id() + " " + std::to_string(settings.node));
          while (true) {
            give_up_after(deadline, "node 0 did not begin");
            const auto line = store.read(500ms);
            if (line && *line == "go") return store;
            if (line) break;
          }
        } catch (const Exit& exit) {
          if (exit.code != contract::kExitPeerLost) throw;
        }
      } else {
        ::close(descriptor);
      }
    }
    std::this_thread::sleep_for(200ms);
  }
}

void fail_if_told(const Settings& settings) {
  if (settings.attempt == 1 && settings.fail_node == settings.node) {
    throw Exit(static_cast<int>(settings.fail_code), "asked to fail");
  }
}

void lead(const Settings& settings, SharedState& state) {
  std::map<int64_t, Line> peers = gather(settings);
  const auto tell = [&](const std::string& line) {
    for (auto& [node, peer] : peers) peer.write(line);
  };
  *state.lock() = {.phase = "Train", .epoch = 1};
  tell("go");
  for (int64_t epoch = 1; epoch <= settings.epochs; ++epoch) {
    *state.lock() = {.phase = "Train", .epoch = epoch};
    fail_if_told(settings);
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(settings.epoch_seconds)
                                    );
    bool stop = false;
    while (Clock::now() < end && !stop) {
      stop = stop_asked;
      for (auto& [node, peer] : peers) {
        const auto line = peer.read(10ms);
        stop = stop || (line && *line == "stop");
      }
      if (peers.empty()) std::this_thread::sleep_for(10ms);
    }
    tell(stop ? "stop" : "epoch " + std::to_string(epoch));
    if (stop) {
      std::this_thread::sleep_for(200ms);  // the others leave first
      throw Exit(contract::kExitPreempted, "asked to stop in epoch " + std::to_string(epoch));
    }
  }
  // The final barrier: node 0 hosts the store and leaves last.
  *state.lock() = {.phase = "Leaving", .epoch = settings.epochs};
  for (auto& [node, peer] : peers) {
    while (peer.must_read(kPeerSilence) != "done") continue;
  }
  tell("bye");
}

void follow(const Settings& settings, SharedState& state) {
  Line store = join(settings);
  *state.lock() = {.phase = "Train", .epoch = 1};
  fail_if_told(settings);
  bool told = false;
  auto heard = Clock::now();
  for (int64_t epoch = 0; epoch < settings.epochs;) {
    if (stop_asked && !std::exchange(told, true)) store.write("stop");
    const auto line = store.read(100ms);
    if (!line) {
      const auto longest = kPeerSilence + std::chrono::duration<double>(2 * settings.epoch_seconds);
      if (Clock::now() - heard > longest) throw Exit(contract::kExitPeerLost, "node 0 is silent");
      continue;
    }
    heard = Clock::now();
    if (*line == "stop") throw Exit(contract::kExitPreempted, "node 0 asked to stop");
    *state.lock() = {.phase = "Train", .epoch = std::min(++epoch + 1, settings.epochs)};
  }
  *state.lock() = {.phase = "Leaving", .epoch = settings.epochs};
  store.write("done");
  while (store.must_read(kPeerSilence) != "bye") continue;
}

int run() {
  std::string result_file(contract::kTerminationLog);
  Json result = Json::object();
  try {
    result_file = environment(contract::kEnvTerminationLog, result_file);
    if (number(contract::kEnvContract) != contract::kVersion) {
      throw Exit(contract::kExitConfiguration, "GNN_CONTRACT has another version");
    }
    const Settings settings;
    result = base(settings);
    SharedState state;
    const size_t colon = settings.http.rfind(':');
    const int listener = listen_on(settings.http.substr(0, colon), settings.http.substr(colon + 1));
    std::thread([&, listener] { serve(listener, settings, state); }).detach();
    try {
      if (settings.node == 0) {
        lead(settings, state);
      } else {
        follow(settings, state);
      }
    } catch (const Exit& exit) {
      write_result(result_file, result, exit.code, exit.what());
      std::fprintf(stderr, "%s\n", exit.what());
      std::_Exit(exit.code);  // the server's thread still uses this stack
    }
    result["epoch"] = settings.epochs;
    result["epochs"] = settings.epochs;
    result["testMetric"] = "0.75";
    write_result(result_file, result, contract::kExitDone, "");
    std::_Exit(contract::kExitDone);
  } catch (const Exit& exit) {
    write_result(result_file, result, exit.code, exit.what());
    std::fprintf(stderr, "%s\n", exit.what());
    return exit.code;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || std::string_view(argv[1]) != "agent") {
    std::fprintf(stderr, "usage: %s agent\n", argv[0]);
    return contract::kExitConfiguration;
  }
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGTERM, [](int) { stop_asked = true; });
  return run();
}
