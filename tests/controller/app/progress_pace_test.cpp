#include "controller/app/progress_pace.h"

#include <gtest/gtest.h>

#include <string>

namespace gnn::app {
namespace {

using namespace std::chrono_literals;

// The last answer that so many jobs of the namespace got.
Duration watch(ProgressPace& pace, const std::string& name_space, int jobs) {
  Duration interval{};
  for (int i = 0; i < jobs; ++i) interval = pace.watch({name_space, "j" + std::to_string(i)});
  return interval;
}

TEST(ProgressPace, AsksLessOftenTheMoreJobsANamespaceHas) {
  ProgressPace pace(5s);
  EXPECT_EQ(watch(pace, "a", 90), 5s);
  EXPECT_EQ(watch(pace, "a", 1000), 55s);
  for (int i = 90; i < 1000; ++i) pace.forget({"a", "j" + std::to_string(i)});
  EXPECT_EQ(pace.watch({"a", "j0"}), 5s);
}

TEST(ProgressPace, ManyJobsOfOneNamespaceSlowDownNoOther) {
  ProgressPace pace(5s);
  watch(pace, "a", 1000);
  EXPECT_EQ(watch(pace, "b", 1), 5s);
  EXPECT_EQ(watch(pace, "b", 40), 5s);
}

TEST(ProgressPace, ManyNamespacesTogetherAreBounded) {
  ProgressPace pace(5s);
  for (int i = 0; i < 500; ++i) watch(pace, "ns" + std::to_string(i), 2);
  EXPECT_EQ(pace.watch({"ns7", "j0"}), 55s);
}

TEST(ProgressPace, ASilentPodIsAskedLessAndLessOftenUntilItAnswers) {
  ProgressPace pace(5s);
  const objects::ObjectKey job{"a", "j"};
  EXPECT_EQ(pace.watch(job), 5s);
  for (const Duration expected : {10s, 20s, 30s, 30s, 30s}) EXPECT_EQ(pace.silent(job), expected);
  EXPECT_EQ(pace.watch(job), 30s);
  EXPECT_EQ(pace.answered(job), 5s);
}

}  // namespace
}  // namespace gnn::app
