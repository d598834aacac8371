#include "common/contract.h"
#include "tests/integration/api/policies.h"
#include "tests/support/control_plane.h"
#include "tests/support/controller_process.h"
#include "tests/support/must.h"
#include "tests/support/source_dir.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

// Who may change the labels of a GNNJob's pods, by the chart's ValidatingAdmissionPolicy.
namespace gnn::testing {
namespace {

using nlohmann::json;

constexpr std::string_view kLabelsPolicy = "gnn-operator-worker-labels";

class WorkerLabelsPolicy : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ControlPlane& cluster = ControlPlane::shared();
    name_space() = must(cluster.create_namespace("labels"));
    make_priority_class();
    let_controller_do_everything();
    for (const char* name : {"ours", "other"}) {
      json pod = worker_pod(name_space());
      pod["metadata"]["name"] = name;
      // It stays, though its owner does not exist: our finalizer is on it.
      if (name == std::string("other")) pod["metadata"]["labels"] = {{"gnn.dev/note", "of-a-user"}};
      ASSERT_EQ(refusal_of(kLabelsPolicy, "POST", pods(), pod), "");
    }
    must(cluster.apply("-", policy_documents(gnn::testing::source_dir(), kLabelsPolicy)));
    // The API server compiles policies behind the scenes.
    ASSERT_TRUE(eventually([] { return !refused("ours", {{contract::kLabelJob, "x"}}).empty(); }));
  }

  static std::string& name_space() {
    static std::string name;
    return name;
  }
  static std::string pods() { return "/api/v1/namespaces/" + name_space() + "/pods"; }

  // What is said against a change of labels; null removes one. Changes nothing.
  static std::string refused(
      const std::string& pod,
      const json& labels,
      const std::string& as = "",
      const std::string& subresource = ""
  ) {
    return refusal_of(
        kLabelsPolicy,
        "PATCH",
        pods() + "/" + pod + subresource + "?dryRun=All",
        {{"metadata", {{"labels", labels}}}},
        as,
        "application/merge-patch+json"
    );
  }
};

TEST_F(WorkerLabelsPolicy, IsWellTyped) {
  EXPECT_EQ(type_warnings(kLabelsPolicy), "");
}

TEST_F(WorkerLabelsPolicy, KeepsOurLabelsAsTheyAre) {
  for (const std::string_view label :
       {contract::kLabelJob, contract::kLabelJobUid, contract::kLabelAttempt, contract::kLabelNode
       }) {
    for (const json& value : {json(), json("7")}) {
      for (const char* subresource : {"", "/status"}) {
        const std::string said = refused("ours", {{label, value}}, "", subresource);
        EXPECT_TRUE(said.starts_with("metadata.labels: ")) << label << value << subresource << said;
      }
    }
  }
  EXPECT_TRUE(refused("ours", {{"gnn.dev/more", "x"}}).starts_with("metadata.labels: "));
  EXPECT_TRUE(refused("ours", nullptr).starts_with("metadata.labels: ")) << "all of them";
}

TEST_F(WorkerLabelsPolicy, LetsTheControllerPutThemBack) {
  EXPECT_EQ(refused("ours", {{contract::kLabelNode, "1"}}, std::string(kControllerUser)), "");
}

TEST_F(WorkerLabelsPolicy, LeavesOtherLabelsAndPodsAlone) {
  EXPECT_EQ(refused("ours", {{"team", "x"}, {contract::kLabelAppName, nullptr}}), "");
  EXPECT_EQ(refused("other", {{"gnn.dev/note", nullptr}}), "");
}

}  // namespace
}  // namespace gnn::testing
