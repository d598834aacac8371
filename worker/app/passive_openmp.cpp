// Starts the program again with OMP_WAIT_POLICY=passive when its environment does not say how
// OpenMP's threads wait.
//
// libgomp's threads spin when they have nothing to do: for milliseconds, on the cores that samplers
// and other ranks need. A small job spent five sixths of its CPU time so. libgomp reads the
// variable when it is loaded, before main(), and has no call for it. This runs before any library
// is initialised, which is most of what a start costs, and so costs little. Agents compute nothing,
// and give their ranks the variable.

#include <cstddef>
#include <unistd.h>

namespace {

constexpr size_t kMostVariables = 4000;

__attribute__((no_sanitize("address", "undefined"))) bool starts_with(
    const char* text, const char* prefix
) {
  for (; *prefix != '\0'; ++text, ++prefix) {
    if (*text != *prefix) return false;
  }
  return true;
}

// Uses nothing that needs an initialised C library.
__attribute__((no_sanitize("address", "undefined"))) void start_with_passive_openmp(
    int argc, char** argv, char** environment
) {
  if (argc > 1 && starts_with(argv[1], "agent")) return;
  static char policy[] = "OMP_WAIT_POLICY=passive";
  char* extended[kMostVariables + 2];
  size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    if (count == kMostVariables) return;
    if (starts_with(environment[count], "OMP_WAIT_POLICY=")) return;
    if (starts_with(environment[count], "GOMP_SPINCOUNT=")) return;
    extended[count] = environment[count];
  }
  extended[count] = policy;
  extended[count + 1] = nullptr;
  execve("/proc/self/exe", argv, extended);
  // Without /proc this process goes on as it is: slower, not wrong.
}

__attribute__((section(".preinit_array"), used)
) void (*const kPreinit)(int, char**, char**) = &start_with_passive_openmp;

}  // namespace
