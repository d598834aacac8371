#include "common/api/yaml.h"
#include "tests/support/control_plane.h"
#include "tests/support/must.h"
#include "tests/support/process.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <string>
#include <vector>

// What the pinned kubectl makes of YAML, and what we make of it.
namespace gnn::api {
namespace {

using nlohmann::json;
using testing::ControlPlane;
using testing::must;

testing::CommandOutput read_by_kubectl(const std::string& text) {
  return must(ControlPlane::shared().kubectl(
      {"create", "--dry-run=client", "--validate=false", "--output=json", "--filename=-"}, text
  ));
}

std::string config_map(const std::string& data) {
  return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n" + data;
}

// Both readings of the data of a ConfigMap.
void expect_same(const std::string& data) {
  const std::string text = config_map(data);
  const testing::CommandOutput theirs = read_by_kubectl(text);
  ASSERT_EQ(theirs.exit_code, 0) << data << theirs.errors;
  const auto ours = parse_yaml(text);
  ASSERT_TRUE(ours) << data << ours.error().message;
  const json expected = json::parse(theirs.output).at("data");
  for (const auto& [key, value] : expected.items()) {
    const json read = ours->front().at("data").value(key, json("none"));
    EXPECT_EQ(read, value) << data << key;
    // Beyond 64 bits both are floating-point, which kubectl writes with all its digits.
    constexpr double kMostInteger = 9.2e18;
    if (value.is_number() && std::abs(value.get<double>()) > kMostInteger) continue;
    EXPECT_EQ(read.is_number_integer(), value.is_number_integer()) << data << key;
  }
  EXPECT_EQ(ours->front().at("data").size(), expected.size());
}

TEST(KubectlYaml, ScalarsAreReadAlike) {
  std::string data;
  int number = 0;
  for (const char* scalar :
       {"010",
        "0o10",
        "0O10",
        "0x10",
        "0X1f",
        "0b11",
        "-010",
        "+0x10",
        "08",
        "019",
        "007",
        "00",
        "0",
        "-0",
        "+7",
        "1_000",
        "1__0",
        "_1",
        "0x_1",
        "1e2",
        "1E2",
        "1e+2",
        "1e-2",
        "1e6",
        "1e+06",
        "3.0",
        "1.",
        ".5",
        "+.5",
        "-.5",
        "._5",
        ".",
        "1.5",
        "1_0.5",
        "1e400",
        "1e-400",

        "+",
        "--1",
        "1:30",
        "190:20:30",
        "12:30:45",
        "~",
        "null",
        "Null",
        "NULL",
        "nuLL",
        "true",
        "True",
        "TRUE",
        "tRUE",
        "false",
        "False",
        "FALSE",
        "y",
        "Y",
        "n",
        "N",
        "yes",
        "Yes",
        "YES",
        "yEs",
        "no",
        "No",
        "NO",
        "on",
        "On",
        "ON",
        "oN",
        "off",
        "Off",
        "OFF",
        "'on'",
        "\"010\"",
        "!!str 010",
        "2026-01-31",
        "2026-01-31T12:00:00Z",
        "0x",
        "0o8",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "1e18",
        "1e19",
        "1e21",
        "NaN",
        "inf",
        "0.1",
        "12e",
        "1e",
        "0x1p4",
        "<<",
        "=",
        "1a",
        "v1.30",
        "1.2.3",
        "100m",
        "4Gi",
        "\"\""}) {
    data += "  k" + std::to_string(number++) + ": " + scalar + "\n";
  }
  expect_same(data);
}

TEST(KubectlYaml, KeysAreReadAlike) {
  for (const char* key :
       {"y", "on", "No", "010", "0x10", "1_000", "7", "'y'", "1:30", "yEs", "08"}) {
    expect_same("  " + std::string(key) + ": a\n");
  }
}

TEST(KubectlYaml, MapsAreMergedAlike) {
  expect_same(
      "  a: &a {x: 1, z: 2}\n  b: &b {x: 3, w: 4}\n  c: {<<: *a, x: 5}\n  d: {<<: [*a, *b], v: 6}\n"
      "  e:\n    <<: *b\n    <<: *a\n"
  );
}

// What one of the two refuses and the other reads.
TEST(KubectlYaml, WhatIsRefusedIsNamed) {
  for (const char* data : {"  a: .inf\n", "  a: .nan\n", "  ~: a\n"}) {
    EXPECT_NE(read_by_kubectl(config_map(data)).exit_code, 0) << data;
  }
  for (const char* data :
       {"  ~: a\n", "  a: {x: 1, <<: {x: 2}}\n", "  a: 1\n  a: 2\n", "  1.5: a\n"}) {
    const auto ours = parse_yaml(config_map(data));
    ASSERT_FALSE(ours) << data;
    EXPECT_NE(ours.error().message.find("line "), std::string::npos) << ours.error().message;
  }
}

}  // namespace
}  // namespace gnn::api
