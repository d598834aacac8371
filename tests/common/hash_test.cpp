#include "common/hash.h"

#include <gtest/gtest.h>

#include <array>

namespace gnn {
namespace {

// Landon Curt Noll's test vectors.
TEST(Fnv1a, GivesThePublishedValues) {
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325U);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8U);
}

TEST(Fnv1a, GoesOnFromAnEarlierHashAndReadsBytesAsText) {
  EXPECT_EQ(fnv1a("bar", fnv1a("foo")), fnv1a("foobar"));
  const std::array<unsigned char, 3> bytes{0xff, 0x00, 0x7f};
  EXPECT_EQ(fnv1a(std::as_bytes(std::span(bytes))), fnv1a(std::string_view("\xff\0\x7f", 3)));
}

// The first numbers of Vigna's splitmix64.c, seeded with 1234567.
TEST(SplitMix64, GivesThePublishedSequence) {
  EXPECT_EQ(splitmix64(1234567, 0), 6457827717110365317U);
  EXPECT_EQ(splitmix64(1234567, 1), 3203168211198807973U);
  EXPECT_EQ(splitmix64(1234567, 2), 9817491932198370423U);
}

}  // namespace
}  // namespace gnn
