#include "controller/app/lease.h"

#include <gtest/gtest.h>

#include <chrono>

namespace gnn::app {
namespace {

TEST(Lease, IdentityEndsWithTheSuffix) {
  Options options;
  options.identity = "pod-1";
  EXPECT_EQ(lease_identity(options, "17"), "pod-1_17");
  options.identity.clear();
  EXPECT_TRUE(lease_identity(options, "17").ends_with("_17"));
  EXPECT_GT(lease_identity(options, "17").size(), 3U);
}

TEST(Lease, NamespaceIsThatOfTheCredentialsUnlessGiven) {
  Options options;
  options.lease_duration = std::chrono::seconds(7);
  Connection connection;
  connection.config.namespace_ = "here";
  const runtime::LeaderOptions lease = lease_options(options, connection, "me");
  EXPECT_EQ(lease.lease.namespace_, "here");
  EXPECT_EQ(lease.lease.name, "gnn-controller");
  EXPECT_EQ(lease.identity, "me");
  EXPECT_EQ(lease.lease_duration, std::chrono::seconds(7));
  options.lease_namespace = "there";
  EXPECT_EQ(lease_options(options, connection, "me").lease.namespace_, "there");
}

}  // namespace
}  // namespace gnn::app
