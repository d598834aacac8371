#include "worker/app/server_directory.h"

#include "common/contract.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>

namespace gnn::app {
namespace {

using std::chrono::seconds;

TEST(ServerTimeout, IsTheJobsUnlessTheEnvironmentSaysAnother) {
  std::map<std::string, std::string, std::less<>> environment;
  const auto lookup = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  };
  api::GnnJobSpec spec;
  EXPECT_EQ(server_timeout_of(spec, lookup), seconds(contract::kDefaultServerSeconds));
  spec.run_policy.server_timeout_seconds = 7;
  EXPECT_EQ(server_timeout_of(spec, lookup), seconds(7));
  environment["GNN_SERVER_TIMEOUT"] = "9";
  EXPECT_EQ(server_timeout_of(spec, lookup), seconds(9));
  environment["GNN_SERVER_TIMEOUT"] = "soon";
  EXPECT_EQ(server_timeout_of(spec, lookup).error().kind, ErrorKind::Configuration);
}

}  // namespace
}  // namespace gnn::app
