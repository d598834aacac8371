#pragma once

#include "common/result.h"
#include "worker/distributed/comm/rendezvous.h"

#include <cstdint>
#include <optional>
#include <string>

namespace gnn::agent {

/// Where the kernel shows this process's cgroup; tests point it elsewhere.
struct CgroupFiles {
  std::string root = "/sys/fs/cgroup";
  std::string membership = "/proc/self/cgroup";
};

/// Whole CPUs that this process may use: the smaller of its affinity and its CPU quota (cgroup v1
/// or v2), rounded down, at least 1.
[[nodiscard]] int64_t usable_cpus(const CgroupFiles& files = {});

/// CPUs that a rank may keep busy: GNN_RANK_CPUS as its agent set it, else its share of
/// usable_cpus().
[[nodiscard]] Result<int64_t> cpus_of_rank(
    const comm::EnvironmentLookup& environment, int64_t local_world_size
);

/// The CPU quota alone, in CPUs; nullopt when there is none.
[[nodiscard]] std::optional<double> cpu_quota(const CgroupFiles& files = {});

/// What the memory controller says of this process's cgroup; nullopt where it doesn't.
struct MemoryState {
  int64_t oom_kills = 0;  ///< Processes that it ended for lack of memory.
  std::optional<int64_t> peak_bytes;
  std::optional<int64_t> limit_bytes;
};
[[nodiscard]] std::optional<MemoryState> memory_state(const CgroupFiles& files = {});

}  // namespace gnn::agent
