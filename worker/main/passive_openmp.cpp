// Starts the program again with OMP_WAIT_POLICY=passive unless the environment says how OpenMP's
// threads wait.
//
// libgomp's idle threads spin for milliseconds on cores that samplers and other ranks need: five
// sixths of a small job's CPU time. libgomp reads the variable when it is loaded, before main(),
// and has no function to set it. This code runs before any library is initialised, so the second
// start costs little. Agents do not compute, and set the variable for their ranks.

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

// Uses nothing that needs the C library to be initialised.
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
  // Without /proc the process continues as it is: slower, not wrong.
}

__attribute__((section(".preinit_array"), used)
) void (*const kPreinit)(int, char**, char**) = &start_with_passive_openmp;

}  // namespace
