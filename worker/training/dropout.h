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

/// 64 bits that tell the batch from all others.
[[nodiscard]] uint64_t dropout_key(const DropoutStream& stream);

/// Seeds torch's default generator of the device, which dropout draws from, by all bits of the
/// batch's key. A resumed run repeats the draws.
void seed_dropout(c10::Device device, const DropoutStream& stream);

}  // namespace gnn::training
