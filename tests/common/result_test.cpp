#include "common/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace gnn {
namespace {

Result<int> parse(int value) {
  if (value < 0) return fail(ErrorKind::Data, "value: expected at least 0");
  return value;
}

Result<int> doubled(int value) {
  GNN_ASSIGN_OR_RETURN(const int parsed, parse(value));
  return 2 * parsed;
}

Status checked(int value) {
  GNN_RETURN_IF_ERROR(parse(value));
  return {};
}

Result<std::unique_ptr<int>> boxed(int value) {
  GNN_ASSIGN_OR_RETURN(auto parsed, parse(value));
  return std::make_unique<int>(parsed);
}

TEST(Result, MacrosPassValuesOnAndReturnErrors) {
  EXPECT_EQ(*doubled(4), 8);
  EXPECT_EQ(doubled(-1).error(), (Error{ErrorKind::Data, "value: expected at least 0"}));
  EXPECT_TRUE(checked(1).has_value());
  EXPECT_EQ(checked(-1).error().kind, ErrorKind::Data);
}

TEST(Result, CarriesMoveOnlyValues) {
  EXPECT_EQ(**boxed(3), 3);
}

TEST(Result, ContextGoesBeforeTheMessage) {
  EXPECT_EQ(
      with_context(Error{ErrorKind::Io, "no such file"}, "data/x.npy").message,
      "data/x.npy: no such file"
  );
}

TEST(ResultDeathTest, AssertSaysWhatCannotHappen) {
  EXPECT_DEATH(GNN_ASSERT(1 + 1 == 3, "numbers do not change"), "numbers do not change");
}

}  // namespace
}  // namespace gnn
