#include "controller/objects/json.h"

#include <gtest/gtest.h>

#include <string>

namespace gnn::objects {
namespace {

std::string nested(int depth) {
  return std::string(static_cast<size_t>(depth), '[') +
         std::string(static_cast<size_t>(depth), ']');
}

TEST(ParseJson, RefusesDeepNestingBeforeBuildingIt) {
  EXPECT_TRUE(parse_json(nested(64)));
  const auto refused = parse_json(nested(65));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("64 levels"), std::string::npos);
  // Deep enough to overflow the stack of a recursive destructor.
  EXPECT_FALSE(parse_json(nested(1'000'000)));
}

TEST(ParseJson, BracketsInsideStringsAreNoDepth) {
  EXPECT_TRUE(parse_json(R"({"a": ")" + std::string(500, '[') + R"(\"[[{{"})"));
}

TEST(ParseJson, RefusesTextOverTheSizeCap) {
  const JsonLimits limits{.max_bytes = 10};
  EXPECT_TRUE(parse_json("\"12345678\"", limits));
  EXPECT_FALSE(parse_json("\"123456789\"", limits));
}

TEST(ParseJson, InvalidTextIsAnErrorNotAnException) {
  for (const char* text : {"", "{", "{]", "nul", "\"\xff\"", "1e999999", "[1,]"}) {
    EXPECT_FALSE(parse_json(text)) << text;
  }
}

TEST(ParseObject, LeavesOutWhatIsNeverReadOfAnObjectAndOfAnEvent) {
  const std::string pod =
      R"({"kind": "Pod", "metadata": {"managedFields": [{"a": [{}]}], "name": "n"},)"
      R"( "spec": {"containers": [{"env": [1, {"spec": {"volumes": 2}}]}], "nodeName": "m",)"
      R"( "volumes": null, "list": [[1, 2], {"b": [true, -1, 0.5, null]}]}})";
  const Json kept =
      Json::parse(R"({"kind": "Pod", "metadata": {"name": "n"},)"
                  R"( "spec": {"nodeName": "m", "list": [[1, 2], {"b": [true, -1, 0.5, null]}]}})");
  EXPECT_EQ(parse_object(pod), kept);
  EXPECT_EQ(
      parse_object(R"({"type": "ADDED", "object": )" + pod + "}"),
      (Json{{"type", "ADDED"}, {"object", kept}})
  );
}

TEST(ParseObject, KeepsMembersOfThoseNamesElsewhere) {
  for (const char* text : {
           R"({"data": {"managedFields": "x", "containers": [1]}, "volumes": [], "spec": 1})",
           R"({"spec": {"template": {"spec": {"containers": [1]}}, "metadata": 1}})",
           R"([{"managedFields": 1}, {"metadata": [{"managedFields": 2}]}])",
           R"({"metadata": {"labels": {"gnn.dev/job": "x"}}, "spec": [{"containers": 1}]})",
           R"({"spec": {"a": {"metadata": {"labels": {"x": "y"}}}}})",
           R"({"spec": {"metadata": {"annotations": {"x": "y"}}}})",
           "[]",
           "3",
           "null",
       }) {
    EXPECT_EQ(parse_object(text), Json::parse(text)) << text;
  }
}

TEST(ParseObject, LeavesOutLabelsAndAnnotationsOfOthers) {
  const std::string object = R"({"metadata": {"labels": {"a": "1", "gnn.dev/job": "j"},)"
                             R"( "annotations": {"b": "2", "kueue.x-k8s.io/x": "3"}}})";
  const Json kept = Json::parse(
      R"({"metadata": {"labels": {"gnn.dev/job": "j"}, "annotations": {"kueue.x-k8s.io/x": "3"}}})"
  );
  EXPECT_EQ(parse_object(object), kept);
  EXPECT_EQ(
      parse_object(R"({"type": "ADDED", "object": )" + object + "}"),
      (Json{{"type", "ADDED"}, {"object", kept}})
  );
}

// A value takes a hundred bytes, however short its text is.
TEST(ParseObject, RefusesMoreValuesThanTheLimitOfWhatIsKept) {
  const std::string list = R"({"status": [1,2,3,4], "spec": {"containers": [1,2,3,4,5,6,7]}})";
  EXPECT_TRUE(parse_object(list, {.max_values = 7}));
  const auto refused = parse_object(list, {.max_values = 6});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "expected JSON of at most 6 values, found more");
  EXPECT_TRUE(parse_json("[1,2]", {.max_values = 3}));
  EXPECT_FALSE(parse_json("[1,2]", {.max_values = 2}));
  EXPECT_FALSE(parse_json(R"({"a": {}})", {.max_values = 1}));
}

TEST(ParseObject, HasTheLimitsAndErrorsOfParseJson) {
  EXPECT_FALSE(parse_object(nested(65)));
  EXPECT_FALSE(parse_object("\"123456789\"", {.max_bytes = 10}));
  for (const char* text : {"", "{", "{]", "nul", "\"\xff\"", "1e999999", "[1,]", "{\"a\":1}}"}) {
    EXPECT_FALSE(parse_object(text)) << text;
  }
}

TEST(DumpJson, ReplacesWhatIsNoUtf8) {
  EXPECT_EQ(dump_json(Json("a\xffz")), "\"a\xef\xbf\xbdz\"");
}

TEST(ObjectReader, ErrorsCarryThePathAndWhatWasFound) {
  const Json json = Json::parse(R"({"list": ["x", 3]})");
  ObjectReader reader(json, "spec");
  std::vector<std::string> list;
  reader.read("list", list);
  ASSERT_FALSE(reader.status());
  EXPECT_EQ(reader.status().error().message, "spec.list[1]: expected a string, found number");
}

TEST(ObjectReader, FirstErrorWinsAndLaterReadsAreSkipped) {
  const Json json = Json::parse(R"({"a": 1, "b": "text"})");
  ObjectReader reader(json, "");
  std::string a;
  std::string b = "untouched";
  reader.read("a", a);
  reader.read("b", b);
  EXPECT_EQ(reader.status().error().message, "a: expected a string, found number");
  EXPECT_EQ(b, "untouched");
}

TEST(ObjectReader, NullAndAbsentAreAbsent) {
  const Json json = Json::parse(R"({"a": null})");
  ObjectReader reader(json, "");
  std::optional<int64_t> a;
  int64_t b = 7;
  reader.read("a", a);
  reader.read("b", b);
  EXPECT_TRUE(reader.status());
  EXPECT_FALSE(a);
  EXPECT_EQ(b, 7);
}

TEST(ObjectReader, IntegersOutsideInt64AreRefused) {
  const Json json = Json::parse(R"({"n": 18446744073709551615})");
  ObjectReader reader(json, "");
  int64_t n = 0;
  reader.read("n", n);
  EXPECT_FALSE(reader.status());
}

}  // namespace
}  // namespace gnn::objects
