#include "controller/reconcile/failure_rules.h"

#include "common/api/enums.h"
#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace gnn::reconcile {
namespace {

using api::FailureAction;
using api::FailureReason;

// The plan for a gang whose node 0 ended with this code, under these rules.
Plan with_rules(std::vector<api::FailureRule> rules, int64_t exit_code) {
  Observed observed = running();
  observed.job.spec.run_policy.failure_policy.rules = std::move(rules);
  end_container(observed.pods[0], exit_code);
  return plan(observed);
}

TEST(FailureRules, FailTheJobByExitCode) {
  const std::vector<api::FailureRule> rules = {
      {.exit_codes = {3, 42}, .action = FailureAction::Fail}
  };
  const Plan failed = with_rules(rules, 42);
  EXPECT_TRUE(is_true(failed.status, condition::kFailed));
  EXPECT_EQ(reason_of(failed, condition::kFailed), reason::kError);
  EXPECT_NE(failed.status.message.find("failurePolicy.rules[0]"), std::string::npos);
  EXPECT_EQ(with_rules(rules, 41).status.attempt, 2);
}

TEST(FailureRules, RestartWithoutACharge) {
  const Plan result = with_rules({{.exit_codes = {42}, .charge = false}}, 42);
  EXPECT_EQ(result.status.attempt, 2);
  EXPECT_EQ(result.status.restarts, 0);
  EXPECT_EQ(result.status.backoff.free, 1);
}

TEST(FailureRules, ChargeWhatIsFreeByDefault) {
  Observed observed = running();
  observed.job.spec.run_policy.failure_policy.rules = {{.reasons = {FailureReason::Disrupted}}};
  observed.pods[0].status.phase = "Failed";
  observed.pods[0].status.reason = "Evicted";
  const Plan charged = plan(observed);
  EXPECT_EQ(charged.status.restarts, 1);
  observed.job.spec.run_policy.max_restarts = 0;
  EXPECT_EQ(reason_of(plan(observed), condition::kFailed), reason::kMaxRestartsExceeded);
}

TEST(FailureRules, RestartWhatIsFinalByDefault) {
  const Plan data = with_rules({{.reasons = {FailureReason::Data}}}, contract::kExitData);
  EXPECT_EQ(data.status.attempt, 2);
  EXPECT_EQ(data.status.restarts, 1);

  Observed again = running();
  again.job.spec.run_policy.failure_policy.rules = {{.reasons = {FailureReason::OutOfMemory}}};
  again.job.status.out_of_memory = 1;
  end_container(again.pods[0], contract::kExitOutOfMemory);
  EXPECT_EQ(plan(again).status.attempt, 2);
}

TEST(FailureRules, TheFirstThatMatchesDecides) {
  const std::vector<api::FailureRule> rules = {
      {.exit_codes = {1}, .reasons = {FailureReason::OutOfMemory}, .action = FailureAction::Fail},
      {.exit_codes = {1}, .charge = false},
      {.reasons = {FailureReason::Error}, .action = FailureAction::Fail},
  };
  EXPECT_EQ(with_rules(rules, 1).status.restarts, 0) << "codes and reasons must both match";
  EXPECT_TRUE(is_true(with_rules(rules, 2).status, condition::kFailed));
}

// As the codec reads them: what it does not know has the default, or is not in the list.
Plan with_unknown(api::FailureRule rule, const std::string& field, int64_t exit_code) {
  Observed observed = running();
  observed.job.spec.run_policy.failure_policy.rules = {
      {.exit_codes = {99}, .action = FailureAction::Fail}, std::move(rule)
  };
  observed.job.unknown_words = {
      {.path = "spec.runPolicy.failurePolicy.rules[1]." + field, .word = R"("New")"}
  };
  end_container(observed.pods[0], exit_code);
  return plan(observed);
}

TEST(FailureRules, AnUnknownActionDoesNotEndTheJob) {
  const Plan result =
      with_unknown({.reasons = {FailureReason::Data}}, "action", contract::kExitData);
  EXPECT_FALSE(is_true(result.status, condition::kFailed));
  EXPECT_EQ(result.status.attempt, 2);
}

TEST(FailureRules, AnUnknownReasonMatchesNoFailure) {
  const api::FailureRule rule{.exit_codes = {42}, .reasons = {}, .action = FailureAction::Fail};
  EXPECT_FALSE(is_true(with_unknown(rule, "reasons[0]", 42).status, condition::kFailed));
  EXPECT_TRUE(is_true(with_unknown(rule, "charge", 42).status, condition::kFailed))
      << "without reasons, the rule is for any";
}

TEST(FailureRules, NameEveryReasonOfAFailure) {
  std::set<std::string> words;
  for (const auto& [value, word] : api::EnumTable<FailureReason>::kWords) words.emplace(word);
  std::set<std::string> kinds;
  for (int kind = 0; kind <= static_cast<int>(FailureKind::NodeLost); ++kind) {
    kinds.emplace(to_reason(static_cast<FailureKind>(kind)));
  }
  EXPECT_EQ(words, kinds);
}

}  // namespace
}  // namespace gnn::reconcile
