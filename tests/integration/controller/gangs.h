#pragma once

#include "tests/integration/controller/fixture.h"
#include "tests/support/must.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gnn::testing {

/// A scheduler that knows groups of pods, and gangs of three pods with two GPUs each: kwok plays one node
/// with eight GPUs, room for four pods.
class Gangs {
 public:
  struct Options {
    ControlPlaneOptions plane;        ///< without nodes and scheduler
    std::string group_api;            ///< of the groups, e.g. "scheduling.k8s.io/v1beta1"
    std::string provider;             ///< that the controller may use
    std::vector<std::string> more{};  ///< arguments of the controller
    std::string crds{};  ///< that the scheduler needs: a file beside its program; empty: none
    Json changes = Json::object();  ///< of each job's spec
    bool through_proxy = false;     ///< the controller talks to the API server through proxy()
  };

  explicit Gangs(Options options)
      : options_(std::move(options)),
        plane_(start(options_)),
        cluster_(*plane_),
        proxy_(options_.through_proxy ? must(FaultProxy::in_front_of(*plane_)) : nullptr),
        controller_(*plane_, controller_arguments()) {}

  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  [[nodiscard]] const Api& api() const { return cluster_.api(); }
  [[nodiscard]] FaultProxy& proxy() const { return *proxy_; }

  void create(const std::string& name, const Json& changes = Json::object()) const {
    Json spec = {
        {"scheduling", Json::object()},
        {"workers", {{"processesPerNode", 2}, {"gpusPerProcess", 1}}}
    };
    spec.merge_patch(options_.changes);
    spec.merge_patch(changes);
    cluster_.create_job(name, kNodes, spec);
  }
  void suspend(const std::string& job, bool wanted) const {
    api().patch(cluster_.jobs() + "/" + job, {{"spec", {{"suspend", wanted}}}});
  }
  /// Has all pods of the attempt succeed.
  void complete(const std::string& job, int attempt) const {
    const std::string pods = job + "-" + std::to_string(attempt) + "-";
    for (int node = 0; node < kNodes; ++node) cluster_.end_pod(pods + std::to_string(node), 0);
  }

  /// Creates the jobs at once, and has each end as soon as it runs. Returns the seconds until the last
  /// is complete; nothing if they take longer than `patience`.
  [[nodiscard]] std::optional<double> run_through(
      const std::set<std::string>& jobs, std::chrono::seconds patience
  ) const {
    const auto begin = std::chrono::steady_clock::now();
    for (const std::string& job : jobs) create(job);
    std::set<std::string> left = jobs;
    const bool done = eventually(
        [&] {
          for (const std::string& job : left) {
            if (runs(job)) complete(job, status(job)["attempt"]);
          }
          std::erase_if(left, [&](const auto& job) { return cluster_.holds(job, "Complete"); });
          return left.empty();
        },
        patience
    );
    if (!done) return std::nullopt;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  [[nodiscard]] Json status(const std::string& name) const {
    const Json job = cluster_.job(name);
    return job.is_object() ? job.value("status", Json::object()) : Json::object();
  }
  [[nodiscard]] bool runs(const std::string& name) const { return cluster_.holds(name, "Running"); }
  [[nodiscard]] std::string why_not_scheduled(const std::string& name) const {
    return cluster_.condition(name, "Scheduled")["reason"];
  }
  [[nodiscard]] int placed(const std::string& job) const {
    int count = 0;
    for (const Json& pod : cluster_.pods_of(job)) count += pod["spec"].contains("nodeName") ? 1 : 0;
    return count;
  }
  [[nodiscard]] std::string groups() const { return cluster_.groups(options_.group_api); }
  [[nodiscard]] std::string log() const {
    return groups() + status("a").dump(1) + status("b").dump(1) + controller_.log();
  }

  static constexpr int kNodes = 3;

 private:
  static std::unique_ptr<ControlPlane> start(const Options& options) {
    ControlPlaneOptions wanted = options.plane;
    wanted.fake_nodes = 1;
    auto plane = must(ControlPlane::start(wanted));
    install_crd(*plane);
    if (!options.crds.empty()) must(plane->apply(plane->program(options.crds)));
    must(plane->start(ControlPlanePart::Scheduler));
    return plane;
  }
  [[nodiscard]] ControllerArguments controller_arguments() const {
    std::vector<std::string> arguments = {"--gang-provider=" + options_.provider};
    arguments.insert(arguments.end(), options_.more.begin(), options_.more.end());
    return proxy_ ? cluster_.arguments_through(*proxy_, std::move(arguments))
                  : cluster_.arguments(std::move(arguments));
  }

  const Options options_;
  std::unique_ptr<ControlPlane> plane_;
  Cluster cluster_;
  std::unique_ptr<FaultProxy> proxy_;
  ControllerProcess controller_;
};

/// Of two gangs that do not fit side by side, "a" runs and "b" waits for its group: what becomes of
/// them by a suspension, a restart and their ends, none ever placed in part. What the scheduler is to
/// do by itself may take as long as `patience`.
inline void expect_turns(
    const Gangs& gangs, std::chrono::seconds patience = std::chrono::seconds(60)
) {
  // Suspended, the first gives its places to the second, and takes its turn when it is resumed.
  gangs.suspend("a", true);
  ASSERT_TRUE(eventually([&] { return gangs.runs("b") && gangs.groups() == "b-1"; }, patience))
      << gangs.log();
  EXPECT_TRUE(gangs.cluster().holds("a", "Suspended"));
  gangs.suspend("a", false);
  ASSERT_TRUE(eventually([&] { return gangs.why_not_scheduled("a") == "GangPending"; }))
      << gangs.log();
  EXPECT_EQ(gangs.placed("a"), 0);

  // A restart has a group of its own. Which of the two gets the place is for the scheduler to say.
  gangs.cluster().end_pod("b-1-1", 70);
  ASSERT_TRUE(eventually([&] { return gangs.groups() == "a-2 b-2"; })) << gangs.log();
  ASSERT_TRUE(eventually([&] { return gangs.runs("a") != gangs.runs("b"); }, patience))
      << gangs.log();
  const std::string first = gangs.runs("a") ? "a" : "b";
  const std::string second = first == "a" ? "b" : "a";
  EXPECT_EQ(gangs.placed(second), 0);
  gangs.complete(first, 2);
  ASSERT_TRUE(eventually([&] { return gangs.runs(second); }, patience)) << gangs.log();
  EXPECT_TRUE(gangs.cluster().holds(first, "Complete"));
  EXPECT_EQ(gangs.groups(), second + "-2");
  gangs.complete(second, 2);
  ASSERT_TRUE(eventually([&] { return gangs.groups().empty(); })) << gangs.log();
  EXPECT_TRUE(gangs.cluster().holds(second, "Complete"));
}

}  // namespace gnn::testing
