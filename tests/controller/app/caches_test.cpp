#include "controller/app/caches.h"

#include "common/contract.h"
#include "controller/reconcile/conditions.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace gnn::app {
namespace {

std::shared_ptr<const objects::Pod> pod_of(const std::string& job) {
  objects::Pod pod;
  pod.metadata.name = "p";
  pod.metadata.namespace_ = "ns";
  if (!job.empty()) pod.metadata.labels[std::string(contract::kLabelJob)] = job;
  return std::make_shared<const objects::Pod>(pod);
}

TEST(Caches, GroupPodsByJob) {
  EXPECT_EQ(job_group(pod_of("j")->metadata), "ns/j");
  EXPECT_EQ(job_group(pod_of("")->metadata), "");
}

TEST(Caches, GroupJobsInPlacementByNamespace) {
  api::GnnJob job;
  job.metadata.namespace_ = "ns";
  job.status.attempt = 1;
  EXPECT_EQ(placement_group(job), "");
  job.status.conditions.push_back(
      {.type = std::string(reconcile::condition::kScheduled),
       .status = "False",
       .reason = std::string(reconcile::reason::kUnschedulable),
       .message = {}}
  );
  EXPECT_EQ(placement_group(job), "ns");
}

TEST(Caches, NameTheJobOfWhateverChanges) {
  Caches caches;
  std::vector<std::string> changed;
  on_job_change(caches, [&](const objects::ObjectKey& key) {
    changed.push_back(objects::to_string(key));
  });
  api::GnnJob job;
  job.metadata.name = "a";
  job.metadata.namespace_ = "ns";
  caches.jobs.upsert(std::make_shared<const api::GnnJob>(job));
  EXPECT_EQ(changed, std::vector<std::string>{"ns/a"});

  changed.clear();
  caches.pods.upsert(pod_of("b"));
  EXPECT_EQ(changed, std::vector<std::string>{"ns/b"});

  // A pod that changes its label concerns both jobs.
  changed.clear();
  caches.pods.upsert(pod_of("c"));
  EXPECT_EQ(changed, (std::vector<std::string>{"ns/b", "ns/c"}));

  changed.clear();
  caches.pods.upsert(pod_of(""));
  EXPECT_EQ(changed, std::vector<std::string>{"ns/c"});
}

}  // namespace
}  // namespace gnn::app
