#include "worker/agent/limits.h"

#include "common/contract.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <sstream>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace gnn::agent {
namespace {

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<int64_t> read_number(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return std::nullopt;
  std::istringstream stream(*text);
  int64_t number = 0;
  if (!(stream >> number)) return std::nullopt;  // "max"
  return number;
}

// The value behind `key` in a file of "key value" lines.
std::optional<int64_t> read_key(const std::string& path, const std::string& key) {
  const auto text = read_file(path);
  if (!text) return std::nullopt;
  std::istringstream stream(*text);
  std::string name;
  int64_t value = 0;
  while (stream >> name >> value)
    if (name == key) return value;
  return std::nullopt;
}

// The folders of our cgroup for one controller (empty for cgroup v2), innermost first. In a
// container the membership file may contain the host's path, which does not exist here: so the
// mount's root comes last.
std::vector<std::string> folders(const CgroupFiles& files, const std::string& controller) {
  std::vector<std::string> found;
  const std::string mount = controller.empty() ? files.root : files.root + "/" + controller;
  std::istringstream lines(read_file(files.membership).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool ours = controller.empty()
                          ? line.rfind("0::", 0) == 0
                          : controllers.find("," + controller + ",") != std::string::npos;
    if (!ours) continue;
    for (std::filesystem::path path = line.substr(second + 1);
         !path.empty() && path != path.root_path();
         path = path.parent_path())
      found.push_back(mount + path.string());
  }
  found.push_back(mount);
  return found;
}

std::optional<double> quota_v2(const std::string& folder) {
  const auto text = read_file(folder + "/cpu.max");
  if (!text) return std::nullopt;
  std::istringstream stream(*text);
  double quota = 0;
  double period = 0;
  if (!(stream >> quota >> period) || period <= 0) return std::nullopt;  // "max 100000"
  return quota / period;
}

std::optional<double> quota_v1(const std::string& folder) {
  const auto quota = read_number(folder + "/cpu.cfs_quota_us");
  const auto period = read_number(folder + "/cpu.cfs_period_us");
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

void keep_smaller(std::optional<double>& least, std::optional<double> value) {
  if (value && (!least || *value < *least)) least = value;
}

}  // namespace

std::optional<double> cpu_quota(const CgroupFiles& files) {
  std::optional<double> least;  // an outer cgroup may be tighter than ours
  for (const auto& folder : folders(files, "")) keep_smaller(least, quota_v2(folder));
  for (const auto& folder : folders(files, "cpu")) keep_smaller(least, quota_v1(folder));
  return least;
}

int64_t usable_cpus(const CgroupFiles& files) {
  cpu_set_t affinity;
  CPU_ZERO(&affinity);
  int64_t cpus = 1;
  if (::sched_getaffinity(0, sizeof affinity, &affinity) == 0) cpus = CPU_COUNT(&affinity);
  if (const auto quota = cpu_quota(files))
    cpus = std::min(cpus, static_cast<int64_t>(std::floor(*quota)));
  return std::max<int64_t>(cpus, 1);
}

Result<int64_t> cpus_of_rank(
    const rendezvous::EnvironmentLookup& environment, int64_t local_world_size
) {
  const int64_t share = std::max<int64_t>(1, usable_cpus() / local_world_size);
  return rendezvous::parse_integer(environment, contract::kEnvRankCpus, 1, 65536, share);
}

int64_t usable_memory(const CgroupFiles& files) {
  int64_t least = ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE);
  const auto limit_to = [&least](std::optional<int64_t> limit) {
    if (limit) least = std::min(least, *limit);
  };
  for (const auto& folder : folders(files, "")) limit_to(read_number(folder + "/memory.max"));
  for (const auto& folder : folders(files, "memory"))
    limit_to(read_number(folder + "/memory.limit_in_bytes"));
  return least;
}

std::optional<MemoryState> memory_state(const CgroupFiles& files) {
  for (const auto& folder : folders(files, "")) {
    const auto kills = read_key(folder + "/memory.events", "oom_kill");
    if (!kills) continue;
    return MemoryState{
        .oom_kills = *kills,
        .peak_bytes = read_number(folder + "/memory.peak"),
        .limit_bytes = read_number(folder + "/memory.max")
    };
  }
  for (const auto& folder : folders(files, "memory")) {
    const auto kills = read_key(folder + "/memory.oom_control", "oom_kill");
    if (!kills) continue;
    return MemoryState{
        .oom_kills = *kills,
        .peak_bytes = read_number(folder + "/memory.max_usage_in_bytes"),
        .limit_bytes = read_number(folder + "/memory.limit_in_bytes")
    };
  }
  return std::nullopt;
}

Status allow_open_files(int64_t needed, int64_t better) {
  auto files = static_cast<rlim_t>(needed);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    if (limit.rlim_max >= files)
      files = std::clamp(static_cast<rlim_t>(better), files, limit.rlim_max);
    if (limit.rlim_cur >= files) return {};
    if (limit.rlim_max < files)
      return fail(
          ErrorKind::Configuration,
          "a process may hold " + std::to_string(limit.rlim_max) + " open files here, and needs " +
              std::to_string(needed) +
              " for the connections of this job; raise the hard limit (ulimit -Hn, or the "
              "container runtime's)"
      );
    limit.rlim_cur = files;
    if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) return {};
  }
  return fail(
      ErrorKind::Configuration,
      "cannot allow " + std::to_string(files) +
          " open files: " + std::generic_category().message(errno)
  );
}

}  // namespace gnn::agent
