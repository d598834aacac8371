#include "common/random.h"

namespace gnn {

SystemRandom::SystemRandom() {
  std::random_device device;
  std::seed_seq seed{device(), device(), device(), device()};
  engine_.seed(seed);
}

uint64_t SystemRandom::next() {
  const std::lock_guard lock(mutex_);
  return engine_();
}

}  // namespace gnn
