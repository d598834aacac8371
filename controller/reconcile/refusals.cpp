#include "controller/reconcile/refusals.h"

#include "common/contract.h"
#include "controller/reconcile/conditions.h"

#include <algorithm>

namespace gnn::reconcile {

bool same_refusals(const std::vector<ApiRefusal>& a, const std::vector<ApiRefusal>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.kind == y.kind && x.object == y.object && x.message == y.message;
  });
}

std::string_view reason_of(ApiRefusal::Kind kind) {
  switch (kind) {
    case ApiRefusal::Kind::Quota:
      return reason::kQuotaExceeded;
    case ApiRefusal::Kind::NameTaken:
      return reason::kNameTaken;
    case ApiRefusal::Kind::Failing:
      return reason::kCreateFailed;
    case ApiRefusal::Kind::Forbidden:
    case ApiRefusal::Kind::Invalid:
      return reason::kRefused;
  }
  return reason::kRefused;
}

std::string message_of(const ApiRefusal& refusal) {
  switch (refusal.kind) {
    case ApiRefusal::Kind::NameTaken:
      return refusal.message;
    case ApiRefusal::Kind::Failing:
      return "Cannot create " + refusal.object + ": " + refusal.message;
    case ApiRefusal::Kind::Quota:
    case ApiRefusal::Kind::Forbidden:
    case ApiRefusal::Kind::Invalid:
      break;
  }
  return "The API server refused " + refusal.object + ": " + refusal.message;
}

bool is_of_server(const api::GnnJob& job, const ApiRefusal& refusal, int64_t first) {
  constexpr std::string_view kPod = "pod ";
  const std::string_view object = refusal.object;
  if (!object.starts_with(kPod)) return false;
  const auto numbers =
      contract::numbers_of_server_pod(job.metadata.name, object.substr(kPod.size()));
  return numbers && numbers->server >= first;
}

}  // namespace gnn::reconcile
