#include "worker/progress/progress_sink.h"

#include <gtest/gtest.h>

namespace gnn::progress {
namespace {

TEST(StepSeconds, AddUpByField) {
  StepSeconds sum{.wait = 1, .forward = 2, .backward = 3, .reduce = 4, .optimizer = 5, .total = 15};
  sum += StepSeconds{
      .wait = 10, .forward = 20, .backward = 30, .reduce = 40, .optimizer = 50, .total = 150
  };
  EXPECT_EQ(sum.wait, 11);
  EXPECT_EQ(sum.forward, 22);
  EXPECT_EQ(sum.backward, 33);
  EXPECT_EQ(sum.reduce, 44);
  EXPECT_EQ(sum.optimizer, 55);
  EXPECT_EQ(sum.total, 165);
}

}  // namespace
}  // namespace gnn::progress
