#include "worker/data/unreadable_mapping.h"

#include "common/contract.h"
#include "common/printable.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <unistd.h>

namespace gnn::data {
namespace {

struct NameSlot {
  std::atomic<bool> taken{false};
  // Written last (release) and read first (acquire): who sees an address sees the rest.
  std::atomic<uintptr_t> begin{0};
  size_t bytes = 0;
  std::array<char, 512> path{};
};

// Of a fixed size, because a signal handler must neither allocate nor lock.
std::array<NameSlot, 512> slots;

void write_to_stderr(std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = ::write(STDERR_FILENO, text.data(), text.size());
    if (done <= 0) return;
    text.remove_prefix(static_cast<size_t>(done));
  }
}

void say_what_is_unreadable(const NameSlot& slot, uintptr_t byte) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.begin(), digits.end(), byte).ptr;
  write_to_stderr(slot.path.data());
  write_to_stderr(": cannot be read at byte ");
  write_to_stderr({digits.data(), static_cast<size_t>(end - digits.data())});
  write_to_stderr(": the file was cut off while it was in use, or its disk failed\n");
}

extern "C" void on_bus_error(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const NameSlot& slot : slots) {
    const uintptr_t begin = slot.begin.load(std::memory_order_acquire);
    if (begin == 0 || info->si_code <= 0 || address < begin || address - begin >= slot.bytes)
      continue;
    // Several threads may read there. One line is enough.
    static std::atomic_flag said;
    while (said.test_and_set()) ::pause();
    say_what_is_unreadable(slot, address - begin);
    ::_exit(contract::kExitOther);
  }
  // Not ours: it comes again at once and ends the process.
  std::signal(signal, SIG_DFL);
  if (info->si_code <= 0) std::raise(signal);
}

}  // namespace

void name_unreadable_mappings() {
  struct sigaction action = {};
  action.sa_sigaction = &on_bus_error;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

NamedMapping::NamedMapping(const void* address, size_t bytes, const std::string& path) : slot_(0) {
  while (slot_ < slots.size() && slots[slot_].taken.exchange(true, std::memory_order_acquire))
    ++slot_;
  if (slot_ == slots.size()) return;
  NameSlot& slot = slots[slot_];
  const std::string shown = printable_line(path, slot.path.size() - 1);
  std::fill(std::copy(shown.begin(), shown.end(), slot.path.begin()), slot.path.end(), '\0');
  slot.bytes = bytes;
  slot.begin.store(reinterpret_cast<uintptr_t>(address), std::memory_order_release);
}

NamedMapping::~NamedMapping() {
  if (slot_ == slots.size()) return;
  slots[slot_].begin.store(0, std::memory_order_release);
  slots[slot_].taken.store(false, std::memory_order_release);
}

}  // namespace gnn::data
