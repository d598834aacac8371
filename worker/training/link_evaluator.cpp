#include "worker/training/link_evaluator.h"

#include "worker/training/measures.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

namespace gnn::training {
namespace {

using api::Metric;
using progress::Measure;

Metric metric_of(const api::Evaluation& evaluation) {
  return evaluation.metric.value_or(Metric::AUC);
}

// float, on the CPU, row by row.
std::vector<float> values_of(const at::Tensor& scores) {
  const at::Tensor values = scores.detach().to(at::kCPU, at::kFloat).contiguous();
  const auto* begin = values.const_data_ptr<float>();
  return {begin, begin + values.numel()};
}

void append(std::vector<float>& to, const std::vector<float>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

int64_t count_nan(const std::vector<float>& scores) {
  return std::ranges::count_if(scores, [](float score) { return std::isnan(score); });
}

void check_shapes(const LinkScores& scores, const api::Evaluation& evaluation) {
  const bool own = metric_of(evaluation) == Metric::MRR;
  const int64_t own_negatives = evaluation.negatives.value_or(0);
  const at::Tensor& negative = scores.negative;
  const bool fits = own ? negative.dim() == 2 && negative.size(0) == scores.positive.numel() &&
                              negative.size(1) == own_negatives
                        : negative.dim() == 1;
  TORCH_CHECK(
      scores.positive.dim() == 1 && fits,
      "scores of links: expected positive [P] and negative ",
      own ? "[P, " + std::to_string(own_negatives) + "]" : "[N]",
      ", found ",
      scores.positive.sizes(),
      " and ",
      negative.sizes()
  );
}

// What each rank says of its scores before they travel, if they do.
constexpr size_t kPositive = 0;
constexpr size_t kNegative = 1;
constexpr size_t kNan = 2;
constexpr size_t kStop = 3;
constexpr size_t kHeaderFields = 4;
using Headers = std::vector<std::vector<int64_t>>;  // by rank

Result<Headers> gather_headers(comm::Communicator& communicator, const std::vector<int64_t>& mine) {
  GNN_ASSIGN_OR_RETURN(const auto gathered, communicator.all_gather(at::tensor(mine, at::kLong)));
  Headers headers;
  for (const at::Tensor& header : gathered) {
    const auto* begin = header.const_data_ptr<int64_t>();
    headers.emplace_back(begin, begin + header.numel());
  }
  return headers;
}

int64_t sum_of(const Headers& headers, size_t field) {
  int64_t sum = 0;
  for (const std::vector<int64_t>& header : headers) sum += header[field];
  return sum;
}

// The scores of all ranks, in their order. They travel as many as those of the rank with most.
Result<std::vector<float>> gather_scores(
    comm::Communicator& communicator, std::vector<float> mine, const Headers& headers, size_t field
) {
  if (communicator.world_size() == 1) return mine;
  int64_t most = 0;
  for (const std::vector<int64_t>& header : headers) most = std::max(most, header[field]);
  if (most == 0) return mine;
  mine.resize(static_cast<size_t>(most));
  GNN_ASSIGN_OR_RETURN(
      std::vector<at::Tensor> gathered,
      communicator.all_gather(at::from_blob(mine.data(), {most}, at::kFloat))
  );
  mine = {};
  std::vector<float> all;
  all.reserve(static_cast<size_t>(sum_of(headers, field)));
  for (size_t rank = 0; rank < gathered.size(); ++rank) {
    const auto* begin = gathered[rank].const_data_ptr<float>();
    all.insert(all.end(), begin, begin + headers[rank][field]);
    gathered[rank].reset();
  }
  return all;
}

// Takes the scores of one rank in, batch by batch.
class Collected {
 public:
  explicit Collected(const api::Evaluation& evaluation)
      : evaluation_(evaluation),
        metric_(metric_of(evaluation)),
        ranks_(evaluation.negatives.value_or(0)) {}

  void add(const LinkScores& scores) {
    check_shapes(scores, evaluation_);
    const std::vector<float> positive = values_of(scores.positive);
    const std::vector<float> negative = values_of(scores.negative);
    not_a_number_ += count_nan(positive) + count_nan(negative);
    num_positive_ += std::ssize(positive);
    num_negative_ += std::ssize(negative);
    if (metric_ == Metric::MRR) {
      ranks_.add(positive, negative);
    } else {
      append(positive_, positive);
      append(negative_, negative);
    }
  }

  // Collective.
  Result<Evaluated> measure(comm::Communicator& communicator, const StopToken& stop) && {
    GNN_ASSIGN_OR_RETURN(
        const Headers headers,
        gather_headers(
            communicator, {num_positive_, num_negative_, not_a_number_, stop.requested() ? 1 : 0}
        )
    );
    if (sum_of(headers, kStop) > 0) return Evaluated();
    const int64_t scores = sum_of(headers, kPositive) + sum_of(headers, kNegative);
    if (const int64_t bad = sum_of(headers, kNan); bad > 0) {
      return fail(
          ErrorKind::Configuration,
          std::to_string(bad) + " of the " + std::to_string(scores) +
              " scores of links are NaN; spec.training.optimizer.learningRate may be too high"
      );
    }
    const bool of_positives = metric_ == Metric::Hits || metric_ == Metric::MRR;
    Measure measure{
        .metric = link_metric_name(evaluation_),
        .count = of_positives ? sum_of(headers, kPositive) : scores
    };
    if (metric_ == Metric::MRR) {
      GNN_ASSIGN_OR_RETURN(measure.value, reciprocal_rank(communicator));
    } else {
      GNN_ASSIGN_OR_RETURN(measure.value, value_of_all(communicator, headers));
    }
    return measure;
  }

 private:
  Result<double> reciprocal_rank(comm::Communicator& communicator) {
    std::vector<int64_t>& counts = ranks_.counts();
    GNN_RETURN_IF_ERROR(
        communicator.all_reduce(at::from_blob(counts.data(), {std::ssize(counts)}, at::kLong))
    );
    return ranks_.mean_reciprocal_rank();
  }

  Result<double> value_of_all(comm::Communicator& communicator, const Headers& headers) {
    GNN_ASSIGN_OR_RETURN(
        std::vector<float> positive,
        gather_scores(communicator, std::move(positive_), headers, kPositive)
    );
    GNN_ASSIGN_OR_RETURN(
        std::vector<float> negative,
        gather_scores(communicator, std::move(negative_), headers, kNegative)
    );
    if (metric_ == Metric::Hits)
      return hits_at_k(positive, std::move(negative), evaluation_.hits_k.value_or(1));
    if (metric_ == Metric::AveragePrecision)
      return average_precision(std::move(positive), std::move(negative));
    return auc(std::move(positive), std::move(negative));
  }

  const api::Evaluation& evaluation_;
  Metric metric_;
  RankCounts ranks_;
  std::vector<float> positive_;
  std::vector<float> negative_;
  int64_t num_positive_ = 0;
  int64_t num_negative_ = 0;
  int64_t not_a_number_ = 0;
};

}  // namespace

LinkScores split_by_label(const at::Tensor& scores, const at::Tensor& labels) {
  TORCH_CHECK(
      scores.dim() == 1 && labels.sizes() == scores.sizes(),
      "scores of links: expected scores and labels [n], found ",
      scores.sizes(),
      " and ",
      labels.sizes()
  );
  const at::Tensor is_positive = labels.gt(0.5);
  return {
      .positive = scores.masked_select(is_positive),
      .negative = scores.masked_select(is_positive.logical_not()),
  };
}

std::string link_metric_name(const api::Evaluation& evaluation) {
  switch (metric_of(evaluation)) {
    case Metric::AUC:
      return std::string(progress::kAucMetric);
    case Metric::AveragePrecision:
      return std::string(progress::kAveragePrecisionMetric);
    case Metric::Hits:
      return "hits@" + std::to_string(evaluation.hits_k.value_or(1));
    case Metric::MRR:
      return std::string(progress::kMrrMetric);
    case Metric::Accuracy:
      break;
  }
  TORCH_CHECK(false, "accuracy is no metric of links");
}

Result<Evaluated> evaluate_links(
    const NextLinkScores& next,
    int64_t batches,
    const api::Evaluation& evaluation,
    comm::Communicator& communicator,
    const EvaluationContext& context
) {
  Collected collected(evaluation);
  const int64_t most = std::min(batches, context.max_batches.value_or(batches));
  for (int64_t batch = 0; batch < most && !context.stop.requested(); ++batch) {
    GNN_ASSIGN_OR_RETURN(const std::optional<LinkScores> scores, next());
    if (!scores) break;
    collected.add(*scores);
    context.progress.on_mark();
    context.progress.on_evaluation(
        {.done = batch + 1, .total = most, .unit = progress::EvaluationUnit::Batches}
    );
  }
  return std::move(collected).measure(communicator, context.stop);
}

}  // namespace gnn::training
