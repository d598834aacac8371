#include "common/api/yaml_scalar.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>

namespace gnn::api {
namespace {

using nlohmann::json;

TEST(PlainScalar, IsReadAsKubectlReadsIt) {
  // Named, since the loop does not keep what its range is made of.
  const json cases = json::parse(R"({
         "yes": true, "Off": false, "yEs": "yEs", "true": true, "~": null, "": null, "nuLL": "nuLL",
         "1": 1, "-7": -7, "+7": 7, "010": 8, "-010": -8, "08": 8, "0o17": 15, "0x1F": 31, "0b11": 3,
         "1_000": 1000, "_1": "_1", "1:30": "1:30", "2026-01-31": "2026-01-31", "v1.30": "v1.30",
         "1.5": 1.5, "3.0": 3, "1.": 1, ".5": 0.5, "-.5": -0.5, ".": ".", "-": "-", "1e2": 100,
         "1e+06": 1000000, "1e-2": 0.01, "1e400": "1e400", "1e-400": 0, "0x": "0x", "1e": "1e",
         "9223372036854775807": 9223372036854775807, "-9223372036854775808": -9223372036854775808
       })");
  for (const auto& [text, value] : cases.items()) {
    EXPECT_EQ(plain_scalar(text), value) << text;
    EXPECT_EQ(plain_scalar(text).is_number_integer(), value.is_number_integer()) << text;
  }
}

TEST(PlainScalar, OfYaml12HasNoOctalNumbersAndFewWordsForTrue) {
  const json cases = json::parse(R"({
         "yes": "yes", "off": "off", "true": true, "~": null, "010": 10, "0o17": 15, "0x1F": 31,
         "0b11": "0b11", "1_000": "1_000", "1e2": 100, ".5": 0.5
       })");
  for (const auto& [text, value] : cases.items()) {
    EXPECT_EQ(plain_scalar_of_yaml_1_2(text), value) << text;
  }
}

TEST(PlainScalar, MayBeANumberThatJsonDoesNotHave) {
  for (const char* text : {".inf", "-.inf", "+.INF", ".nan", ".NaN"}) {
    EXPECT_TRUE(is_no_json_number(text)) << text;
  }
  for (const char* text : {"inf", "-.nan", ".5", "nan"})
    EXPECT_FALSE(is_no_json_number(text)) << text;
}

}  // namespace
}  // namespace gnn::api
