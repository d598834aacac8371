#include "common/api/quantity.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace gnn::api {
namespace {

std::string as_kept(const std::string& text) {
  const auto quantity = Quantity::parse(text);
  return quantity ? quantity->text() : "none";
}

TEST(Quantity, IsReadAndKeptAsKubernetesDoes) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"0", "0"},
      {"0.000m", "0"},
      {"1", "1"},
      {"007", "7"},
      {"1500m", "1500m"},
      {"3000m", "3"},
      {".5", "500m"},
      {"2.", "2"},
      {"2000", "2k"},
      {"1e3", "1k"},
      {"1E-3", "1m"},
      {"1e+2", "100"},
      {"1E", "1E"},
      {"123456789n", "123456789n"},
      {"1.5Gi", "1536Mi"},
      {"1024Mi", "1Gi"},
      {"0.5Ki", "512"},
      {"0.0001Ki", "102400u"},
      {"1000Ki", "1000Ki"},
      {"512G", "512G"},
      // Finer than 10^-9: rounded up.
      {"0.1n", "1n"},
      {"1.0000000001", "1000000001n"},
      {"1e-999999999999", "1n"},
      {"0e999999999999", "0"},
      // More than 2^63 - 1: that much.
      {"9223372036854775807", "9223372036854775807"},
      {"9223372036854775808", "9223372036854775807"},
      {"16Ei", "9223372036854775807"},
      {"1e999999999999", "9223372036854775807"},
      {"1." + std::string(60, '0') + "Gi", "1Gi"},
      {std::string(62, '9'), "9223372036854775807"},
  };
  for (const auto& [text, kept] : cases) EXPECT_EQ(as_kept(text), kept) << text;
  for (const char* text :
       {"", ".", "m", "1.2.3", "-1", "+1", "1 ", "1K", "1mi", "1e", "1e1.5", "1e--1"}) {
    EXPECT_EQ(as_kept(text), "none") << text;
  }
}

TEST(Quantity, IsComparedByItsAmount) {
  const auto quantity = [](const char* text) { return *Quantity::parse(text); };
  EXPECT_EQ(quantity("1500m"), quantity("1.5"));
  EXPECT_EQ(quantity("1Ki"), quantity("1024"));
  EXPECT_LT(quantity("1G"), quantity("1Gi"));
  EXPECT_GT(quantity("1n"), quantity("0"));
}

TEST(Quantity, KnowsItsMultiples) {
  const auto quantity = [](const char* text) { return *Quantity::parse(text); };
  EXPECT_TRUE(quantity("4Mi").is_multiple_of(quantity("2Mi")));
  EXPECT_TRUE(quantity("0").is_multiple_of(quantity("2Mi")));
  EXPECT_TRUE(quantity("2000m").is_multiple_of(quantity("1")));
  EXPECT_FALSE(quantity("3Mi").is_multiple_of(quantity("2Mi")));
  EXPECT_FALSE(quantity("500m").is_multiple_of(quantity("1")));
}

}  // namespace
}  // namespace gnn::api
