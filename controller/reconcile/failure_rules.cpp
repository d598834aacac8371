#include "controller/reconcile/failure_rules.h"

#include "common/api/enums.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

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

// Whether all of the rule's reasons are unknown, so that its list looks like that of a rule for any.
bool has_only_unknown_reasons(const api::GnnJob& job, size_t rule) {
  if (!job.spec.run_policy.failure_policy.rules[rule].reasons.empty()) return false;
  const std::string reasons =
      "spec.runPolicy.failurePolicy.rules[" + std::to_string(rule) + "].reasons[";
  const auto& words = job.unknown_words;
  return std::any_of(words.begin(), words.end(), [&](const api::UnknownWord& each) {
    return each.path.starts_with(reasons);
  });
}

}  // namespace

std::optional<size_t> find_rule(const api::GnnJob& job, const NodeFailure& failure) {
  const std::vector<api::FailureRule>& rules = job.spec.run_policy.failure_policy.rules;
  for (size_t i = 0; i < rules.size(); ++i) {
    if (matches(rules[i], failure) && !has_only_unknown_reasons(job, i)) return i;
  }
  return std::nullopt;
}

}  // namespace gnn::reconcile
