#include "controller/reconcile/failure_rules.h"

#include "common/api/enums.h"

#include <algorithm>
#include <string_view>

namespace gnn::reconcile {
namespace {

bool matches(const api::FailureRule& rule, const NodeFailure& failure) {
  const auto& codes = rule.exit_codes;
  const auto& reasons = rule.reasons;
  const bool code_fits =
      codes.empty() || (failure.exit_code &&
                        std::find(codes.begin(), codes.end(), *failure.exit_code) != codes.end());
  const std::string_view reason = to_reason(failure.kind);
  const bool reason_fits =
      reasons.empty() || std::any_of(reasons.begin(), reasons.end(), [&](api::FailureReason each) {
        return api::to_string(each) == reason;
      });
  return code_fits && reason_fits;
}

}  // namespace

std::optional<size_t> find_rule(const api::FailurePolicy& policy, const NodeFailure& failure) {
  for (size_t i = 0; i < policy.rules.size(); ++i) {
    if (matches(policy.rules[i], failure)) return i;
  }
  return std::nullopt;
}

}  // namespace gnn::reconcile
