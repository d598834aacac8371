#pragma once

#include "common/result.h"
#include "worker/agent/unique_fd.h"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace gnn::agent {

using Environment = std::map<std::string, std::string>;

/// This process's environment.
[[nodiscard]] Environment current_environment();

/// Which of its two outputs a rank wrote to.
enum class RankStream { Output, Error };

/// Splits a stream of bytes into lines; lines longer than 8 KiB are split, too.
class LineSplitter {
 public:
  void append(std::string_view bytes, const std::function<void(std::string_view)>& on_line);
  /// Emits what follows the last line end.
  void finish(const std::function<void(std::string_view)>& on_line);

 private:
  std::string rest_;
};

/// A child process in its own process group, with pipes from its outputs and a message socket.
/// Threads: the child dies with the thread that started it, so start it from the main thread.
class RankProcess {
 public:
  /// `command[0]` is the program. The child finds its end of the socket in GNN_AGENT_SOCKET.
  [[nodiscard]] static Result<RankProcess> spawn(
      const std::vector<std::string>& command, Environment environment
  );

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] int output() const { return output_.get(); }
  [[nodiscard]] int error() const { return error_.get(); }
  [[nodiscard]] int link() const { return link_.get(); }
  void close_output() { output_.reset(); }
  void close_error() { error_.reset(); }
  void close_link() { link_.reset(); }

  /// Sends a signal to the rank and what it started.
  void signal(int number) const;

 private:
  pid_t pid_ = -1;
  UniqueFd output_;
  UniqueFd error_;
  UniqueFd link_;
};

/// Call it in a child right after fork: the child then dies with `parent`, and has default signal
/// handlers and its own process group. Async-signal-safe.
void become_child_of(pid_t parent);

}  // namespace gnn::agent
