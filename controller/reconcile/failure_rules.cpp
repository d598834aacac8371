#include "controller/reconcile/failure_rules.h"

#include "common/api/enums.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::reconcile {
namespace {

bool matches(const api::FailureRule& rule, api::FailureRole role, const NodeFailure& failure) {
  if (rule.role.value_or(api::FailureRole::Worker) != role) return false;
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

// Whether the rule's role is unknown, or all of its reasons are, so that it looks like a rule for
// workers, or for any reason.
bool is_about_unknown_failures(const api::GnnJob& job, size_t rule) {
  const std::string path = "spec.runPolicy.failurePolicy.rules[" + std::to_string(rule) + "].";
  const bool no_reasons = job.spec.run_policy.failure_policy.rules[rule].reasons.empty();
  const auto& words = job.unknown_words;
  return std::any_of(words.begin(), words.end(), [&](const api::UnknownWord& each) {
    return each.path == path + "role" || (no_reasons && each.path.starts_with(path + "reasons["));
  });
}

}  // namespace

std::optional<size_t> find_rule(
    const api::GnnJob& job, api::FailureRole role, const NodeFailure& failure
) {
  const std::vector<api::FailureRule>& rules = job.spec.run_policy.failure_policy.rules;
  for (size_t i = 0; i < rules.size(); ++i) {
    if (matches(rules[i], role, failure) && !is_about_unknown_failures(job, i)) return i;
  }
  return std::nullopt;
}

}  // namespace gnn::reconcile
