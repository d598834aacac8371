#include "controller/reconcile/events.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gnn::reconcile {
namespace {

TEST(Events, AreEmittedOncePerChange) {
  Observed observed;
  observed.job = small_job();
  observed.now = at(0);
  std::vector<std::string> story;
  const auto pass = [&] {
    const Plan result = plan(observed);
    for (const std::string& reason : event_reasons(result)) story.push_back(reason);
    observed = next(observed, result);
  };
  pass();
  observed.service = desired_service(observed.job);
  observed.config_map = desired_config_map(observed.job);
  observed.network_policy = desired_network_policy(observed.job);
  observed.pods = {pod_of(observed.job, 0), pod_of(observed.job, 1)};
  for (objects::Pod& pod : observed.pods) schedule(pod);
  pass();
  pass();
  for (objects::Pod& pod : observed.pods) make_ready(pod);
  pass();
  for (objects::Pod& pod : observed.pods) end_container(pod, 0);
  pass();
  pass();
  EXPECT_EQ(story, (std::vector<std::string>{"Placing", "Scheduled", "Running", "Complete"}));
}

}  // namespace
}  // namespace gnn::reconcile
