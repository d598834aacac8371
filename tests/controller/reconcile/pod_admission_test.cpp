#include "controller/reconcile/pod_admission.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace gnn::reconcile {
namespace {

// What a check wants of the workers: a label, or an entry of the nodeSelector.
objects::PodSetUpdate label(const std::string& key, const std::string& value) {
  objects::PodSetUpdate update;
  update.name = "workers";
  update.labels[key] = value;
  return update;
}
objects::PodSetUpdate selector(const std::string& key, const std::string& value) {
  objects::PodSetUpdate update;
  update.name = "workers";
  update.node_selector[key] = value;
  return update;
}

void add_check(objects::Workload& workload, std::vector<objects::PodSetUpdate> updates) {
  objects::AdmissionCheck& check = workload.checks.emplace_back();
  check.name = "check";
  check.state = "Ready";
  check.updates = std::move(updates);
}

objects::Workload admitted_workload() {
  objects::Workload workload;
  workload.metadata.name = "gnnjob-arxiv-1";
  workload.admission = objects::Admission{
      .cluster_queue = "cq",
      .pod_sets = {{.name = "workers", .flavors = {"spot"}, .count = 2}},
  };
  return workload;
}

Flavors spot() {
  api::Toleration toleration;
  toleration.key = "spot";
  toleration.op = "Exists";
  return {{"spot", {.node_labels = {{"cloud/spot", "true"}}, .tolerations = {toleration}}}};
}

AdmissionOfPods workers_of(const objects::Workload& workload, const Flavors& flavors = spot()) {
  return admission_of_pods(workload, "workers", flavors, pod_of(small_job(), 0));
}

TEST(PodAdmission, GivesPodsWhatTheirFlavorsAndChecksAskForAndKueuesMarks) {
  objects::Workload workload = admitted_workload();
  objects::PodSetUpdate of_servers = label("not", "mine");
  of_servers.name = "servers";
  add_check(workload, {of_servers, label("team", "a"), selector("zone", "b")});
  const AdmissionOfPods found = workers_of(workload);
  ASSERT_FALSE(found.problem);
  objects::Pod pod = pod_of(small_job(), 0);
  const auto tolerations = pod.spec.tolerations.size();
  add_to(pod, found.additions);
  EXPECT_EQ(pod.spec.node_selector.at("cloud/spot"), "true");
  EXPECT_EQ(pod.spec.node_selector.at("zone"), "b");
  EXPECT_EQ(pod.spec.tolerations.size(), tolerations + 1);
  EXPECT_EQ(pod.metadata.labels.at("kueue.x-k8s.io/podset"), "workers");
  EXPECT_EQ(pod.metadata.labels.at("team"), "a");
  EXPECT_FALSE(pod.metadata.labels.contains("not"));
  EXPECT_EQ(pod.metadata.annotations.at("kueue.x-k8s.io/workload"), "gnnjob-arxiv-1");
  EXPECT_TRUE(pod.spec.scheduling_gates.empty());
}

TEST(PodAdmission, HasKueuePlacePodsOfATopology) {
  objects::Workload workload = admitted_workload();
  workload.admission->pod_sets[0].has_topology = true;
  const PodAdmission implied = workers_of(workload).additions;
  EXPECT_EQ(implied.scheduling_gates, std::vector<std::string>{"kueue.x-k8s.io/topology"});
  EXPECT_EQ(implied.annotations.at("kueue.x-k8s.io/podset-unconstrained-topology"), "true");
  objects::Pod asks = pod_of(small_job(), 0);
  asks.metadata.annotations["kueue.x-k8s.io/podset-required-topology"] = "rack";
  const auto asked = admission_of_pods(workload, "workers", spot(), asks);
  EXPECT_FALSE(asked.additions.annotations.contains("kueue.x-k8s.io/podset-unconstrained-topology")
  );
}

TEST(PodAdmission, ContradictsNeitherTheJobNorTheOperator) {
  const auto problem_of = [](const objects::PodSetUpdate& update) {
    objects::Workload workload = admitted_workload();
    add_check(workload, {update});
    const auto problem = workers_of(workload).problem;
    return problem && problem->is_final ? problem->message : "";
  };
  const auto names = [&](const objects::PodSetUpdate& update, const std::string& what) {
    return problem_of(update).find(what) != std::string::npos;
  };
  EXPECT_TRUE(names(selector("cloud/spot", "false"), "cloud/spot"));
  EXPECT_TRUE(names(label("gnn.dev/job", "another"), "gnn.dev/job"));
  EXPECT_TRUE(names(label("gnn.dev/new", "x"), "gnn.dev/new"));
  objects::PodSetUpdate huge = label("key", "x");
  for (int i = 0; i < 65; ++i) huge.labels["key" + std::to_string(i)] = "x";
  EXPECT_TRUE(names(huge, "more than 64"));
  EXPECT_EQ(problem_of(label("team", "a")), "");
}

TEST(PodAdmission, NamesAFlavorThatCannotBeRead) {
  const auto problem = workers_of(admitted_workload(), {}).problem;
  ASSERT_TRUE(problem);
  EXPECT_FALSE(problem->is_final);
  EXPECT_NE(problem->message.find("ResourceFlavor spot"), std::string::npos);
}

}  // namespace
}  // namespace gnn::reconcile
