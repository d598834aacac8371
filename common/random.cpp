#include "common/random.h"

namespace gnn {

SystemRandom::SystemRandom() {
  std::random_device device;
  std::seed_seq seed{device(), device(), device(), device()};
  engine_.lock()->seed(seed);
}

uint64_t SystemRandom::next() {
  return (*engine_.lock())();
}

}  // namespace gnn
