#include "controller/app/process_metrics.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>

namespace gnn::app {
namespace {

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double start_time() {
  // Field 22 of stat, in ticks since boot; the name in field 2 may hold blanks.
  std::ifstream stat("/proc/self/stat");
  std::string line;
  std::getline(stat, line);
  size_t at = line.rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = line.find(' ', at + 1);
  std::ifstream uptime("/proc/uptime");
  double up = 0;
  uptime >> up;
  if (at == std::string::npos || up == 0) return 0;
  const double ticks = std::stod(line.substr(at + 1));
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return now - up + ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

ProcessMetrics::ProcessMetrics(MetricsRegistry& registry)
    : resident_(registry.gauge("process_resident_memory_bytes", "Resident memory size in bytes.")),
      virtual_(registry.gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.")),
      open_fds_(registry.gauge("process_open_fds", "Number of open file descriptors.")),
      cpu_seconds_(registry.counter(
          "process_cpu_seconds_total", "Total user and system CPU time spent in seconds."
      )) {
  registry
      .gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.")
      .set(start_time());
}

void ProcessMetrics::update() {
  std::ifstream statm("/proc/self/statm");
  double pages = 0;
  double resident = 0;
  statm >> pages >> resident;
  const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  virtual_.set(pages * page);
  resident_.set(resident * page);
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; entry != end;
       entry.increment(error)) {
    if (error) break;
    ++count;
  }
  open_fds_.set(count);
  cpu_seconds_.increment(cpu_seconds() - cpu_seconds_.value());
}

}  // namespace gnn::app
