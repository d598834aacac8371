#pragma once

#include "common/api/gnn_job.h"
#include "common/clock.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::reconcile {

/// A write that the API server refused: quota, admission, Pod Security, validation, or a name that
/// another object holds. Also a create that has failed for some time for any other reason.
struct ApiRefusal {
  enum class Kind {
    Quota,      ///< 403 whose text says "exceeded quota"
    Forbidden,  ///< any other 403
    Invalid,    ///< 422 and 400
    NameTaken,  ///< 409 AlreadyExists, and the existing object is not owned by this job
    Failing,    ///< any other error, for some time: 404, 413, 5xx
  };
  Kind kind = Kind::Forbidden;
  std::string object;   ///< e.g. "pod arxiv-1-0"
  std::string message;  ///< the API server's text, or the client's
  TimePoint time{};     ///< when it was refused
  friend bool operator==(const ApiRefusal&, const ApiRefusal&) = default;
};

/// Whether the same writes were refused for the same reasons, whenever that was.
[[nodiscard]] bool same_refusals(
    const std::vector<ApiRefusal>& a, const std::vector<ApiRefusal>& b
);

/// The condition reason for a refusal.
[[nodiscard]] std::string_view reason_of(ApiRefusal::Kind kind);
/// The refusal in a sentence.
[[nodiscard]] std::string message_of(const ApiRefusal& refusal);

/// Whether a pod of one of the job's servers was refused, with a number of at least `first`.
[[nodiscard]] bool is_of_server(
    const api::GnnJob& job, const ApiRefusal& refusal, int64_t first = 0
);

}  // namespace gnn::reconcile
