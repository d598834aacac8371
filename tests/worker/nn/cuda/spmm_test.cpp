// The CPU's results are the reference for the GPU's. Skipped, with the reason, where there is no
// GPU or no kernel.
#include "worker/nn/functional/spmm.h"

#include "tests/support/blocks.h"
#include "worker/nn/functional/csr.h"
#include "worker/nn/functional/segment_pool.h"
#include "worker/nn/models/gcn.h"
#include "worker/nn/models/graph_sage.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <string>
#include <tuple>

namespace gnn::nn {
namespace {

using testing::random_block;

graph::Block on_gpu(const graph::Block& block) {
  graph::Block copy = block;
  copy.indptr = block.indptr.cuda();
  copy.indices = block.indices.cuda();
  return copy;
}

class OnGpu : public ::testing::TestWithParam<std::tuple<at::ScalarType, at::ScalarType>> {
 protected:
  void SetUp() override {
    if (!GNN_TEST_CUDA_KERNELS)
      GTEST_SKIP() << "built without CUDA kernels (GNN_WITH_CUDA_KERNELS)";
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    torch::manual_seed(1);
  }
  at::ScalarType type() const { return std::get<0>(GetParam()); }
  at::ScalarType index() const { return std::get<1>(GetParam()); }
  // `float_tolerance`: of sums alone, whose order is ours; products are LibTorch's.
  void expect_close(const at::Tensor& gpu, const at::Tensor& cpu, double float_tolerance = 1e-6)
      const {
    ASSERT_TRUE(gpu.is_cuda());
    // Of the whole tensor: in bfloat16 a single element may be the sum of a few that cancel.
    const double tolerance = type() == at::kDouble  ? 1e-12
                             : type() == at::kFloat ? float_tolerance
                                                    : 3e-2;
    const at::Tensor expected = cpu.to(at::kDouble);
    const double error = (gpu.cpu().to(at::kDouble) - expected).norm().item<double>();
    EXPECT_LE(error, tolerance * expected.norm().item<double>());
  }
};

INSTANTIATE_TEST_SUITE_P(
    All,
    OnGpu,
    ::testing::Combine(
        ::testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
        ::testing::Values(at::kInt, at::kLong)
    )
);

TEST_P(OnGpu, SpmmEqualsTheCpu) {
  const graph::Block block = random_block(700, 1500, 12, 5, index());
  const auto scale_type = spmm_scale_type(type());
  for (const int64_t width : {1, 40, 256, 700}) {
    const at::Tensor x = torch::randn({1500, width}, type());
    const at::Tensor root = torch::randn({300, width}, type());
    const SpmmOptions options{
        .row_scale = torch::rand({700}, scale_type),
        .col_scale = torch::rand({1500}, scale_type),
        .root = root,
        .root_scale = torch::rand({300}, scale_type),
        .skip_loops = true,
    };
    const SpmmOptions moved{
        .row_scale = options.row_scale.cuda(),
        .col_scale = options.col_scale.cuda(),
        .root = root.cuda(),
        .root_scale = options.root_scale.cuda(),
        .skip_loops = true,
    };
    expect_close(spmm(to_csr(on_gpu(block)), x.cuda(), moved), spmm(to_csr(block), x, options));
  }
}

TEST_P(OnGpu, SpmmSkipsTheLoopsThatTheCpuSkips) {
  const graph::Block block = random_block(300, 40, 12, 7, index());
  const at::Tensor x = torch::randn({40, 33}, type());
  SpmmOptions options;
  options.skip_loops = true;
  options.own_columns = torch::randint(40, {300}, torch::kInt64);
  SpmmOptions moved = options;
  moved.own_columns = options.own_columns.cuda();
  expect_close(
      spmm(to_csr_between(on_gpu(block)), x.cuda(), moved), spmm(to_csr_between(block), x, options)
  );
}

TEST_P(OnGpu, TransposeEqualsTheCpu) {
  const graph::Block block = random_block(700, 1500, 12, 6, index());
  const Csr cpu = transpose(to_csr(block));
  const Csr gpu = transpose(to_csr(on_gpu(block)));
  EXPECT_TRUE(torch::equal(gpu.indptr.cpu(), cpu.indptr));
  EXPECT_TRUE(torch::equal(gpu.indices.cpu(), cpu.indices));
}

TEST_P(OnGpu, ModelsAndTheirGradientsEqualTheCpu) {
  const graph::Block block = random_block(200, 200, 8, 7, index());
  const at::Tensor x = torch::randn({200, 24}, type());
  std::vector<std::shared_ptr<NodeModel>> models = {
      GraphSage(GraphSageOptions{
                    .in_channels = 24, .hidden_channels = 32, .out_channels = 5, .dropout = 0
                })
          .ptr(),
      Gcn(GcnOptions{.in_channels = 24, .hidden_channels = 32, .out_channels = 5, .dropout = 0})
          .ptr(),
  };
  for (const auto& model : models) {
    const auto blocks = [&](const graph::Block& one) {
      return std::vector<graph::Block>(static_cast<size_t>(model->num_layers()), one);
    };
    model->to(type());
    const at::Tensor expected = model->forward(x, blocks(block));
    expected.pow(2).mean().backward();
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : model->parameters())
      gradients.push_back(parameter.grad().clone());
    model->zero_grad();
    model->to(torch::kCUDA);
    const at::Tensor found = model->forward(x.cuda(), blocks(on_gpu(block)));
    expect_close(found, expected, 1e-5);
    found.pow(2).mean().backward();
    for (size_t i = 0; i < gradients.size(); ++i)
      expect_close(model->parameters()[i].grad(), gradients[i], 1e-5);
  }
}

TEST_P(OnGpu, PoolsLikeTheCpu) {
  const at::Tensor offsets = torch::tensor({0, 3, 3, 10}, torch::kInt64);
  const at::Tensor x = torch::randn({10, 6}, type());
  for (const Pooling pooling : {Pooling::Sum, Pooling::Mean, Pooling::Max}) {
    expect_close(
        segment_pool(x.cuda(), offsets.cuda(), pooling), segment_pool(x, offsets, pooling)
    );
  }
}

}  // namespace
}  // namespace gnn::nn
