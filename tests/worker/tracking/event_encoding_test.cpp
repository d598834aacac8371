#include "worker/tracking/event_encoding.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>

namespace gnn::tracking {
namespace {

using namespace std::string_view_literals;

// 0x3FF8000000000000 as a double.
constexpr TimePoint kOneAndAHalf{std::chrono::milliseconds(1500)};

// As the Python package tensorboard writes them; tests/bench/peers/events.py reads whole files by it.
TEST(EventEncoding, HasTheBytesThatTensorBoardReads) {
  EXPECT_EQ(
      encode_file_version(kOneAndAHalf),
      "\x09\0\0\0\0\0\0\xF8\x3F\x1A\x0D"
      "brain.Event:2"sv
  );
  EXPECT_EQ(
      encode_event({.step = 300, .time = kOneAndAHalf, .start = true}),
      "\x09\0\0\0\0\0\0\xF8\x3F\x10\xAC\x02\x3A\x02\x08\x01"sv
  );
  EXPECT_EQ(
      encode_event({.step = 1, .time = kOneAndAHalf, .scalars = {{"a", 1.0}, {"b/c", -2.0}}}),
      "\x09\0\0\0\0\0\0\xF8\x3F\x10\x01\x2A\x16"
      "\x0A\x08\x0A\x01"
      "a\x15\0\0\x80\x3F"
      "\x0A\x0A\x0A\x03"
      "b/c\x15\0\0\0\xC0"sv
  );
  // Length, its checksum, the event, and its checksum.
  EXPECT_EQ(
      frame("a"),
      "\x01\0\0\0\0\0\0\0\x01\x75\xDE\x41"
      "a\x78\x6E\xE4\x28"sv
  );
}

}  // namespace
}  // namespace gnn::tracking
