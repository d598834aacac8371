#include "controller/objects/meta.h"

#include "common/rfc3339.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace gnn::objects {
namespace {

TEST(Time, ReadsWhatTheApiServerWrites) {
  const TimePoint base(std::chrono::seconds(1'767'323'045));
  EXPECT_EQ(parse_time("2026-01-02T03:04:05Z").value(), base);
  EXPECT_EQ(
      parse_time("2026-01-02T03:04:05.678901Z").value(), base + std::chrono::microseconds(678'901)
  );
  EXPECT_EQ(
      parse_time("2026-01-02T03:04:05.123456789123Z").value(),
      base + std::chrono::nanoseconds(123'456'789)
  );
  EXPECT_EQ(parse_time("2026-01-02T05:04:05+02:00").value(), base);
  EXPECT_EQ(parse_time("2026-01-01T22:34:05-04:30").value(), base);
}

TEST(Time, RefusesWhatIsNoTime) {
  for (const char* text :
       {"",
        "2026-01-02",
        "2026-13-02T03:04:05Z",
        "2026-02-30T03:04:05Z",
        "2026-01-02T24:04:05Z",
        "2026-01-02T03:04:05",
        "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04:05Zx"}) {
    EXPECT_FALSE(parse_time(text)) << text;
  }
}

RC_GTEST_PROP(Time, FormatsRoundTrip, ()) {
  // From 1906 to 2128.
  const auto micros = *rc::gen::inRange<int64_t>(-2'000'000'000'000'000, 5'000'000'000'000'000);
  const TimePoint time{std::chrono::microseconds(micros)};
  RC_ASSERT(parse_time(format_rfc3339_micro(time)).value() == time);
  RC_ASSERT(
      parse_time(format_rfc3339(time)).value() == std::chrono::floor<std::chrono::seconds>(time)
  );
}

TEST(Meta, ReadsOwnersAndFindsTheController) {
  const Json json = Json::parse(R"({
    "name": "x", "namespace": "ns", "uid": "u", "resourceVersion": "12", "generation": 3,
    "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": null,
    "ownerReferences": [
      {"apiVersion": "v1", "kind": "Other", "name": "a", "uid": "1"},
      {"apiVersion": "gnn.dev/v1alpha1", "kind": "GNNJob", "name": "b", "uid": "2", "controller": true}
    ]})");
  const ObjectMeta meta = decode_meta(json, "metadata").value();
  ASSERT_NE(controller_of(meta), nullptr);
  EXPECT_EQ(controller_of(meta)->uid, "2");
  EXPECT_FALSE(meta.deletion_timestamp);
  EXPECT_EQ(to_string(key_of(meta)), "ns/x");
  EXPECT_EQ(decode_meta(encode(meta), "").value().owner_references, meta.owner_references);
}

TEST(Meta, KeepsOnlyWhatIsRead) {
  const Json json = Json::parse(R"({
    "name": "x", "annotations": {"a": "b"},
    "labels": {"gnn.dev/job": "j", "gnn.dev/server": "1", "gnn.dev/more": "m", "other": "o"},
    "finalizers": ["one/more", "gnn.dev/result", "other"],
    "ownerReferences": [{"uid": "1"}, {"uid": "2", "controller": true}]})");
  const ObjectMeta meta = decode_meta(json, "metadata").value();
  const std::map<std::string, std::string> ours = {{"gnn.dev/job", "j"}, {"gnn.dev/server", "1"}};
  EXPECT_EQ(meta.labels, ours);
  EXPECT_EQ(meta.finalizers, (std::vector<std::string>{"one/more", "gnn.dev/result"}))
      << "its own, and a name for those of others";
  ASSERT_EQ(meta.owner_references.size(), 1U);
  EXPECT_EQ(meta.owner_references[0].uid, "2");
}

TEST(Meta, AnObjectWithoutANameIsRefused) {
  EXPECT_EQ(
      decode_meta(Json::object(), "metadata").error().message,
      "metadata.name: expected a value, found none"
  );
}

}  // namespace
}  // namespace gnn::objects
