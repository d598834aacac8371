#include "worker/agent/server_pod.h"

#include "common/contract.h"
#include "common/guarded.h"
#include "common/log.h"
#include "common/out_of_memory.h"
#include "worker/agent/final_result.h"
#include "worker/agent/limits.h"
#include "worker/agent/pages.h"
#include "worker/agent/server_link.h"
#include "worker/agent/server_progress.h"
#include "worker/agent/signals.h"
#include "worker/rendezvous/local_address.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/eventfd.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace gnn::agent {
namespace {

constexpr int kServerTurnMilliseconds = 250;
// For others to hear that this server leaves.
constexpr auto kLongestGoodbye = std::chrono::seconds(2);
// Of the grace period, for the end of the process.
constexpr auto kLongestMargin = std::chrono::milliseconds(10'000);

int64_t resident_bytes_of_this_process() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  file >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

// Connections of ranks and of other servers, the store, pages and files.
int64_t open_files_of_server(const ServerOptions& options, int64_t servers) {
  return 256 + 4 * (options.pod.world_size() + servers);
}

class ServerPod {
 public:
  ServerPod(const ServerOptions& options, int64_t partitions, ServerPodDoors doors)
      : options_(options),
        doors_(std::move(doors)),
        signals_({SIGTERM, SIGINT}),
        console_(make_progress_bar(stderr)),
        partitions_(partitions),
        progress_(options, partitions, *console_),
        news_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  int run() {
    // At least one server for each partition; there may be many more.
    if (auto status = allow_open_files(
            open_files_of_server(options_, partitions_),
            open_files_of_server(options_, kMostServers)
        );
        !status)
      return end(contract::exit_code_for(status.error().kind), status.error().message);
    const auto pages = serve_pages(options_.pod.http_address, progress_.pages());
    if (!pages) return end(contract::exit_code_for(pages.error().kind), pages.error().message);
    log_info(
        "server started",
        {{"job", options_.pod.job},
         {"server", options_.server()},
         {"restart", options_.restart},
         {"http_port", (*pages)->port()}}
    );
    ServerLink link(
        options_,
        {.connect = doors_.connect,
         .own_address =
             [this] {
               return rendezvous::local_address_towards(
                   options_.pod.store_host, options_.pod.store_port
               );
             },
         .on_servers = doors_.on_servers},
        clock_
    );
    link_ = &link;
    std::jthread worker([this] { start_serving(); });
    while (!ending_) tick();
    return leave();
  }

 private:
  struct Ending {
    int code = 0;
    std::string message{};
  };
  using Started = std::optional<Result<std::unique_ptr<Serving>>>;

  void start_serving() {
    Result<std::unique_ptr<Serving>> serving = guarded([this] {
      return doors_
          .serve({.loading = progress_, .stop = stop_, .on_listening = [this](uint16_t port) {
                    port_.store(port);
                    wake();
                  }});
    });
    *started_.lock() = std::move(serving);
    wake();
  }

  template <class Work>
  static Result<std::unique_ptr<Serving>> guarded(const Work& work) {
    try {
      return work();
    } catch (const std::system_error& error) {
      const bool threads = error.code() == std::errc::resource_unavailable_try_again;
      return fail(
          ErrorKind::Internal,
          std::string(
              threads ? "can't start a thread (limits of processes, as pids.max, or of address "
                        "space, as ulimit -v, bound their number): "
                      : ""
          ) + error.what()
      );
    } catch (const std::exception& error) {
      if (is_out_of_memory(error)) return fail(ErrorKind::OutOfMemory, "out of memory");
      return fail(ErrorKind::Internal, error.what());
    }
  }

  void wake() const {
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(news_.get(), &one, sizeof one);
  }

  void tick() {
    std::array<pollfd, 3> entries{
        pollfd{.fd = signals_.fd(), .events = POLLIN, .revents = 0},
        pollfd{.fd = link_->changed_fd(), .events = POLLIN, .revents = 0},
        pollfd{.fd = news_.get(), .events = POLLIN, .revents = 0}
    };
    ::poll(entries.data(), entries.size(), kServerTurnMilliseconds);
    link_->clear_changed();
    uint64_t count = 0;
    [[maybe_unused]] const auto taken = ::read(news_.get(), &count, sizeof count);
    look_at_start();
    if (serving_) progress_.on_data(serving_->data());
    progress_.on_memory(resident_bytes_of_this_process());
    link_->report({.port = port_.load(), .leaving = false});
    const ServerLink::View view = link_->view();
    if (view.replaced)
      ending_ = {.code = contract::kExitPeerLost, .message = view.replaced->message};
    if (view.done) ending_ = {.code = contract::kExitDone, .message = "all workers are done"};
    if (!signals_.take().empty() && !ending_)
      ending_ = {.code = contract::kExitPreempted, .message = "asked to stop"};
  }

  void look_at_start() {
    if (serving_) return;
    Started started = std::exchange(*started_.lock(), std::nullopt);
    if (!started) return;
    if (*started) {
      serving_ = std::move(**started);
      progress_.on_ready();
      log_info("serves", {{"server", options_.server()}, {"port", port_.load()}});
      return;
    }
    ended_ = true;
    const Error& error = started->error();
    ending_ = {.code = contract::exit_code_for(error.kind), .message = error.message};
  }

  // Others hear that this server takes no more requests; what was under way is answered.
  int leave() {
    progress_.on_leaving();
    stop_.request();
    say_goodbye();
    if (serving_ && ending_->code == contract::kExitPreempted) {
      const auto margin =
          std::min<std::chrono::milliseconds>(kLongestMargin, options_.pod.grace / 4);
      serving_->drain(options_.pod.grace - margin - kLongestGoodbye);
    }
    const int code = end(ending_->code, ending_->message);
    // Loading can't be interrupted everywhere.
    if (!serving_ && !ended_) ::_exit(code);
    serving_.reset();
    return code;
  }

  void say_goodbye() {
    if (ending_->code == contract::kExitPeerLost) return;  // another pod speaks now
    const auto until = clock_.monotonic() + kLongestGoodbye;
    const int64_t number = link_->report({.port = port_.load(), .leaving = true});
    while (clock_.monotonic() < until) {
      const ServerLink::View view = link_->view();
      if (!view.joined || view.posted >= number) return;
      pollfd changed{.fd = link_->changed_fd(), .events = POLLIN, .revents = 0};
      ::poll(&changed, 1, 50);
      link_->clear_changed();
    }
  }

  int end(int code, const std::string& message) {
    if (code == contract::kExitDone || code == contract::kExitPreempted) {
      log_info("leaving", {{"server", options_.server()}, {"code", code}, {"why", message}});
    } else {
      log_error(message, {{"server", options_.server()}, {"exit_code", code}});
    }
    const NodeResult result{.exit_code = code, .message = message};
    if (const Status written = write_result(options_.pod, result); !written)
      log_warning("cannot write the final result", {{"why", written.error().message}});
    return code;
  }

  const ServerOptions& options_;
  ServerPodDoors doors_;
  SignalEvents signals_;  // before all members that start threads
  SystemClock clock_;
  std::unique_ptr<ProgressBar> console_;
  const int64_t partitions_;
  ServerProgress progress_;
  UniqueFd news_;
  StopToken stop_;
  std::atomic<uint16_t> port_{0};
  Guarded<Started> started_;
  ServerLink* link_ = nullptr;
  std::unique_ptr<Serving> serving_;
  bool ended_ = false;  // the work could not begin to serve
  std::optional<Ending> ending_;
};

}  // namespace

int run_server_pod(const ServerOptions& options, int64_t partitions, ServerPodDoors doors) {
  ServerPod pod(options, partitions, std::move(doors));
  return pod.run();
}

}  // namespace gnn::agent
