#pragma once

#include "common/clock.h"
#include "common/result.h"
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

struct LocalServersOptions {
  int64_t servers = 0;
  std::vector<std::string> command{};
  /// Of server n's pod i, beside the variables of this process.
  std::function<Environment(int64_t server, int64_t restart)> environment{};
  std::function<void(int64_t server, std::string_view line)> on_line{};
};

/// The sampling servers of a job on this machine, as child processes: what the controller does with
/// their pods. One that ends is started again, at once if it has lived for ten seconds, else after a
/// pause that grows; one that ends with 0 has done its work.
/// Threads: only the process's main thread (see RankProcess).
class LocalServers {
 public:
  explicit LocalServers(LocalServersOptions options) : options_(std::move(options)) {}

  /// Errors: Io if a process can't be started.
  [[nodiscard]] Status start(MonotonicPoint now);
  void add_poll_entries(std::vector<pollfd>& entries) const;
  /// Reads what the servers have written, and starts those again whose time has come.
  [[nodiscard]] Status tend(MonotonicPoint now);
  /// Takes note of a child that ended; returns whether it was a server.
  bool on_exit(pid_t pid, int status, MonotonicPoint now);
  /// From now on none is started again.
  void start_no_more() { stopping_ = true; }
  /// The same, and sends those that run a signal.
  void signal(int number);

  [[nodiscard]] bool all_ended() const;
  /// Of a server that ends the job: Configuration or Data.
  [[nodiscard]] std::optional<int> final_code() const { return final_code_; }

 private:
  struct Server {
    int64_t number = 0;
    int64_t restart = 0;
    std::optional<RankProcess> process{};  // while it runs
    LineSplitter output{};
    LineSplitter error{};
    int64_t quick_ends = 0;  // one after the other
    MonotonicPoint started_at{};
    std::optional<MonotonicPoint> start_at{};  // again
  };

  [[nodiscard]] Status start_one(Server& server, MonotonicPoint now);
  void read(Server& server);

  LocalServersOptions options_;
  std::deque<Server> servers_;
  std::optional<int> final_code_;
  bool stopping_ = false;
};

}  // namespace gnn::agent
