#pragma once

#include <cstdint>

namespace gnn::bench {

/// What the GPU did between start() and stop(), by its own clock.
struct DeviceActivity {
  double kernel_seconds = 0;      ///< summed over kernels, copies left out
  double busy_seconds = 0;        ///< during which at least one kernel ran
  double copy_seconds = 0;        ///< summed over copies from host to device
  double copied_bytes = 0;        ///< by these
  double overlapped_seconds = 0;  ///< of the copies from host to device, while a kernel ran
  int64_t kernels = 0;
};

/// Records every kernel and copy of this process by CUPTI. Throws std::runtime_error if CUPTI refuses.
void start_recording();
/// Ends the recording; all that was queued before has ended.
[[nodiscard]] DeviceActivity stop_recording();

}  // namespace gnn::bench
