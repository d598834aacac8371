#include "worker/agent/agent_link.h"

#include "common/contract.h"
#include "common/log.h"
#include "common/printable.h"

#include <array>
#include <charconv>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

namespace gnn::agent {
namespace {

constexpr int kHeartbeatMilliseconds = 500;
// Bounds a message: of more steps than this per heartbeat, the histogram misses some.
constexpr size_t kMostDurations = 2000;

// How long a last message waits for an agent that is slow to read. A stopped agent never reads.
constexpr timeval kLongestLastWord{.tv_sec = 5, .tv_usec = 0};

// A full socket means that the agent is slow, stopped or gone: the rank does not wait for it.
void send_now(int socket, const std::string& message) {
  [[maybe_unused]] const auto sent =
      ::send(socket, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

// Waits at most kLongestLastWord for room in the socket.
void send_last_word(int socket, const std::string& message) {
  [[maybe_unused]] const auto sent = ::send(socket, message.data(), message.size(), MSG_NOSIGNAL);
}

Result<int> parse_socket(const std::string& text) {
  int fd = -1;
  const char* end = text.data() + text.size();
  if (text.rfind("fd:", 0) == 0) {
    const auto parsed = std::from_chars(text.data() + 3, end, fd);
    if (parsed.ec == std::errc() && parsed.ptr == end && ::fcntl(fd, F_GETFD) >= 0) return fd;
  }
  return fail(
      ErrorKind::Configuration,
      std::string(contract::kEnvAgentSocket) + " must be fd:<number of an open socket>, found '" +
          text + "'"
  );
}

}  // namespace

Result<std::unique_ptr<AgentLink>> AgentLink::from_environment(
    const rendezvous::EnvironmentLookup& environment,
    std::shared_ptr<progress::CollectiveActivity> activity,
    std::shared_ptr<StopToken> stop,
    OnServers on_servers
) {
  const auto text = environment(contract::kEnvAgentSocket);
  if (!text) return std::unique_ptr<AgentLink>();
  GNN_ASSIGN_OR_RETURN(const int fd, parse_socket(*text));
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kLongestLastWord, sizeof kLongestLastWord);
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return std::unique_ptr<AgentLink>(new AgentLink(
      UniqueFd(fd), std::move(wake), std::move(activity), std::move(stop), std::move(on_servers)
  ));
}

AgentLink::AgentLink(
    UniqueFd socket,
    UniqueFd wake,
    std::shared_ptr<progress::CollectiveActivity> activity,
    std::shared_ptr<StopToken> stop,
    OnServers on_servers
)
    : socket_(std::move(socket)),
      wake_(std::move(wake)),
      activity_(std::move(activity)),
      stop_(std::move(stop)),
      on_servers_(std::move(on_servers)),
      received_(kLongestAgentMessage),
      thread_([this] { run(); }) {}

AgentLink::~AgentLink() {
  closing_.store(true);
  wake();
  thread_.join();
  // Trackers are told last, after the final report.
  if (*tracking_.lock() != nullptr) send_report(send_last_word);
}

void AgentLink::on_phase(progress::Phase phase) {
  {
    auto report = report_.lock();
    report->phase = phase;
    report->marks += 1;
  }
  wake();
}

void AgentLink::on_mark() {
  report_.lock()->marks += 1;
}

void AgentLink::on_remote_meter(const std::shared_ptr<const progress::RemoteMeter>& meter) {
  *remote_.lock() = meter;
}

void AgentLink::on_served_meter(const std::shared_ptr<const progress::ServedMeter>& meter) {
  *served_.lock() = meter;
}

void AgentLink::on_tracking_meter(const std::shared_ptr<const progress::TrackingMeter>& meter) {
  *tracking_.lock() = meter;
}

void AgentLink::on_step(const progress::StepReport& report) {
  auto sums = report_.lock();
  if (sums->steps == 0) wake();  // report the start of training at once
  sums->marks += 1;
  sums->steps += 1;
  sums->step = report;
  sums->items += report.items;
  sums->sampled_edges += report.sampled_edges;
  sums->input_nodes += report.input_nodes;
  sums->seconds.wait += report.seconds.wait;
  sums->seconds.forward += report.seconds.forward;
  sums->seconds.backward += report.seconds.backward;
  sums->seconds.reduce += report.seconds.reduce;
  sums->seconds.optimizer += report.seconds.optimizer;
  sums->seconds.total += report.seconds.total;
  if (sums->step_durations.size() < kMostDurations)
    sums->step_durations.push_back(report.seconds.total);
}

void AgentLink::on_epoch(const progress::EpochReport& report) {
  {
    auto sums = report_.lock();
    sums->marks += 1;
    sums->epoch = report;
  }
  wake();
}

void AgentLink::on_final(const progress::FinalReport& report) {
  {
    auto sums = report_.lock();
    sums->marks += 1;
    sums->final = report;
  }
  // At once: the process may exit before the thread wakes.
  send_report(send_last_word);
}

void AgentLink::on_checkpoint(const progress::CheckpointReport& report) {
  {
    auto sums = report_.lock();
    sums->marks += 1;
    if (report.written) {
      sums->checkpoint_durations.push_back(report.seconds);
      sums->checkpoint_bytes = report.bytes;
      sums->checkpoint_path = report.path;
    } else {
      sums->checkpoint_failures += 1;
    }
  }
  wake();
}

void AgentLink::on_message(const std::string&) {
  report_.lock()->marks += 1;
}

void AgentLink::send_checked_version(const std::string& version) {
  {
    auto report = report_.lock();
    report->marks += 1;
    report->checked_version = version;
  }
  wake();
}

void AgentLink::send_failure(const Error& error) {
  send_report(send_last_word);
  send_last_word(
      socket_.get(),
      encode(RankFailure{
          .kind = std::string(to_string(error.kind)),
          .message = printable_ascii(error.message, 2000)
      })
  );
}

void AgentLink::send_report(const SendMessage& send) {
  // One at a time: an older report must not follow a newer one.
  const std::lock_guard sending(sending_);
  RankReport report;
  {
    auto latest = report_.lock();
    report = *latest;
    latest->step_durations.clear();
    latest->checkpoint_durations.clear();
  }
  if (activity_) {
    report.in_collective = activity_->waiting();
    report.collectives_done = activity_->done();
  }
  const std::shared_ptr<const progress::RemoteMeter> remote = *remote_.lock();
  if (remote != nullptr) report.remote = remote->read();
  const std::shared_ptr<const progress::ServedMeter> served = *served_.lock();
  if (served != nullptr) {
    report.served = served->read();
    // A rank without a server hangs no more than those that wait for it; its own time-out ends that.
    if (report.served->waiting) report.marks = report_.lock()->marks += 1;
  }
  const std::shared_ptr<const progress::TrackingMeter> tracking = *tracking_.lock();
  if (tracking != nullptr) report.tracking = tracking->read();
  send(socket_.get(), encode(report));
}

void AgentLink::receive() {
  const auto size = ::recv(socket_.get(), received_.data(), received_.size(), MSG_DONTWAIT);
  if (size < 0) return;
  if (size == 0) {
    // Without its agent nobody supervises this rank, so it stops.
    if (stop_) stop_->request();
    return closing_.store(true);
  }
  const auto message = decode_agent_message({received_.data(), static_cast<size_t>(size)});
  if (!message) return log_warning("ignored a message", {{"why", message.error().message}});
  if (message->stop && stop_) stop_->request();
  if (message->servers && on_servers_) on_servers_(*message->servers);
}

void AgentLink::run() {
  while (!closing_.load()) {
    send_report(send_now);
    std::array<pollfd, 2> events{
        pollfd{.fd = socket_.get(), .events = POLLIN, .revents = 0},
        pollfd{.fd = wake_.get(), .events = POLLIN, .revents = 0}
    };
    if (::poll(events.data(), events.size(), kHeartbeatMilliseconds) <= 0) continue;
    if (events[0].revents != 0) receive();
    if (events[1].revents == 0) continue;
    uint64_t count = 0;
    [[maybe_unused]] const auto taken = ::read(wake_.get(), &count, sizeof count);
  }
}

void AgentLink::wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

}  // namespace gnn::agent
