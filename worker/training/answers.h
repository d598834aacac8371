#pragma once

#include "common/result.h"
#include "worker/comm/communicator.h"
#include "worker/report/run_record.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace gnn::training {

/// Above so many classes answers are not counted: all ranks add up classes² numbers.
inline constexpr int64_t kMaxCountedClasses = 1000;

/// Asks an evaluation of a classification to count answers by class, over all ranks.
struct AnswerRequest {
  int64_t classes = 0;  ///< of the data set, on every rank; 0: nothing is counted
  /// Which part they are about, where several are evaluated in one pass.
  std::optional<size_t> part{};
  std::function<void(const report::AnswerCounts&)> take{};  ///< called on every rank
};

/// Counts answers by class: this rank's, then those of all ranks.
class AnswerCounter {
 public:
  explicit AnswerCounter(const AnswerRequest& request) : request_(request) {}

  [[nodiscard]] bool counts() const { return request_.classes > 0; }
  /// Shapes: labels and answers int64 [K], on one device. Where either is negative, nothing is
  /// counted.
  void add(const at::Tensor& labels, const at::Tensor& answers);
  /// Gives what all ranks have counted to the request; does nothing if none are asked for. Collective.
  [[nodiscard]] Status finish(comm::Communicator& communicator) const;

 private:
  const AnswerRequest& request_;
  at::Tensor counts_;  // int64 [classes * classes] on the CPU, once there are some
};

}  // namespace gnn::training
