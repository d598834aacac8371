#include "worker/nn/cuda/spmm_rows.h"

#include "tests/support/blocks.h"
#include "tests/support/gpu_emulator.h"
#include "worker/nn/functional/csr.h"
#include "worker/nn/functional/spmm.h"
#include "worker/nn/sparse/spmm_arguments.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>

namespace gnn::nn::cuda {
namespace {

using testing::EmulatorOptions;
using testing::GpuEmulator;
using testing::Schedule;

// What spmm.cu launches.
template <class T, class I, class R>
void launch(const SpmmArguments<T, I, R>& arguments, const EmulatorOptions& options) {
  constexpr int kThreads = 64;
  GpuEmulator device(options);
  device.launch(SpmmRows<T, I, R>{arguments}, {.blocks = 3, .threads = kThreads});
  device.launch(
      SpmmLongRows<T, I, R>{arguments},
      {.blocks = 2, .threads = kThreads, .shared_bytes = long_rows_bytes<T>(kThreads)}
  );
}

at::Tensor emulated(
    const Csr& matrix, const at::Tensor& x, const SpmmOptions& options, const EmulatorOptions& how
) {
  at::Tensor out = at::full({matrix.num_rows, x.size(1)}, 1e30, x.options());
  with_spmm_arguments(matrix, x, options, out, [&](const auto& arguments) {
    launch(arguments, how);
  });
  return out;
}

// Rows of 0, few, and two of 513 and 3000 entries.
graph::Block block_with_long_rows(at::ScalarType index) {
  const at::Tensor degrees = torch::tensor({3, 0, 513, 512, 7, 3000, 1, 0}, torch::kInt64);
  graph::Block block;
  block.indptr = at::cat({torch::zeros({1}, torch::kInt64), degrees.cumsum(0)});
  block.num_destinations = degrees.numel();
  block.num_sources = 40;
  block.indices = torch::randint(40, {block.indptr[-1].item<int64_t>()}, at::TensorOptions(index));
  return block;
}

SpmmOptions options_of(const at::Tensor& x, int64_t rows) {
  const auto scale_type = spmm_scale_type(x.scalar_type());
  SpmmOptions options;
  options.row_scale = torch::rand({rows}, scale_type);
  options.col_scale = torch::rand({x.size(0)}, scale_type);
  options.root = torch::randn({rows - 2, x.size(1)}, x.options());
  options.root_scale = torch::rand({rows - 2}, scale_type);
  options.skip_loops = true;
  return options;
}

class SpmmRowsTest : public ::testing::TestWithParam<at::ScalarType> {};

INSTANTIATE_TEST_SUITE_P(
    All, SpmmRowsTest, ::testing::Values(at::kFloat, at::kDouble, at::kBFloat16)
);

TEST_P(SpmmRowsTest, SumWhatTheCpuSums) {
  torch::manual_seed(1);
  // Thousands of sums one after the other round by as much, here and there.
  const double tolerance = GetParam() == at::kDouble  ? 1e-14
                           : GetParam() == at::kFloat ? 4e-6
                                                      : 8e-3;
  for (const at::ScalarType index : {at::kInt, at::kLong}) {
    const Csr matrix = to_csr_between(block_with_long_rows(index));
    for (const int64_t width : {1, 33}) {
      const at::Tensor x = torch::randn({40, width}, GetParam());
      for (const SpmmOptions& options : {SpmmOptions{}, options_of(x, matrix.num_rows)}) {
        const at::Tensor expected = spmm(matrix, x, options);
        const at::Tensor found = emulated(matrix, x, options, {.seed = 1});
        SpmmOptions magnitudes = options;
        if (options.root.defined()) magnitudes.root = options.root.abs();
        // Of the terms' magnitudes: those of both signs cancel.
        const auto size = spmm(matrix, x.abs(), magnitudes).max().item<double>();
        const at::Tensor difference = found.to(at::kDouble) - expected.to(at::kDouble);
        EXPECT_LE(difference.abs().max().item<double>(), tolerance * size);
        // What is asked of a GPU (spmm_test.cpp), whose arithmetic is the emulator's: of rows that are
        // summed in the CPU's order.
        if (GetParam() != at::kFloat) continue;
        const at::Tensor few = torch::tensor({0, 1, 4, 6, 7});
        EXPECT_LE(
            difference.index_select(0, few).norm().item<double>(),
            1e-6 * expected.index_select(0, few).norm().item<double>()
        );
      }
    }
  }
}

TEST_P(SpmmRowsTest, SumTheSameBitsInAnyOrderOfThreads) {
  torch::manual_seed(2);
  const Csr matrix = to_csr_between(block_with_long_rows(at::kInt));
  const at::Tensor x = torch::randn({40, 33}, GetParam());
  const SpmmOptions options = options_of(x, matrix.num_rows);
  const at::Tensor once = emulated(matrix, x, options, {.seed = 1});
  for (const Schedule schedule : {Schedule::Random, Schedule::Forward, Schedule::Backward}) {
    EXPECT_TRUE(torch::equal(once, emulated(matrix, x, options, {.seed = 7, .schedule = schedule}))
    );
  }
}

}  // namespace
}  // namespace gnn::nn::cuda
