#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace gnn::agent {

/// "12 MiB", rounded down.
[[nodiscard]] std::string mebibytes(int64_t bytes);

/// The rank that holds most memory, and a sentence about it.
struct MemoryNote {
  int64_t local_rank = 0;
  std::string message;
};

/// Decides when the agent writes down how much memory its ranks hold. Under cgroup v2 the kernel kills a
/// container that is out of memory as a whole, the agent included, so that the termination message must be
/// there before.
class MemoryNotes {
 public:
  /// `limit_bytes`: the container's limit. Without one there are no notes.
  explicit MemoryNotes(std::optional<int64_t> limit_bytes) : limit_(limit_bytes) {}

  /// `resident`: bytes that each local rank holds now, 0 for one that has ended; `first_rank`: the rank of
  /// the first of them. Returns a note once all together hold half of the limit, and another each time
  /// they hold a twentieth of it more than at the last note.
  [[nodiscard]] std::optional<MemoryNote> take(
      std::span<const int64_t> resident, int64_t first_rank
  );

 private:
  std::optional<int64_t> limit_;
  int64_t noted_ = 0;  // bytes of all ranks at the last note
};

}  // namespace gnn::agent
