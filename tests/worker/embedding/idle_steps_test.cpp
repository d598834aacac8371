#include "worker/embedding/idle_steps.h"

#include <gtest/gtest.h>

#include <cmath>

namespace gnn::embedding {
namespace {

TEST(IdleSteps, PrintBounds) {
  for (double lr : {1e-3, 1e-2, 1e-1, 1.0}) {
    IdleSteps idle({});
    for (int i = 0; i < 1000; ++i) idle.advance(lr);
    for (int t : {1, 2, 3, 4, 5, 6, 8, 10, 20, 50, 100, 400}) printf("lr %g t %d error %g\n", lr, t, idle.since(t).error);
  }
}

}  // namespace
}  // namespace gnn::embedding
