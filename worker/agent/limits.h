#pragma once

#include "common/result.h"
#include "worker/rendezvous/rendezvous.h"

#include <cstdint>
#include <optional>
#include <string>

namespace gnn::agent {

/// Where the kernel describes this process's cgroup; tests set other paths.
struct CgroupFiles {
  std::string root = "/sys/fs/cgroup";
  std::string membership = "/proc/self/cgroup";
};

/// Whole CPUs that this process may use: the smaller of its affinity and its CPU quota (cgroup v1
/// or v2), rounded down, at least 1.
[[nodiscard]] int64_t usable_cpus(const CgroupFiles& files = {});

/// CPUs that a rank may keep busy: GNN_RANK_CPUS if its agent set it, otherwise its share of
/// usable_cpus().
/// Errors: Configuration if the variable is not a number of CPUs.
[[nodiscard]] Result<int64_t> cpus_of_rank(
    const rendezvous::EnvironmentLookup& environment, int64_t local_world_size
);

/// The CPU quota alone, in CPUs; nullopt if there is none.
[[nodiscard]] std::optional<double> cpu_quota(const CgroupFiles& files = {});

/// Bytes of memory that this process may use, page cache included: the smallest of the machine's and
/// the limits of its cgroups (v1 or v2).
[[nodiscard]] int64_t usable_memory(const CgroupFiles& files = {});

/// Memory of this process's cgroup.
struct MemoryState {
  int64_t oom_kills = 0;  ///< processes that the kernel killed for lack of memory
  std::optional<int64_t> peak_bytes;
  std::optional<int64_t> limit_bytes;
};
/// Nullopt without a memory controller.
[[nodiscard]] std::optional<MemoryState> memory_state(const CgroupFiles& files = {});

/// Raises this process's soft limit of open files to `needed`, or `better` where the hard limit is not
/// lower. Processes that it starts inherit that.
/// Errors: Configuration if the hard limit is below `needed`.
[[nodiscard]] Status allow_open_files(int64_t needed, int64_t better = 0);

}  // namespace gnn::agent
