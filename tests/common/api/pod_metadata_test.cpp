#include "common/api/pod_metadata.h"

#include "tests/common/api/sample_job.h"

#include <gtest/gtest.h>

#include <string>

namespace gnn::api {
namespace {

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
