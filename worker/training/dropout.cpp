#include "worker/training/dropout.h"

#include "common/hash.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/utils.h>

#include <cstddef>
#include <mutex>

namespace gnn::training {
namespace {

// at::mt19937 takes 32 bits of a seed: among a hundred thousand batches two would share all their
// draws. So the key fills the whole state.
at::mt19937 engine_of(uint64_t key) {
  at::mt19937 engine(key);
  at::mt19937_data_pod data = engine.data();
  for (size_t i = 0; i < data.state_.size(); ++i)
    data.state_[i] = static_cast<uint32_t>(splitmix64(key, i));
  engine.set_data(data);
  return engine;
}

}  // namespace

uint64_t dropout_key(const DropoutStream& stream) {
  uint64_t key = splitmix64(0x6472'6f70'6f75'7400ULL, static_cast<uint64_t>(stream.seed));
  for (const int64_t word : {stream.epoch, stream.batch, stream.rank})
    key = splitmix64(key, static_cast<uint64_t>(word));
  return key;
}

void seed_dropout(c10::Device device, const DropoutStream& stream) {
  const uint64_t key = dropout_key(stream);
  if (device.is_cuda()) {
    torch::manual_seed(key);  // Philox takes all 64 bits
    return;
  }
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  auto* const cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
  cpu->set_current_seed(key);  // forgets numbers that were drawn ahead
  cpu->set_engine(engine_of(key));
}

}  // namespace gnn::training
