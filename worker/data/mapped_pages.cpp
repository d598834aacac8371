#include "worker/data/mapped_pages.h"

#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <fcntl.h>
#include <limits>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace gnn::data {
namespace {

// Files are read and written at some GB/s, so that few MB come between two looks, if other programs let
// the thread run.
constexpr std::chrono::milliseconds kPause{1};

struct Resident {
  int64_t total = 0;
  int64_t of_files = 0;
};

Resident resident() {
  std::array<char, 256> text{};
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t size = ::read(file, text.data(), text.size() - 1);
  ::close(file);
  // In pages: size, resident, resident of files and of shared memory, ...
  std::array<int64_t, 3> pages{};
  const char* at = text.data();
  const char* const end = at + (size > 0 ? size : 0);
  for (int64_t& number : pages) {
    while (at != end && *at == ' ') ++at;
    at = std::from_chars(at, end, number).ptr;
  }
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  return {.total = pages[1] * page, .of_files = pages[2] * page};
}

// The mappings whose pages may be given back. Its lock is held while they are: a mapping that ends
// waits, so that its addresses are never those of something else.
struct Registry {
  std::mutex mutex;
  std::map<void*, size_t> mappings;
};

Registry& registry() {
  // Never destroyed: the last mappings may outlive other statics.
  static auto* const kRegistry = new Registry;
  return *kRegistry;
}

void give_back_all() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  for (const auto& [address, bytes] : all.mappings) ::madvise(address, bytes, MADV_DONTNEED);
}

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
// How much of files may be resident.
std::atomic<int64_t> most_of_files{kNoLimit};

}  // namespace

void keep_mapped_pages_few() {
  const int64_t most = most_of_files.load(std::memory_order_relaxed);
  if (most != kNoLimit && resident().of_files > most) give_back_all();
}

int64_t resident_bytes() {
  return resident().total;
}

ReturnablePages::ReturnablePages(void* address, size_t bytes) : address_(address) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.mappings.emplace(address, bytes);
}

ReturnablePages::~ReturnablePages() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.mappings.erase(address_);
}

struct MappedPagesLimit::Watch {
  explicit Watch(int64_t bytes) {
    most_of_files = resident().of_files + bytes;
    thread = std::thread([this] { run(); });
  }
  ~Watch() {
    {
      const std::lock_guard lock(mutex);
      stopped = true;
    }
    changed.notify_one();
    thread.join();
    most_of_files = kNoLimit;
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void run() {
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, kPause, [this] { return stopped; })) {
      keep_mapped_pages_few();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  bool stopped = false;
  std::thread thread;
};

MappedPagesLimit::MappedPagesLimit(int64_t bytes) : watch_(std::make_unique<Watch>(bytes)) {}

MappedPagesLimit::~MappedPagesLimit() = default;

}  // namespace gnn::data
