#include "worker/training/answers.h"

#include <ATen/ATen.h>

#include <vector>

namespace gnn::training {

void AnswerCounter::add(const at::Tensor& labels, const at::Tensor& answers) {
  if (!counts()) return;
  if (!counts_.defined()) counts_ = at::zeros({request_.classes * request_.classes}, at::kLong);
  const at::Tensor known = at::logical_and(labels.ge(0), answers.ge(0));
  const at::Tensor cells = (labels * request_.classes + answers).masked_select(known).to(at::kCPU);
  counts_.index_add_(0, cells, at::ones_like(cells));
}

Status AnswerCounter::finish(comm::Communicator& communicator) const {
  if (!counts()) return {};
  // Exact in float64 up to 2^53.
  std::vector<double> mine(static_cast<size_t>(request_.classes * request_.classes));
  for (size_t cell = 0; counts_.defined() && cell < mine.size(); ++cell)
    mine[cell] = static_cast<double>(counts_.const_data_ptr<int64_t>()[cell]);
  GNN_ASSIGN_OR_RETURN(const std::vector<double> sums, comm::all_reduce_sums(communicator, mine));
  report::AnswerCounts all{.classes = request_.classes};
  for (const double sum : sums) all.counts.push_back(static_cast<int64_t>(sum));
  request_.take(all);
  return {};
}

}  // namespace gnn::training
