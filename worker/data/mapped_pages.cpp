#include "worker/data/mapped_pages.h"

#include "common/result.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <limits>
#include <map>
#include <mutex>
#include <sched.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

namespace gnn::data {
namespace {

// Not larger, so that a scratch file's blocks don't each fill a window. Not more windows: each takes
// two of the 65,530 mappings that the kernel lets a process have.
constexpr int64_t kLeastWindow = int64_t{64} << 10;
constexpr int64_t kMostWindows = 1024;
// The arrays of a step, each read or written in one place by every thread.
constexpr int64_t kFewestWindows = 16;

// A handler of signals may not wait for a mutex.
class SpinLock {
 public:
  void lock() {
    while (taken_.test_and_set(std::memory_order_acquire)) ::sched_yield();
  }
  void unlock() { taken_.clear(std::memory_order_release); }

 private:
  std::atomic_flag taken_;
};

struct Counted {
  size_t bytes = 0;
  int protection = PROT_NONE;
};

struct Window {
  std::byte* begin = nullptr;
  size_t bytes = 0;
};

enum class Fault { Mended, NotOurs };

// The mappings, and which windows of them are open. Its functions take the lock. None touches a mapped
// page while it holds it, so that a thread never waits for itself in the handler.
class Windows {
 public:
  void add(void* address, const Counted& mapping) {
    const std::lock_guard lock(lock_);
    mappings_.emplace(static_cast<std::byte*>(address), mapping);
    if (!open_.empty()) ::mprotect(address, mapping.bytes, PROT_NONE);
  }

  void remove(void* address) {
    const std::lock_guard lock(lock_);
    const auto found = mappings_.find(static_cast<std::byte*>(address));
    // What lies there next is another's: no window of it may be closed later.
    for (Window& window : open_) {
      if (window.begin >= found->first && window.begin < found->first + found->second.bytes) {
        window = {};
      }
    }
    mappings_.erase(found);
  }

  void begin_limit(int64_t bytes) {
    const std::lock_guard lock(lock_);
    GNN_ASSERT(open_.empty(), "there is one limit of mapped pages at a time");
    const auto wanted = static_cast<uint64_t>(std::max(bytes / kMostWindows, kLeastWindow));
    window_bytes_ = std::bit_ceil(wanted);
    const auto windows = bytes / static_cast<int64_t>(window_bytes_);
    open_.resize(static_cast<size_t>(std::max(windows, kFewestWindows)));
    oldest_ = 0;
    for (const auto& [address, mapping] : mappings_) {
      ::mprotect(address, mapping.bytes, PROT_NONE);
      ::madvise(address, mapping.bytes, MADV_DONTNEED);
    }
  }

  int64_t limit() {
    const std::lock_guard lock(lock_);
    return open_.empty() ? std::numeric_limits<int64_t>::max()
                         : static_cast<int64_t>(open_.size() * window_bytes_);
  }

  void end_limit() {
    const std::lock_guard lock(lock_);
    for (const auto& [address, mapping] : mappings_) {
      ::mprotect(address, mapping.bytes, mapping.protection);
    }
    open_.clear();
  }

  // Opens the window around `address` if it is in a mapping.
  Fault mend(std::byte* address, bool writes) {
    const std::lock_guard lock(lock_);
    const auto after = mappings_.upper_bound(address);
    if (open_.empty() || after == mappings_.begin()) return Fault::NotOurs;
    const auto& [begin, mapping] = *std::prev(after);
    const auto offset = static_cast<size_t>(address - begin);
    if (offset >= mapping.bytes || (writes && (mapping.protection & PROT_WRITE) == 0)) {
      return Fault::NotOurs;
    }
    const size_t first = offset / window_bytes_ * window_bytes_;
    const Window window{
        .begin = begin + first, .bytes = std::min(window_bytes_, mapping.bytes - first)
    };
    // Another thread may have opened it meanwhile.
    const auto is_it = [&](const Window& open) { return open.begin == window.begin; };
    if (std::any_of(open_.begin(), open_.end(), is_it)) return Fault::Mended;
    close(open_[oldest_]);
    if (::mprotect(window.begin, window.bytes, mapping.protection) != 0) return Fault::NotOurs;
    open_[oldest_] = window;
    oldest_ = (oldest_ + 1) % open_.size();
    return Fault::Mended;
  }

 private:
  static void close(Window& window) {
    if (window.begin == nullptr) return;
    ::mprotect(window.begin, window.bytes, PROT_NONE);
    ::madvise(window.begin, window.bytes, MADV_DONTNEED);
    window = {};
  }

  SpinLock lock_;
  std::map<std::byte*, Counted> mappings_;
  size_t window_bytes_ = 0;
  std::vector<Window> open_;  // a ring; empty: there is no limit
  size_t oldest_ = 0;
};

Windows& windows() {
  // Never destroyed: the last mappings may outlive other statics.
  static auto* const kWindows = new Windows;
  return *kWindows;
}

// Who handled SIGSEGV before.
struct sigaction handler_before = {};

bool is_write(const void* context) {
#if defined(__x86_64__)
  constexpr greg_t kWrite = 2;  // of the processor's error code of a page fault
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & kWrite) != 0;
#else
  static_cast<void>(context);
  return false;
#endif
}

extern "C" void on_closed_page(int signal, siginfo_t* info, void* context) {
  const int code = errno;
  const bool is_fault = info->si_code == SEGV_ACCERR;
  const auto fault = is_fault
                         ? windows().mend(static_cast<std::byte*>(info->si_addr), is_write(context))
                         : Fault::NotOurs;
  if (fault == Fault::NotOurs) {
    // It comes again at once, to the other handler.
    ::sigaction(signal, &handler_before, nullptr);
    if (info->si_code <= 0) std::raise(signal);
  }
  errno = code;
}

}  // namespace

int64_t resident_bytes() {
  std::array<char, 256> text{};
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t size = ::read(file, text.data(), text.size() - 1);
  ::close(file);
  // In pages: size, resident, ...
  const char* at = text.data();
  const char* const end = at + (size > 0 ? size : 0);
  int64_t pages = 0;
  for (int number = 0; number < 2; ++number) {
    while (at != end && *at == ' ') ++at;
    at = std::from_chars(at, end, pages).ptr;
  }
  return pages * ::sysconf(_SC_PAGESIZE);
}

int64_t mapped_pages_limit() {
  return windows().limit();
}

CountedMapping::CountedMapping(void* address, size_t bytes, int protection) : address_(address) {
  windows().add(address, {.bytes = bytes, .protection = protection});
}

CountedMapping::~CountedMapping() {
  windows().remove(address_);
}

MappedPagesLimit::MappedPagesLimit(int64_t bytes) {
  struct sigaction action = {};
  action.sa_sigaction = &on_closed_page;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigaction(SIGSEGV, &action, &handler_before);
  windows().begin_limit(bytes);
}

MappedPagesLimit::~MappedPagesLimit() {
  windows().end_limit();
  ::sigaction(SIGSEGV, &handler_before, nullptr);
}

void leave_other_faults_to_the_kernel() {
  struct sigaction now = {};
  ::sigaction(SIGSEGV, nullptr, &now);
  handler_before = {};
  handler_before.sa_handler = SIG_DFL;
  const bool is_ours = (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == &on_closed_page;
  if (!is_ours) ::sigaction(SIGSEGV, &handler_before, nullptr);
}

}  // namespace gnn::data
