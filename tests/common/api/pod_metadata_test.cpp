#include "common/api/pod_metadata.h"

#include "common/api/yaml.h"
#include "tests/common/api/sample_job.h"
#include "tests/support/must.h"
#include "tests/support/read_file.h"
#include "tests/support/source_dir.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <regex>
#include <string>
#include <vector>

namespace gnn::api {
namespace {

using nlohmann::json;

std::string of_chart(const std::string& file) {
  return testing::read_file(gnn::testing::source_dir() + "/charts/gnn-operator/" + file);
}

TEST(PodMetadata, KeysAreThoseOfTheApiServer) {
  const std::string long_name(63, 'n');
  for (const std::string& key :
       {std::string("team"), "a.b/" + long_name, std::string("x-1.example.com/A_b.C-9")}) {
    EXPECT_TRUE(is_qualified_key(key)) << key;
  }
  for (const std::string& key :
       {std::string(),
        std::string("/team"),
        std::string("example.com/"),
        std::string("a/b/c"),
        std::string("a..b/c"),
        std::string("a.-b/c"),
        std::string("Example.com/team"),
        std::string("team-"),
        std::string("tëam"),
        long_name + "n",
        std::string(254, 'p') + "/team"}) {
    EXPECT_FALSE(is_qualified_key(key)) << key;
  }
}

TEST(PodMetadata, AnAdministratorListsKeysAndPrefixes) {
  const auto allowed = AllowedKeys::parse("team, example.com/*,app.kubernetes.io/*");
  ASSERT_TRUE(allowed) << allowed.error().message;
  for (const char* key : {"team", "example.com/cost", "app.kubernetes.io/part-of"}) {
    EXPECT_TRUE(allowed->contains(key)) << key;
  }
  for (const char* key :
       {"app",
        "team/x",
        "x.example.com/cost",
        "karpenter.sh/do-not-disrupt",
        "app.kubernetes.io/name"}) {
    EXPECT_FALSE(allowed->contains(key)) << key;
  }
  EXPECT_FALSE(AllowedKeys::parse("")->contains("sidecar.istio.io/inject"));
  for (const char* list :
       {"*", "a b", "team,,app", "gnn.dev/*", "x.gnn.dev/y", "app.kubernetes.io/component"}) {
    EXPECT_FALSE(AllowedKeys::parse(list)) << list;
  }
}

TEST(PodMetadata, WhatOnlyLooksLikeAnAllowedKeyIsRefused) {
  const auto allowed = testing::must(AllowedKeys::parse("example.com/*,team,evil-gnn.dev/x"));
  EXPECT_TRUE(allowed.contains("evil-gnn.dev/x")) << "another domain";
  for (const char* key :
       {"Team",
        "team.",
        "team/",
        "tëam",
        "te\u200bam",  // a space of no width
        "Example.com/x",
        "EXAMPLE.COM/x",
        "example.com./x",
        "example.com",
        "example.com.evil/x",
        "evil-example.com/x",
        "еxample.com/x",  // a Cyrillic e
        "evil-gnn.dev/y",
        "gnn.dev/node",
        "sub.gnn.dev/x",
        "k8s.io",
        "k8s.io/x",
        "foo.k8s.io.evil/x",
        "karpenter.sh/do-not-disrupt.",
        "karpenter.sh"}) {
    EXPECT_FALSE(allowed.contains(key)) << key;
  }
}

TEST(PodMetadata, OperatorsOwnKeysCannotBeAllowed) {
  for (const char* key :
       {"gnn.dev/node",
        "gnn.dev/*",
        "sub.gnn.dev/x",
        "a.sub.gnn.dev/*",
        "app.kubernetes.io/name",
        "app.kubernetes.io/instance",
        "app.kubernetes.io/component",
        "app.kubernetes.io/managed-by"}) {
    const auto parsed = AllowedKeys::parse(key);
    ASSERT_FALSE(parsed) << key;
    EXPECT_NE(parsed.error().message.find("operator's own"), std::string::npos) << key;
    // Nor by all of their prefix.
    EXPECT_FALSE(testing::must(AllowedKeys::parse("app.kubernetes.io/*")).contains(key)) << key;
  }
}

// A list that the chart takes and the controller refuses would keep it from starting.
TEST(PodMetadata, TheChartTakesTheKeysThatTheControllerTakes) {
  const json schema = json::parse(of_chart("values.schema.json"));
  const json items = schema["properties"]["jobs"]["properties"]["podMetadata"]["properties"]
                           ["allowedKeys"]["items"];
  const auto chart_takes = [&](const std::string& entry) {
    const auto fits = [&](const json& pattern) {
      return std::regex_search(entry, std::regex(pattern.get<std::string>()));
    };
    return entry.size() <= items["maxLength"] && fits(items["pattern"]) &&
           !fits(items["not"]["pattern"]);
  };
  const std::string longest(63, 'n');
  for (const std::string& entry : std::vector<std::string>{
           "team",
           "A_b.C-9",
           "example.com/team",
           "example.com/*",
           "a.b/" + longest,
           "a.b/" + longest + "n",
           longest + "n",
           "evil-gnn.dev/*",
           "gnn.dev.example.com/*",
           "gnn.dev",
           "gnn.dev/*",
           "gnn.dev/node",
           "sub.gnn.dev/x",
           "app.kubernetes.io/*",
           "app.kubernetes.io/part-of",
           "app.kubernetes.io/name",
           "app.kubernetes.io/instance",
           "app.kubernetes.io/component",
           "app.kubernetes.io/managed-by",
           "app.kubernetes.io/managed-by-me",
           "*",
           "*/x",
           "/x",
           "a/b/c",
           "a..b/c",
           "a.-b/c",
           "example.com/",
           "example.com/te*",
           "Example.com/team",
           "team-",
           "tëam",
           std::string(317, 'p') + "/team",
       }) {
    EXPECT_EQ(chart_takes(entry), AllowedKeys::parse(entry).has_value()) << entry;
  }
  const json values = testing::must(parse_yaml(of_chart("values.yaml"))).front();
  std::string defaults;
  for (const std::string entry : values["jobs"]["podMetadata"]["allowedKeys"]) {
    defaults += (defaults.empty() ? "" : ",") + entry;
  }
  EXPECT_EQ(defaults, kDefaultAllowedKeys);
}

TEST(PodMetadata, IsLookedAtInEveryTemplateAndMap) {
  for (const bool of_servers : {false, true}) {
    for (const bool labels : {false, true}) {
      GnnJobSpec spec = sample_served_job().spec;
      PodTemplate& pod = of_servers ? *spec.servers->pod_template : *spec.workers.pod_template;
      pod.metadata.emplace();
      auto& entries = labels ? pod.metadata->labels : pod.metadata->annotations;
      entries = {{"karpenter.sh/do-not-disrupt", "true"}};
      EXPECT_TRUE(check_pod_metadata(spec, {}));
      entries["app"] = "web";
      const Status refused = check_pod_metadata(spec, {});
      ASSERT_FALSE(refused);
      const std::string path = std::string(of_servers ? "spec.servers" : "spec.workers") +
                               ".template.metadata." + (labels ? "labels" : "annotations") +
                               R"(["app"]: )";
      EXPECT_TRUE(refused.error().message.starts_with(path)) << refused.error().message;
    }
  }
}

TEST(PodMetadata, NamesTheKeyThatIsNotAllowedAndTheValueOfTheChart) {
  GnnJobSpec spec = sample_served_job().spec;
  spec.workers.pod_template->metadata = {
      .labels = {{"sidecar.istio.io/inject", "true"}},
      .annotations =
          {{"cluster-autoscaler.kubernetes.io/safe-to-evict", "false"},
           {"karpenter.sh/do-not-disrupt", "true"}}
  };
  EXPECT_TRUE(check_pod_metadata(spec, {}));
  spec.servers->pod_template->metadata = {.annotations = {{"io.katacontainers.config.x", "1"}}};
  const Status refused = check_pod_metadata(spec, {});
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().message.starts_with(
      R"(spec.servers.template.metadata.annotations["io.katacontainers.config.x"]: )"
  )) << refused.error().message;
  EXPECT_NE(refused.error().message.find("jobs.podMetadata.allowedKeys"), std::string::npos);
}

}  // namespace
}  // namespace gnn::api
