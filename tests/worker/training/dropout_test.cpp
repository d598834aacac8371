#include "worker/training/dropout.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

namespace gnn::training {
namespace {

at::Tensor draw(const DropoutStream& stream) {
  seed_dropout(c10::kCPU, stream);
  return at::rand({32});
}

TEST(Dropout, DrawsTheSameForTheSameBatch) {
  const DropoutStream stream{.seed = 1, .epoch = 2, .batch = 3, .rank = 4};
  const at::Tensor first = draw(stream);
  static_cast<void>(at::rand({100}));
  EXPECT_TRUE(draw(stream).equal(first));
}

TEST(Dropout, DrawsDifferentlyForEveryOtherBatch) {
  std::vector<at::Tensor> draws;
  for (const DropoutStream& stream : std::vector<DropoutStream>{
           {.seed = 1, .epoch = 1, .batch = 1, .rank = 1},
           {.seed = 2, .epoch = 1, .batch = 1, .rank = 1},
           {.seed = 1, .epoch = 2, .batch = 1, .rank = 1},
           {.seed = 1, .epoch = 1, .batch = 2, .rank = 1},
           {.seed = 1, .epoch = 1, .batch = 1, .rank = 2},
       }) {
    for (const at::Tensor& other : draws) EXPECT_FALSE(draw(stream).equal(other));
    draws.push_back(draw(stream));
  }
}

TEST(Dropout, DrawsDifferentlyForKeysThatShareTheir32LowBits) {
  const DropoutStream one{.seed = 1, .epoch = 0, .batch = 20974, .rank = 0};
  const DropoutStream other{.seed = 1, .epoch = 0, .batch = 45771, .rank = 0};
  ASSERT_NE(dropout_key(one), dropout_key(other));
  ASSERT_EQ(static_cast<uint32_t>(dropout_key(one)), static_cast<uint32_t>(dropout_key(other)));
  EXPECT_FALSE(draw(one).equal(draw(other)));
}

}  // namespace
}  // namespace gnn::training
