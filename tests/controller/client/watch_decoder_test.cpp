#include "controller/client/watch_decoder.h"

#include "tests/support/mutations.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

namespace gnn::client {
namespace {

const std::string kStream =
    R"({"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"}}})"
    "\n"
    R"({"type":"MODIFIED","object":{"metadata":{"name":"grün ✓","resourceVersion":"2"}}})"
    "\r\n\n"
    R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"3"}}})"
    "\n"
    R"({"type":"SPARKLE","object":{}})"
    "\n"
    R"({"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"4"}}})"
    "\n";

std::string describe(const std::vector<WatchEvent>& events) {
  std::string text;
  for (const WatchEvent& event : events) {
    text += std::to_string(static_cast<int>(event.type)) + objects::dump_json(event.object) + "\n";
  }
  return text;
}

std::string whole() {
  WatchDecoder decoder;
  std::vector<WatchEvent> events;
  EXPECT_TRUE(decoder.feed(kStream, events));
  EXPECT_EQ(events.size(), 5U);
  return describe(events);
}

TEST(WatchDecoder, GivesTheSameEventsForEverySplitInTwo) {
  const std::string expected = whole();
  for (size_t cut = 0; cut <= kStream.size(); ++cut) {
    WatchDecoder decoder;
    std::vector<WatchEvent> events;
    ASSERT_TRUE(decoder.feed(std::string_view(kStream).substr(0, cut), events));
    ASSERT_TRUE(decoder.feed(std::string_view(kStream).substr(cut), events));
    ASSERT_EQ(describe(events), expected) << "cut at byte " << cut;
  }
}

RC_GTEST_PROP(WatchDecoder, GivesTheSameEventsForAnyChunks, ()) {
  static const std::string expected = whole();
  WatchDecoder decoder;
  std::vector<WatchEvent> events;
  std::string_view rest = kStream;
  while (!rest.empty()) {
    const size_t size = *rc::gen::inRange<size_t>(1, 40);
    RC_ASSERT(decoder.feed(rest.substr(0, size), events).has_value());
    rest.remove_prefix(std::min(size, rest.size()));
  }
  RC_ASSERT(describe(events) == expected);
}

TEST(WatchDecoder, ACutStreamGivesOnlyWholeEvents) {
  for (size_t cut = 0; cut < kStream.size(); ++cut) {
    WatchDecoder decoder;
    std::vector<WatchEvent> events;
    ASSERT_TRUE(decoder.feed(std::string_view(kStream).substr(0, cut), events));
    ASSERT_LE(events.size(), 4U);
  }
}

TEST(WatchDecoder, TooLongALineIsAnError) {
  WatchDecoder decoder({.line_bytes = 100});
  std::vector<WatchEvent> events;
  EXPECT_TRUE(decoder.feed(std::string(100, ' '), events));
  EXPECT_FALSE(decoder.feed(" ", events));
  EXPECT_FALSE(decoder.feed("\n", events));
}

TEST(WatchDecoder, AnEventAboveALimitTellsItsObjectAndBreaksNothing) {
  const std::string deep = R"({"type":"ADDED","object":{"spec":[[[[[[1]]]]]],"metadata":)"
                           R"({"name":"deep","namespace":"ns","labels":{"name":"x"}}}})";
  const std::string large =
      R"({"type":"DELETED","object":{"data":{"metadata":")" + std::string(900, 'x') +
      R"("},"items":[{"metadata":{"name":"y"}}],"metadata":{"annotations":{"name":"z"},)"
      R"("name":"large","namespace":"ns","resourceVersion":"7"}}})";
  WatchDecoder decoder({.event = {.max_bytes = 500, .max_depth = 6}});
  std::vector<WatchEvent> events;
  ASSERT_TRUE(decoder.feed(deep + "\n" + large + "\n" + kStream, events));
  ASSERT_EQ(events.size(), 7U);
  EXPECT_EQ(events[0].type, WatchEventType::Added);
  EXPECT_TRUE(events[0].unread);
  EXPECT_EQ(events[0].object["metadata"], objects::Json({{"name", "deep"}, {"namespace", "ns"}}));
  EXPECT_EQ(events[1].type, WatchEventType::Deleted);
  EXPECT_TRUE(events[1].unread);
  EXPECT_EQ(
      events[1].object,
      (objects::Json{
          {"metadata", {{"name", "large"}, {"namespace", "ns"}, {"resourceVersion", "7"}}}
      })
  );
  EXPECT_FALSE(events[2].unread);
}

TEST(WatchDecoder, WhatIsNoEventIsAnError) {
  for (const char* line : {"[]", "{}", "x", R"({"type":1,"object":{}})", R"({"type":"ADDED"})"}) {
    WatchDecoder decoder;
    std::vector<WatchEvent> events;
    EXPECT_FALSE(decoder.feed(std::string(line) + "\n", events)) << line;
    EXPECT_TRUE(events.empty());
  }
}

TEST(WatchDecoder, APlainStatusObjectIsAnErrorEvent) {
  WatchDecoder decoder;
  std::vector<WatchEvent> events;
  const std::string status =
      R"({"kind":"Status","status":"Failure","reason":"Expired","message":"old","code":410})";
  ASSERT_TRUE(decoder.feed(status + "\n", events));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].type, WatchEventType::Error);
  EXPECT_EQ(api_error_from_status(events[0].object, "watch").kind, ApiErrorKind::Gone);
}

// It must not crash, and a decoder that failed stays failed.
TEST(WatchDecoder, SurvivesMutatedStreams) {
  testing::Mutations mutations(7);
  for (int round = 0; round < testing::mutation_rounds(20'000); ++round) {
    const std::string stream = round % 10 == 0 ? std::string(kStream) : mutations.of(kStream);
    WatchDecoder decoder({.event = {.max_bytes = 60}, .line_bytes = 200});
    std::vector<WatchEvent> events;
    bool failed = false;
    std::string_view rest = stream;
    while (!rest.empty()) {
      const size_t size = 1 + mutations.below(50);
      const bool fed = decoder.feed(rest.substr(0, size), events).has_value();
      ASSERT_FALSE(failed && fed);
      failed = !fed;
      rest.remove_prefix(std::min(size, rest.size()));
    }
    for (const WatchEvent& event : events) {
      if (event.type == WatchEventType::Error) {
        static_cast<void>(api_error_from_status(event.object, "watch"));
      }
    }
  }
}

}  // namespace
}  // namespace gnn::client
