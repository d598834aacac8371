#include "controller/app/group_apis.h"

#include "tests/support/fake_clock.h"
#include "tests/support/fake_transport.h"

#include <gtest/gtest.h>

#include <vector>

namespace gnn::app {
namespace {

using objects::GroupApi;

constexpr const char* kDiscovery = R"({"kind": "APIGroupDiscoveryList", "items": [
  {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": [{"resource": "deployments"}]}]},
  {"metadata": {"name": "scheduling.k8s.io"}, "versions": [
    {"version": "v1", "resources": [{"resource": "priorityclasses"}]},
    {"version": "v1beta1", "resources": [{"resource": "workloads"}, {"resource": "podgroups"}]}]},
  {"metadata": {"name": "scheduling.x-k8s.io"}, "versions": [
    {"version": "v1alpha1", "resources": [{"resource": "elasticquotas"}]},
    {"version": "v1alpha2", "resources": [{"resource": "podgroups"}]}]},
  {"metadata": {"name": "scheduling.volcano.sh"}, "versions": [
    {"version": "v1beta1", "resources": [{"resource": "queues"}, {"resource": "podgroups"}]}]},
  {}, [], {"metadata": 1, "versions": [1, {"resources": [{}]}]}
]})";

class GroupApisTest : public ::testing::Test {
 protected:
  gnn::testing::FakeClock clock_;
  gnn::testing::FakeTransport transport_;
  MetricsRegistry metrics_;
  client::TokenSource tokens_{client::KubeConfig{}, clock_};
  client::ApiClient api_{transport_, tokens_, clock_, metrics_};
};

TEST_F(GroupApisTest, AreThoseThatAreServedInTheRightVersionAndMayBeUsed) {
  GroupApis apis(api_, {GroupApi::Coscheduling, GroupApi::Volcano});
  EXPECT_FALSE(apis.served());
  transport_.reply(500, "{}").reply(200, kDiscovery);
  EXPECT_FALSE(apis.discover());
  EXPECT_FALSE(apis.served());
  EXPECT_TRUE(apis.discover());
  EXPECT_EQ(apis.served(), std::vector<GroupApi>{GroupApi::Volcano});
  const client::HttpRequest request = transport_.requests().back();
  EXPECT_EQ(request.path, "/apis");
  EXPECT_NE(request.accept.find("as=APIGroupDiscoveryList"), std::string::npos);
  EXPECT_EQ(
      group_apis_in(objects::parse_json(kDiscovery).value()),
      (std::vector<GroupApi>{GroupApi::Native, GroupApi::Volcano})
  );
}

TEST_F(GroupApisTest, AreNotAskedForIfNoneMayBeUsed) {
  GroupApis apis(api_, {});
  EXPECT_TRUE(apis.discover());
  EXPECT_TRUE(apis.served()->empty());
  EXPECT_TRUE(transport_.requests().empty());
}

TEST_F(GroupApisTest, TakeKueueInItsBestVersionThatIsServed) {
  const auto served = [](const std::string& versions) {
    return R"({"items": [{"metadata": {"name": "kueue.x-k8s.io"}, "versions": [)" + versions +
           "]}]}";
  };
  const std::string older = R"({"version": "v1beta1", "resources": [{"resource": "workloads"}]})";
  const std::string newer = R"({"version": "v1beta2", "resources": [{"resource": "workloads"}]})";
  GroupApis allowed(api_, {}, true);
  transport_.reply(200, served(older))
      .reply(200, served(older + ", " + newer))
      .reply(200, kDiscovery);
  EXPECT_TRUE(allowed.discover());
  EXPECT_EQ(allowed.kueue(), objects::KueueVersion::V1Beta1);
  EXPECT_TRUE(allowed.discover());
  EXPECT_EQ(allowed.kueue(), objects::KueueVersion::V1Beta2);
  EXPECT_TRUE(allowed.discover());
  EXPECT_FALSE(allowed.kueue());
}

}  // namespace
}  // namespace gnn::app
