#pragma once

#include "tests/integration/controller/fixture.h"
#include "tests/support/must.h"
#include "tests/support/process.h"
#include "tests/support/source_dir.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace gnn::testing {

/// A release of the chart that watches one namespace: its objects, and its controller with its own
/// account, beside the cluster instead of in a pod.
class Release {
 public:
  struct Options {
    std::vector<std::string> settings{};   ///< of the chart, e.g. "--set=kueue.enabled=true"
    std::vector<std::string> arguments{};  ///< of the controller, as its Deployment has them
  };
  Release(const std::string& name, const Cluster& cluster) : Release(name, cluster, {}) {}
  Release(const std::string& name, const Cluster& cluster, const Options& options)
      : plane_(cluster.plane()), own_("gnn-" + name), fullname_(name + "-gnn-operator") {
    must(plane_.apply("-", "{apiVersion: v1, kind: Namespace, metadata: {name: " + own_ + "}}"));
    // Without a kubelet the pods of its Deployment only wait.
    std::vector<std::string> render = {
        "/usr/bin/env",
        "HOME=/nonexistent",  // a user's own settings and plugins
        "HELM_NO_PLUGINS=1",
        plane_.program("helm"),
        "template",
        name,
        gnn::testing::source_dir() + "/charts/gnn-operator",
        "--no-hooks",
        "--namespace=" + own_,
        "--set=crds.enabled=false",
        "--set=controller.watchNamespaces={" + cluster.name_space() + "}",
    };
    render.insert(render.end(), options.settings.begin(), options.settings.end());
    objects_ = must(run_command(render)).output;
    must(plane_.apply("-", objects_));
    std::vector<std::string> arguments = {
        "--leader-elect", "--lease-namespace=" + own_, "--lease-name=" + fullname_, job_fence()
    };
    arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
    controller_ = std::make_unique<ControllerProcess>(
        plane_,
        ControllerArguments{
            .kubeconfig = cluster.kubeconfig_with_token(
                must(plane_.token_for(own_, fullname_)), proxy_->url()
            ),
            .name_space = cluster.name_space(),
            .more = std::move(arguments)
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
  /// What it was refused for lack of rights, or by a policy.
  [[nodiscard]] std::string forbidden() const {
    std::string all;
    for (const RecordedRequest& request : proxy_->requests(any_request())) {
      // A JSON patch whose test fails has 422, too: what it should change has changed meanwhile.
      const bool by_policy = request.status == 422 &&
                             request.refusal.find("ValidatingAdmissionPolicy") != std::string::npos;
      if (request.status == 403 || by_policy)
        all += request.method + " " + request.target + ": " + request.refusal + "\n";
    }
    return all;
  }
  /// Paths that it wrote to outside of its own namespace and the one given.
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
  // As its Deployment has it.
  [[nodiscard]] std::string job_fence() const {
    const size_t begin = objects_.find("\"--job-fence=");
    if (begin == std::string::npos) throw std::runtime_error("no --job-fence in " + objects_);
    return Json::parse(objects_.substr(begin, objects_.find('\n', begin) - begin));
  }

  ControlPlane& plane_;
  const std::string own_;
  const std::string fullname_;
  std::string objects_;
  std::unique_ptr<FaultProxy> proxy_ = must(FaultProxy::in_front_of(plane_));
  std::unique_ptr<ControllerProcess> controller_;
};

}  // namespace gnn::testing
