#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace gnn::training {

/// The batch whose dropout is drawn.
struct DropoutStream {
  int64_t seed = 0;
  int64_t epoch = 0;
  int64_t batch = 0;
  int64_t rank = 0;
};

/// Seeds torch's default generator of the device, which dropout draws from. No two batches of a run
/// share their draws, and a resumed run repeats them.
void seed_dropout(c10::Device device, const DropoutStream& stream);

}  // namespace gnn::training
