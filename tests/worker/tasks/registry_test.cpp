#include "worker/tasks/registry.h"

#include <gtest/gtest.h>

namespace gnn::tasks {
namespace {

TEST(Registry, RefusesAJobWithEveryErrorOfItsSpec) {
  api::GnnJob job;  // has neither a data set's path nor a model's options
  const auto task = parse_task(job);
  ASSERT_FALSE(task.has_value());
  EXPECT_FALSE(task.error().empty());
  EXPECT_EQ(task.error().size(), api::validate(job).size());
}

TEST(Registry, JoinsErrorsIntoOne) {
  const Error error = to_error(
      {{.path = "spec.a", .message = "must be 1"}, {.path = "spec.b", .message = "must be 2"}}
  );
  EXPECT_EQ(error.kind, ErrorKind::Configuration);
  EXPECT_EQ(error.message, "spec.a: must be 1; spec.b: must be 2");
}

}  // namespace
}  // namespace gnn::tasks
