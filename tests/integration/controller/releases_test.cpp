#include "tests/integration/controller/fixture.h"
#include "tests/support/must.h"
#include "tests/support/process.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace gnn::testing {
namespace {

using namespace std::chrono_literals;

// A release of the chart that watches one namespace: its objects, and its controller with its own
// account, beside the cluster instead of in a pod.
class Release {
 public:
  Release(const std::string& name, const Cluster& cluster)
      : plane_(cluster.plane()), own_("gnn-" + name), fullname_(name + "-gnn-operator") {
    must(plane_.apply("-", "{apiVersion: v1, kind: Namespace, metadata: {name: " + own_ + "}}"));
    // Without a kubelet the pods of its Deployment only wait.
    const auto rendered = must(run_command({
        "/usr/bin/env",
        "HOME=/nonexistent",  // a user's own settings and plugins
        "HELM_NO_PLUGINS=1",
        plane_.program("helm"),
        "template",
        name,
        std::string(GNN_SOURCE_DIR) + "/charts/gnn-operator",
        "--no-hooks",
        "--namespace=" + own_,
        "--set=crds.enabled=false",
        "--set=controller.watchNamespaces={" + cluster.name_space() + "}",
    }));
    objects_ = rendered.output;
    must(plane_.apply("-", objects_));
    controller_ = std::make_unique<ControllerProcess>(
        plane_,
        ControllerArguments{
            .kubeconfig = cluster.kubeconfig_with_token(
                must(plane_.token_for(own_, fullname_)), proxy_->url()
            ),
            .name_space = cluster.name_space(),
            .more = {"--leader-elect", "--lease-namespace=" + own_, "--lease-name=" + fullname_}
        }
    );
  }
  ~Release() {
    controller_.reset();
    static_cast<void>(plane_.kubectl({"delete", "--ignore-not-found", "-f", "-"}, objects_));
  }
  Release(const Release&) = delete;
  Release& operator=(const Release&) = delete;

  [[nodiscard]] std::string log() const { return controller_->log(); }
  // Paths that it wrote to outside of its own namespace and the one given.
  [[nodiscard]] std::string writes_elsewhere(const std::string& name_space) const {
    std::string elsewhere;
    for (const RecordedRequest& request : proxy_->requests(any_write())) {
      const auto is_in = [&](const std::string& name) {
        return request.path.find("/namespaces/" + name + "/") != std::string::npos;
      };
      if (!is_in(own_) && !is_in(name_space))
        elsewhere += request.method + " " + request.path + "\n";
    }
    return elsewhere;
  }

 private:
  ControlPlane& plane_;
  const std::string own_;
  const std::string fullname_;
  std::string objects_;
  std::unique_ptr<FaultProxy> proxy_ = must(FaultProxy::in_front_of(plane_));
  std::unique_ptr<ControllerProcess> controller_;
};

TEST(Releases, TwoOfThemEachRunTheJobsOfTheirOwnNamespace) {
  Cluster eastern;
  Cluster western;
  FakeKubelets east_kubelets(eastern.plane(), eastern.name_space(), 0ms);
  FakeKubelets west_kubelets(western.plane(), western.name_space(), 0ms);
  const Release east("east", eastern);
  const Release west("west", western);
  eastern.create_job("j");
  western.create_job("j");
  for (const Cluster* cluster : {&eastern, &western}) {
    ASSERT_TRUE(eventually([&] { return cluster->holds("j", "Running"); }, 90s))
        << cluster->describe("j") << east.log() << west.log();
  }
  east_kubelets.let_finish();
  west_kubelets.let_finish();
  for (const Cluster* cluster : {&eastern, &western}) {
    ASSERT_TRUE(eventually([&] { return cluster->holds("j", "Complete"); }, 90s))
        << cluster->describe("j") << east.log() << west.log();
    EXPECT_EQ(cluster->job("j")["status"]["attempt"], 1);
  }
  EXPECT_EQ(east.writes_elsewhere(eastern.name_space()), "");
  EXPECT_EQ(west.writes_elsewhere(western.name_space()), "");
}

}  // namespace
}  // namespace gnn::testing
