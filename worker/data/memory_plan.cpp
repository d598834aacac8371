#include "worker/data/memory_plan.h"

#include <array>
#include <cstdio>

namespace gnn::data {

Result<MemoryPlan> plan_memory(int64_t bytes, int64_t resident) {
  const int64_t left = bytes - resident;
  if (left < kLeastMemory) {
    return fail(
        ErrorKind::Configuration,
        "--memory: expected at least " + bytes_text(resident + kLeastMemory) +
            ", of which the program takes " + bytes_text(resident) + " itself, found " +
            bytes_text(bytes)
    );
  }
  return MemoryPlan{
      .step_bytes = left / 8 * 3, .scratch_bytes = left / 8, .mapped_bytes = left / 16
  };
}

std::string bytes_text(int64_t bytes) {
  constexpr std::array<const char*, 4> kUnits{"bytes", "KiB", "MiB", "GiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  std::array<char, 32> text{};
  const int decimals = unit > 1 && value < 100.0 ? 1 : 0;
  std::snprintf(text.data(), text.size(), "%.*f %s", decimals, value, kUnits.at(unit));
  return text.data();
}

}  // namespace gnn::data
