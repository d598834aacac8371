// Holds SIGTERM and SIGINT back from the start of a pod's first process until its command takes them.
//
// One that came before would be lost: the kernel does not end the first process of a container by a
// signal that it does not handle, and elsewhere the process would end without an exit code of the
// contract. This code runs before any library is initialised, which takes a while. What is started
// instead of this program (passive_openmp.cpp) holds them, too.

#include <csignal>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

__attribute__((no_sanitize("address", "undefined"))) bool is_same(
    const char* text, const char* other
) {
  for (; *text == *other; ++text, ++other) {
    if (*text == '\0') return true;
  }
  return false;
}

// Uses nothing that needs the C library, or a sanitizer, to be initialised.
__attribute__((no_sanitize("address", "undefined"))) void hold_stop_signals(
    int argc, char** argv, char** /*environment*/
) {
  if (argc < 2) return;
  if (!is_same(argv[1], "agent") && !is_same(argv[1], "server") && !is_same(argv[1], "prepare"))
    return;
  unsigned long set = (1UL << (SIGTERM - 1)) | (1UL << (SIGINT - 1));
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, nullptr, sizeof set);
}

__attribute__((section(".preinit_array"), used)
) void (*const kHoldFirst)(int, char**, char**) = &hold_stop_signals;

}  // namespace
