#include "worker/agent/line_writer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

namespace gnn::agent {
namespace {

// A pipe takes so much as a whole, so lines of several writers do not mix.
constexpr size_t kChunk = PIPE_BUF;

// O_NONBLOCK belongs to the description, which other processes share: a new one is ours alone. Of
// files that never block, a new description would not share the position.
UniqueFd non_blocking(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !(S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode)))
    return {};
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  return UniqueFd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

// Signals are for the threads that expect them; without SIGPIPE, a reader that is gone is an error.
std::thread start_without_signals(std::function<void()> run) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(run));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

// Rounded up; 0 if `deadline` has passed.
int milliseconds_until(std::chrono::steady_clock::time_point deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(left);
  return static_cast<int>(std::max<int64_t>(rounded.count(), 0));
}

}  // namespace

LineWriter::LineWriter(const LineWriterOptions& options, Clock& clock)
    : options_(options),
      clock_(clock),
      own_(non_blocking(options.fd)),
      closing_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_(start_without_signals([this] { run(); })) {}

LineWriter::~LineWriter() {
  {
    auto queue = queue_.lock();
    push_count_of_dropped(*queue);
    queue->closing = true;
  }
  queue_.notify_all();
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(closing_.get(), &one, sizeof one);
  thread_.join();
}

void LineWriter::write(std::string_view line) {
  write_text(std::string(line) + '\n');
}

void LineWriter::write_text(std::string text) {
  {
    auto queue = queue_.lock();
    if (queue->broken) return;
    if (!wait_for_room(queue, text.size())) {
      ++queue->dropped;
      return;
    }
    push_count_of_dropped(*queue);
    push(*queue, std::move(text));
  }
  queue_.notify_all();
}

// Returns false if the reader does not keep up.
bool LineWriter::wait_for_room(LockedQueue& queue, size_t size) {
  const auto has_room = [&](const Queue& q) {
    return q.lines.empty() || q.broken || q.bytes + size <= options_.capacity_bytes;
  };
  // Once lines were dropped, a reader that takes one chunk at a time does not end that.
  if (queue->dropped > 0 && queue->bytes > options_.capacity_bytes / 2) return false;
  while (!has_room(*queue)) {
    const auto deadline = queue->lines.front().queued_at + options_.patience;
    if (clock_.monotonic() >= deadline) return false;
    queue.wait_until(clock_, deadline, has_room);
  }
  return true;
}

void LineWriter::push(Queue& queue, std::string text) {
  queue.bytes += text.size();
  queue.lines.push_back({.text = std::move(text), .queued_at = clock_.monotonic()});
}

void LineWriter::push_count_of_dropped(Queue& queue) {
  if (queue.dropped == 0) return;
  push(
      queue, std::to_string(queue.dropped) + " lines were dropped: this output is read too slowly\n"
  );
  queue.dropped = 0;
}

void LineWriter::run() {
  for (std::string chunk = next_chunk(); !chunk.empty(); chunk = next_chunk())
    if (!write_all(chunk)) break;
  {
    auto queue = queue_.lock();
    queue->broken = true;
    queue->lines.clear();
    queue->bytes = 0;
  }
  queue_.notify_all();
}

// As many whole lines as fit, or one that does not; empty at the end.
std::string LineWriter::next_chunk() {
  std::string chunk;
  {
    auto queue = queue_.lock();
    queue.wait([](const Queue& q) { return q.closing || !q.lines.empty(); });
    while (!queue->lines.empty()) {
      std::string& line = queue->lines.front().text;
      if (!chunk.empty() && chunk.size() + line.size() > kChunk) break;
      queue->bytes -= line.size();
      chunk += line;
      queue->lines.pop_front();
    }
  }
  queue_.notify_all();
  return chunk;
}

bool LineWriter::write_all(std::string_view chunk) {
  const int fd = own_.valid() ? own_.get() : options_.fd;
  while (!chunk.empty()) {
    if (!wait_until_writable()) return false;
    // Of a description that may block, a pipe that is writable takes this much at once.
    const ssize_t size = ::write(fd, chunk.data(), std::min(chunk.size(), kChunk));
    if (size < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (size > 0) chunk.remove_prefix(static_cast<size_t>(size));
  }
  return true;
}

// Returns false once the time to flush is over.
bool LineWriter::wait_until_writable() {
  const int fd = own_.valid() ? own_.get() : options_.fd;
  for (;;) {
    const int limit = flush_deadline_ ? milliseconds_until(*flush_deadline_) : -1;
    if (limit == 0) return false;
    // Readable for good once the writer closes: watched only until then.
    const int closing = flush_deadline_ ? -1 : closing_.get();
    std::array<pollfd, 2> events{
        pollfd{.fd = fd, .events = POLLOUT, .revents = 0},
        pollfd{.fd = closing, .events = POLLIN, .revents = 0}
    };
    ::poll(events.data(), events.size(), limit);
    if (events[1].revents != 0)
      flush_deadline_ = std::chrono::steady_clock::now() + options_.flush_limit;
    if (events[0].revents != 0) return true;  // perhaps an error, which write() then gives
  }
}

}  // namespace gnn::agent
