#include "controller/reconcile/refusals.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace gnn::reconcile {
namespace {

std::vector<ApiRefusal> refused(std::string message, TimePoint time) {
  return {
      {.kind = ApiRefusal::Kind::Forbidden,
       .object = "pod arxiv-1-0",
       .message = std::move(message),
       .time = time}
  };
}

TEST(Refusals, AreTheSameWheneverTheyHappened) {
  EXPECT_TRUE(same_refusals(refused("denied", at(1)), refused("denied", at(9))));
  EXPECT_FALSE(same_refusals(refused("denied", at(1)), refused("quota", at(1))));
  EXPECT_FALSE(same_refusals(refused("denied", at(1)), {}));
}

TEST(Refusals, AreReportedAtOnceAndThenPaced) {
  Observed observed = running();
  EXPECT_LE(plan(observed).requeue_if_refused.changed, std::chrono::milliseconds(10));
  observed.refusals = refused("denied", at(1));
  const Plan again = plan(observed);
  EXPECT_EQ(again.requeue_if_refused.changed, std::chrono::seconds(1));
  EXPECT_EQ(again.requeue_if_refused.repeated, observed.config.refusal_retry);
}

}  // namespace
}  // namespace gnn::reconcile
