#include "controller/reconcile/relabel.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

namespace gnn::reconcile {
namespace {

TEST(Relabel, LeavesPodsAloneWhoseLabelsAreOurs) {
  Observed observed = running();
  observed.pods[0].metadata.labels["a-users"] = "own";
  EXPECT_EQ(count_of<RelabelPod>(plan(observed)), 0);
}

TEST(Relabel, PutsBackWhateverWasRemovedOrChanged) {
  const Observed intact = running();
  for (const std::string_view label :
       {contract::kLabelJob, contract::kLabelJobUid, contract::kLabelAttempt, contract::kLabelNode
       }) {
    const std::string name(label);
    for (const bool removed : {true, false}) {
      Observed observed = intact;
      auto& labels = observed.pods[1].metadata.labels;
      if (removed) {
        labels.erase(name);
      } else {
        labels[name] = "7";
      }
      const Plan repairs = plan(observed);
      ASSERT_EQ(repairs.actions.size(), 1U) << name;
      const auto found = actions_of<RelabelPod>(repairs);
      ASSERT_EQ(found.size(), 1U) << name;
      EXPECT_EQ(found[0].name, "arxiv-1-1");
      EXPECT_EQ(found[0].uid, observed.pods[1].metadata.uid);
      for (const auto& [key, value] : found[0].labels) {
        EXPECT_EQ(intact.pods[1].metadata.labels.at(key), value) << key;
      }
      EXPECT_TRUE(found[0].labels.contains(name));
      EXPECT_EQ(repairs.status, observed.job.status) << "the gang runs on";
    }
  }
}

TEST(Relabel, ALabelOfALaterAttemptDoesNotMakeTheJobLookStale) {
  Observed observed = running();
  end_container(observed.pods[0], 0);
  end_container(observed.pods[1], 0);
  observed.pods[1].metadata.labels[std::string(contract::kLabelAttempt)] = "999";
  EXPECT_TRUE(is_true(plan(observed).status, condition::kComplete));
}

TEST(Relabel, LeavesPodsOfOthersAlone) {
  Observed observed = running();
  objects::Pod other = observed.pods[0];
  other.metadata.labels.clear();
  other.metadata.finalizers.clear();
  other.metadata.owner_references[0].uid = "another's";
  observed.pods.push_back(other);
  EXPECT_EQ(count_of<RelabelPod>(plan(observed)), 0);
}

}  // namespace
}  // namespace gnn::reconcile
