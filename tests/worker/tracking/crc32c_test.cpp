#include "worker/tracking/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace gnn::tracking {
namespace {

std::string ascending() {
  std::string bytes;
  for (char byte = 0; byte < 32; ++byte) bytes += byte;
  return bytes;
}

TEST(Crc32c, HasTheValuesOfRfc3720) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  std::string bytes = ascending();
  EXPECT_EQ(crc32c(bytes), 0x46DD794EU);
  std::reverse(bytes.begin(), bytes.end());
  EXPECT_EQ(crc32c(bytes), 0x113FDB5CU);
}

}  // namespace
}  // namespace gnn::tracking
