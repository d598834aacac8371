#include "worker/agent/memory_note.h"

#include <algorithm>
#include <numeric>

namespace gnn::agent {

std::string mebibytes(int64_t bytes) {
  return std::to_string(bytes / (int64_t{1} << 20)) + " MiB";
}

std::optional<MemoryNote> MemoryNotes::take(std::span<const int64_t> resident, int64_t first_rank) {
  if (!limit_ || resident.empty()) return std::nullopt;
  const int64_t all = std::accumulate(resident.begin(), resident.end(), int64_t{0});
  if (all < *limit_ / 2 || all - noted_ < *limit_ / 20 || all == 0) return std::nullopt;
  noted_ = all;
  const auto largest = std::ranges::max_element(resident);
  MemoryNote note{.local_rank = largest - resident.begin(), .message = {}};
  note.message = "the pod was killed before it could say why; rank " +
                 std::to_string(first_rank + note.local_rank) + " held " + mebibytes(*largest) +
                 (resident.size() > 1 ? ", all its ranks " + mebibytes(all) : "") +
                 ", and the memory limit is " + mebibytes(*limit_);
  return note;
}

}  // namespace gnn::agent
