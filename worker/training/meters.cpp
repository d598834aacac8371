#include "worker/training/meters.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace gnn::training {

Result<progress::EpochSums> reduce(
    comm::Communicator& communicator, const progress::EpochSums& mine
) {
  // Counts are exact in float64 up to 2^53.
  GNN_ASSIGN_OR_RETURN(
      const std::vector<double> sums,
      comm::all_reduce_sums(
          communicator,
          {mine.loss,
           static_cast<double>(mine.items),
           static_cast<double>(mine.correct),
           mine.weight}
      )
  );
  return progress::EpochSums{
      .loss = sums[0],
      .items = static_cast<int64_t>(sums[1]),
      .correct = static_cast<int64_t>(sums[2]),
      .weight = sums[3],
  };
}

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::array<double, 12> numbers_of(const report::RankRecord& rank) {
  const progress::StepSeconds& seconds = rank.seconds;
  const progress::RowOrigins rows = rank.rows.value_or(progress::RowOrigins());
  // Counts are exact in float64 up to 2^53.
  return {
      seconds.wait,
      seconds.forward,
      seconds.backward,
      seconds.reduce,
      seconds.optimizer,
      seconds.total,
      static_cast<double>(rank.items),
      static_cast<double>(rank.sampled_edges),
      rank.rows ? static_cast<double>(rows.local) : kNone,
      static_cast<double>(rows.cache),
      static_cast<double>(rows.remote),
      rank.expected_hit_rate.value_or(kNone),
  };
}

report::RankRecord rank_of(const double* numbers) {
  report::RankRecord rank{
      .seconds =
          {.wait = numbers[0],
           .forward = numbers[1],
           .backward = numbers[2],
           .reduce = numbers[3],
           .optimizer = numbers[4],
           .total = numbers[5]},
      .items = static_cast<int64_t>(numbers[6]),
      .sampled_edges = static_cast<int64_t>(numbers[7]),
  };
  if (!std::isnan(numbers[8])) {
    rank.rows = progress::RowOrigins{
        .local = static_cast<int64_t>(numbers[8]),
        .cache = static_cast<int64_t>(numbers[9]),
        .remote = static_cast<int64_t>(numbers[10]),
    };
  }
  if (!std::isnan(numbers[11])) rank.expected_hit_rate = numbers[11];
  return rank;
}

}  // namespace

Result<std::vector<report::RankRecord>> gather(
    comm::Communicator& communicator, const report::RankRecord& mine
) {
  const std::array numbers = numbers_of(mine);
  const at::Tensor own =
      at::tensor(at::ArrayRef<double>(numbers.data(), numbers.size()), at::kDouble);
  GNN_ASSIGN_OR_RETURN(const std::vector<at::Tensor> all, communicator.all_gather(own));
  std::vector<report::RankRecord> ranks;
  for (const at::Tensor& rank : all) ranks.push_back(rank_of(rank.const_data_ptr<double>()));
  return ranks;
}

}  // namespace gnn::training
