#include "worker/nn/functional/spmm.h"

#include "tests/support/blocks.h"
#include "worker/nn/functional/csr.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <tuple>

namespace gnn::nn {
namespace {

using testing::dense;
using testing::make_block;
using testing::random_block;

// Restores the number of threads that other tests run with.
class Threads {
 public:
  explicit Threads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

class SpmmOfTypes : public ::testing::TestWithParam<std::tuple<at::ScalarType, at::ScalarType>> {
 protected:
  at::ScalarType type() const { return std::get<0>(GetParam()); }
  at::ScalarType index() const { return std::get<1>(GetParam()); }
  double tolerance() const {
    if (type() == at::kDouble) return 1e-12;
    return type() == at::kFloat ? 1e-5 : 2e-2;
  }
};

INSTANTIATE_TEST_SUITE_P(
    All,
    SpmmOfTypes,
    ::testing::Combine(
        ::testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
        ::testing::Values(at::kInt, at::kLong)
    )
);

TEST_P(SpmmOfTypes, EqualsTheDenseProductWithEveryScale) {
  torch::manual_seed(1);
  const graph::Block block = random_block(17, 23, 6, 5, index());
  const Csr matrix = to_csr(block);
  const auto scale_type = spmm_scale_type(type());
  for (const int64_t width : {1, 3, 16, 513, 1100}) {
    const at::Tensor x = torch::randn({23, width}, type());
    const at::Tensor rows = torch::rand({17}, scale_type);
    const at::Tensor cols = torch::rand({23}, scale_type);
    const at::Tensor root = torch::randn({11, width}, type());
    const at::Tensor root_scale = torch::rand({11}, scale_type);
    const at::Tensor found = spmm(
        matrix, x, {.row_scale = rows, .col_scale = cols, .root = root, .root_scale = root_scale}
    );
    at::Tensor expected = rows.to(at::kDouble).unsqueeze(1) *
                          dense(block).mm(cols.to(at::kDouble).unsqueeze(1) * x.to(at::kDouble));
    expected.narrow(0, 0, 11) += root_scale.to(at::kDouble).unsqueeze(1) * root.to(at::kDouble);
    EXPECT_EQ(found.scalar_type(), type());
    EXPECT_TRUE(torch::allclose(found.to(at::kDouble), expected, tolerance(), tolerance()))
        << "width " << width;
    const at::Tensor plain = spmm(matrix, x);
    EXPECT_TRUE(torch::allclose(
        plain.to(at::kDouble), dense(block).mm(x.to(at::kDouble)), tolerance(), tolerance()
    ));
  }
}

TEST_P(SpmmOfTypes, GivesTheSameBitsForAnyNumberOfThreads) {
  torch::manual_seed(2);
  const Csr matrix = to_csr(random_block(4000, 9000, 12, 7, index()));
  const at::Tensor x = torch::randn({9000, 33}, type());
  const at::Tensor gradient = torch::randn({4000, 33}, type());
  const auto run = [&](int threads) {
    const Threads set(threads);
    return std::pair{spmm(matrix, x), spmm(transpose(matrix), gradient)};
  };
  const auto [forward, backward] = run(1);
  for (const int threads : {2, 8}) {
    const auto [forward_again, backward_again] = run(threads);
    EXPECT_TRUE(torch::equal(forward, forward_again)) << threads;
    EXPECT_TRUE(torch::equal(backward, backward_again)) << threads;
  }
}

TEST_P(SpmmOfTypes, SumsALongRowToTheSameBitsOnAnyNumberOfThreads) {
  torch::manual_seed(4);
  constexpr int64_t kLong = 300'000;
  const at::Tensor x = torch::randn({1000, 5}, type());
  const Csr matrix{
      .indptr = torch::tensor({int64_t{0}, int64_t{2}, kLong + 2, kLong + 5}, torch::kInt64),
      .indices = torch::randint(1000, {kLong + 5}, torch::kInt64).to(index()),
      .num_rows = 3,
      .num_cols = 1000,
  };
  const SpmmOptions options{
      .row_scale = torch::rand({3}, spmm_scale_type(type())),
      .col_scale = torch::rand({1000}, spmm_scale_type(type())),
      .root = torch::randn({2, 5}, type()),
      .root_scale = {},
      .skip_loops = true,
  };
  const auto run = [&](int threads) {
    const Threads set(threads);
    return spmm(matrix, x, options);
  };
  const at::Tensor found = run(1);
  EXPECT_TRUE(torch::equal(found, run(2)));
  EXPECT_TRUE(torch::equal(found, run(8)));

  const at::Tensor columns = matrix.indices.narrow(0, 2, kLong).to(at::kLong);
  at::Tensor scales = options.col_scale.to(at::kDouble).index_select(0, columns);
  scales.masked_fill_(columns.eq(1), 0);
  const at::Tensor sum = scales.unsqueeze(0).mm(x.to(at::kDouble).index_select(0, columns));
  const at::Tensor expected =
      sum[0] * options.row_scale[1].to(at::kDouble) + options.root[1].to(at::kDouble);
  const double error = (found[1].to(at::kDouble) - expected).abs().max().item<double>();
  EXPECT_LT(error, tolerance() * expected.abs().max().item<double>() * 10);
}

TEST(Spmm, GivesTheSumsOfBFloat16RowsInFloat32) {
  torch::manual_seed(6);
  const Csr matrix = to_csr(random_block(30, 40, 9, 7, at::kInt));
  const at::Tensor x = torch::randn({40, 13}).to(at::kBFloat16);
  SpmmOptions options{
      .row_scale = torch::rand({30}),
      .col_scale = torch::rand({40}),
      .root = torch::randn({20, 13}),
      .root_scale = {},
      .skip_loops = true,
  };
  const at::Tensor expected = spmm(matrix, x.to(at::kFloat), options);
  options.result = at::kFloat;
  EXPECT_TRUE(torch::equal(spmm(matrix, x, options), expected));
  EXPECT_THROW((void)spmm(matrix, x.to(at::kDouble), options), c10::Error);
  options.root = options.root.to(at::kBFloat16);
  EXPECT_THROW((void)spmm(matrix, x, options), c10::Error) << "a root of another type";
}

TEST(Spmm, SkipsLoopsOnlyWhenAsked) {
  const Csr matrix = to_csr(make_block({{0, 1}, {1, 1, 2}}, 3));
  const at::Tensor x = torch::tensor({{1.0}, {10.0}, {100.0}});
  EXPECT_TRUE(torch::equal(spmm(matrix, x), torch::tensor({{11.0}, {120.0}})));
  EXPECT_TRUE(torch::equal(
      spmm(
          matrix,
          x,
          {.row_scale = {}, .col_scale = {}, .root = {}, .root_scale = {}, .skip_loops = true}
      ),
      torch::tensor({{10.0}, {100.0}})
  ));
}

TEST(Spmm, ReadsStridedRows) {
  const Csr matrix = to_csr(make_block({{0, 2}, {1}}, 3));
  const at::Tensor wide = torch::arange(12, torch::kFloat64).view({3, 4});
  EXPECT_TRUE(torch::equal(
      spmm(matrix, wide.narrow(1, 1, 2)), torch::tensor({{10.0, 12.0}, {5.0, 6.0}}, torch::kFloat64)
  ));
}

TEST(Spmm, AcceptsEmptyGraphsAndRows) {
  const Csr no_edges = to_csr(make_block({{}, {}}, 4));
  EXPECT_TRUE(torch::equal(spmm(no_edges, torch::ones({4, 3})), torch::zeros({2, 3})));
  const Csr no_rows = to_csr(make_block({}, 4));
  EXPECT_EQ(spmm(no_rows, torch::ones({4, 3})).sizes(), (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(spmm(no_edges, torch::ones({4, 0})).sizes(), (std::vector<int64_t>{2, 0}));
}

TEST(Spmm, PropagatesNaN) {
  const Csr matrix = to_csr(make_block({{0}, {1}}, 2));
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor x = torch::tensor({{std::nan("")}, {1.0}}).to(type);
    const at::Tensor out = spmm(matrix, x);
    EXPECT_TRUE(out[0].isnan().item<bool>());
    EXPECT_EQ(out[1].item<double>(), 1.0);
  }
}

TEST(Spmm, SkipsLoopsInTheColumnsThatItIsGiven) {
  const Csr matrix = to_csr(make_block({{2, 0}, {1, 3}}, 4, at::kInt));
  const at::Tensor x = torch::tensor({{1.0F}, {10.0F}, {100.0F}, {1000.0F}});
  SpmmOptions options;
  options.skip_loops = true;
  options.own_columns = torch::tensor({2, 3}, torch::kInt64);
  EXPECT_TRUE(torch::equal(spmm(matrix, x, options), torch::tensor({{1.0F}, {10.0F}})));
}

TEST(Spmm, RefusesMismatchedShapes) {
  const Csr matrix = to_csr(make_block({{0, 1}}, 3));
  EXPECT_THROW(spmm(matrix, torch::ones({2, 4})), c10::Error);
  EXPECT_THROW(spmm(matrix, torch::ones({3, 4}, torch::kInt64)), c10::Error);
  EXPECT_THROW(spmm(matrix, torch::ones({4, 3}).t()), c10::Error);
  EXPECT_THROW(
      spmm(
          matrix,
          torch::ones({3, 4}),
          {.row_scale = torch::ones({2}), .col_scale = {}, .root = {}, .root_scale = {}}
      ),
      c10::Error
  );
  SpmmOptions options;
  options.own_columns = torch::zeros({2}, torch::kInt64);
  EXPECT_THROW(spmm(matrix, torch::ones({3, 4}), options), c10::Error);
}

TEST(Csr, TransposesWithRowsInOrder) {
  const Csr matrix = transpose(to_csr(make_block({{2, 0}, {2, 2}, {1}}, 4, at::kInt)));
  EXPECT_TRUE(torch::equal(matrix.indptr, torch::tensor({0, 1, 2, 5, 5}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(matrix.indices, torch::tensor({0, 2, 0, 1, 1}, torch::kInt32)));
  EXPECT_EQ(matrix.num_rows, 4);
  EXPECT_EQ(matrix.num_cols, 3);
}

TEST(Csr, TransposesBackToItself) {
  const graph::Block block = random_block(3000, 5000, 40, 3, at::kInt);
  const Csr twice = transpose(transpose(to_csr(block)));
  EXPECT_TRUE(torch::equal(twice.indptr, block.indptr));
  // Columns of a row come back in ascending order.
  const at::Tensor rows =
      torch::repeat_interleave(torch::arange(3000, torch::kInt64), torch::diff(block.indptr));
  const at::Tensor keys = std::get<0>((rows * 5000 + block.indices).sort());
  EXPECT_TRUE(torch::equal(rows * 5000 + twice.indices, keys));
}

TEST(Csr, CountsInEdgesWithoutLoops) {
  const graph::Block block = make_block({{0, 1, 2}, {1, 1}, {}, {0, 3, 3, 4}}, 5, at::kInt);
  EXPECT_TRUE(
      torch::equal(in_degrees_without_loops(block), torch::tensor({2, 0, 0, 2}, torch::kInt64))
  );
}

TEST(Csr, CountsEntriesOutsideOfEachRowsOwnColumn) {
  for (const at::ScalarType index : {at::kInt, at::kLong}) {
    const Csr matrix = to_csr(make_block({{0, 1, 2}, {1, 1}, {}}, 5, index));
    EXPECT_TRUE(torch::equal(
        in_degrees_without_loops(matrix, torch::tensor({2, 0, 1}, torch::kInt64)),
        torch::tensor({2, 2, 0}, torch::kInt64)
    ));
  }
}

TEST(Csr, RefusesAnInconsistentBlock) {
  const graph::Block good = make_block({{0, 1}, {2}}, 3);
  EXPECT_NO_THROW(static_cast<void>(to_csr(good)));
  graph::Block block = good;
  block.indices = torch::tensor({0, 3, 2}, torch::kInt64);
  EXPECT_THROW(static_cast<void>(to_csr(block)), c10::Error);
  block.indices = torch::tensor({0, -1, 2}, torch::kInt32);
  EXPECT_THROW(static_cast<void>(to_csr(block)), c10::Error);
  block.indices = torch::tensor({0, 1}, torch::kInt64);
  EXPECT_THROW(static_cast<void>(to_csr(block)), c10::Error);
  block = good;
  block.indptr = torch::tensor({0, 4, 3}, torch::kInt64);
  EXPECT_THROW(static_cast<void>(to_csr(block)), c10::Error);
  block = good;
  block.indptr = torch::tensor({0, 2, 3}, torch::kInt32);
  EXPECT_THROW(static_cast<void>(to_csr(block)), c10::Error);
  block = good;
  block.num_sources = 1;
  EXPECT_THROW(static_cast<void>(to_csr(block)), c10::Error);
}

}  // namespace
}  // namespace gnn::nn
