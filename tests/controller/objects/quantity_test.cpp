#include "controller/objects/quantity.h"

#include <gtest/gtest.h>

namespace gnn::objects {
namespace {

TEST(ResourceLists, AreSummedExactly) {
  api::ResourceList sum;
  add_resources(sum, {{"cpu", "100m"}, {"memory", "1.5Gi"}, {"nvidia.com/gpu", "4"}}, 3);
  add_resources(sum, {{"cpu", "0.7"}, {"memory", "512Mi"}, {"example.com/x", "1"}}, 1);
  EXPECT_EQ(
      sum,
      (api::ResourceList{
          {"cpu", "1"}, {"memory", "5Gi"}, {"nvidia.com/gpu", "12"}, {"example.com/x", "1"}
      })
  );
  add_resources(sum, {{"memory", "1G"}, {"cpu", "1n"}, {"example.com/x", "never"}}, 1);
  EXPECT_EQ(sum["memory"], "6368709120");
  EXPECT_EQ(sum["cpu"], "1000000001n");
  EXPECT_EQ(sum["example.com/x"], "1");
  add_resources(sum, {{"memory", "8Ei"}}, 1024);
  EXPECT_EQ(sum["memory"], "9223372036854775807");
}

TEST(ResourceLists, TakeALimitWhereThereIsNoRequest) {
  Pod pod;
  pod.spec.containers.resize(2);
  pod.spec.containers[0].resources = {
      .requests = {{"cpu", "500m"}}, .limits = {{"cpu", "2"}, {"nvidia.com/gpu", "1"}}
  };
  pod.spec.containers[1].resources.requests = {{"cpu", "250m"}};
  EXPECT_EQ(requests_of(pod), (api::ResourceList{{"cpu", "750m"}, {"nvidia.com/gpu", "1"}}));
}

}  // namespace
}  // namespace gnn::objects
