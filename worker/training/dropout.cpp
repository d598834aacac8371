#include "worker/training/dropout.h"

#include "common/hash.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

namespace gnn::training {
namespace {

uint64_t key_of(const DropoutStream& stream) {
  uint64_t key = splitmix64(0x6472'6f70'6f75'7400ULL, static_cast<uint64_t>(stream.seed));
  for (const int64_t word : {stream.epoch, stream.batch, stream.rank})
    key = splitmix64(key, static_cast<uint64_t>(word));
  return key;
}

}  // namespace

void seed_dropout(c10::Device device, const DropoutStream& stream) {
  if (device.is_cuda()) {
    torch::manual_seed(key_of(stream));
  } else {
    at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
    generator.set_current_seed(key_of(stream));
  }
}

}  // namespace gnn::training
