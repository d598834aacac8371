#include "tests/worker/agent/slow_cable.h"

#include <net/if.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <vector>

namespace gnn::testing {
namespace {

using std::chrono::steady_clock;

// A device of the calling thread's network namespace; -1: none can be made.
int open_device(const std::string& name) {
  const int file = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return -1;
  ifreq request{};
  std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (::ioctl(file, TUNSETIFF, &request) == 0) return file;
  ::close(file);
  return -1;
}

int open_device_in(const std::string& name_space, const std::string& name) {
  int device = -1;
  // A thread of its own, since it stays in the namespace.
  std::thread([&] {
    const int entry = ::open(("/run/netns/" + name_space).c_str(), O_RDONLY | O_CLOEXEC);
    if (entry < 0) return;
    if (::setns(entry, CLONE_NEWNET) == 0) device = open_device(name);
    ::close(entry);
  }).join();
  return device;
}

// What is on its way from one end to the other.
class Lane {
 public:
  Lane(int from, int to, std::chrono::milliseconds delay) : from_(from), to_(to), delay_(delay) {}

  void take_in() {
    std::array<char, 65536> buffer;
    for (ssize_t size; (size = ::read(from_, buffer.data(), buffer.size())) > 0;)
      packets_.push_back(
          {.due = steady_clock::now() + delay_, .bytes = {buffer.begin(), buffer.begin() + size}}
      );
  }

  // How many came out. One that the end does not take is lost, as on any cable.
  int64_t deliver() {
    int64_t delivered = 0;
    for (; !packets_.empty() && packets_.front().due <= steady_clock::now(); packets_.pop_front()) {
      const std::vector<char>& bytes = packets_.front().bytes;
      if (::write(to_, bytes.data(), bytes.size()) > 0) ++delivered;
    }
    return delivered;
  }

  steady_clock::time_point next() const {
    return packets_.empty() ? steady_clock::time_point::max() : packets_.front().due;
  }

 private:
  struct Packet {
    steady_clock::time_point due;
    std::vector<char> bytes;
  };

  int from_;
  int to_;
  std::chrono::milliseconds delay_;
  std::deque<Packet> packets_;
};

// For poll().
int milliseconds_until(steady_clock::time_point due) {
  if (due == steady_clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - steady_clock::now());
  return std::max(0, static_cast<int>(left.count()));
}

}  // namespace

std::unique_ptr<SlowCable> SlowCable::between(
    const std::string& first,
    const std::string& second,
    const std::string& device,
    std::chrono::milliseconds delay
) {
  const int one = open_device_in(first, device);
  const int other = open_device_in(second, device);
  if (one >= 0 && other >= 0) {
    const int wake = ::eventfd(0, EFD_CLOEXEC);
    return std::unique_ptr<SlowCable>(new SlowCable(one, other, wake, delay));
  }
  for (const int file : {one, other})
    if (file >= 0) ::close(file);
  return nullptr;
}

SlowCable::SlowCable(int first, int second, int wake, std::chrono::milliseconds delay)
    : ends_{first, second}, wake_(wake), delay_(delay), thread_([this] { carry(); }) {}

SlowCable::~SlowCable() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
  thread_.join();
  for (const int file : {ends_[0], ends_[1], wake_}) ::close(file);
}

void SlowCable::carry() {
  Lane there(ends_[0], ends_[1], delay_);
  Lane back(ends_[1], ends_[0], delay_);
  pollfd entries[3] = {
      {.fd = ends_[0], .events = POLLIN, .revents = 0},
      {.fd = ends_[1], .events = POLLIN, .revents = 0},
      {.fd = wake_, .events = POLLIN, .revents = 0},
  };
  while (entries[2].revents == 0) {
    ::poll(entries, 3, milliseconds_until(std::min(there.next(), back.next())));
    there.take_in();
    back.take_in();
    packets_ += there.deliver() + back.deliver();
  }
}

}  // namespace gnn::testing
