#include "controller/app/caches.h"

#include "common/contract.h"
#include "controller/reconcile/conditions.h"
#include "tests/common/api/sample_job.h"

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

TEST(Caches, KeepOfAJobsLabelsThoseByWhichItIsQueued) {
  objects::Json json = api::encode(api::sample_job());
  json["metadata"]["labels"] = {
      {"kueue.x-k8s.io/queue-name", "queue"},
      {"kueue.x-k8s.io/priority-class", "high"},
      {"kueue.x-k8s.io/prebuilt-workload-name", "made"},
      {"another", "large"}
  };
  json["metadata"]["annotations"] = {{"another", "large"}};
  const auto job = objects::ResourceTraits<api::GnnJob>::decode(json);
  ASSERT_TRUE(job);
  EXPECT_EQ(job->metadata.labels.size(), 3U);
  EXPECT_EQ(job->metadata.labels.at("kueue.x-k8s.io/queue-name"), "queue");
  EXPECT_TRUE(job->metadata.annotations.empty());
}

TEST(Caches, GroupPodsByTheirOwnerWhateverTheirLabel) {
  objects::ObjectMeta meta = pod_of("label")->metadata;
  meta.owner_references.push_back(
      {.api_version = "gnn.dev/v1", .kind = "GNNJob", .name = "j", .uid = "u", .controller = true}
  );
  EXPECT_EQ(job_group(meta), "ns/j");
  meta.labels.clear();
  EXPECT_EQ(job_group(meta), "ns/j");
  meta.owner_references[0].api_version = "gnn.dev.example/v1";
  EXPECT_EQ(job_group(meta), "");
  meta.owner_references[0] = {
      .api_version = "apps/v1", .kind = "ReplicaSet", .name = "r", .uid = "u", .controller = true
  };
  EXPECT_EQ(job_group(meta), "");
}

TEST(Caches, APodThatVanishesWithOurFinalizerMayBeAStray) {
  Caches caches;
  on_job_change(caches, [](const objects::ObjectKey&) {});
  const auto put = [&](const std::string& name, bool held) {
    objects::Pod pod = *pod_of("j");
    pod.metadata.name = name;
    pod.metadata.uid = "uid-of-" + name;
    pod.metadata.deletion_timestamp = TimePoint();
    if (held) pod.metadata.finalizers = {std::string(contract::kPodFinalizer)};
    caches.pods.upsert(std::make_shared<const objects::Pod>(pod));
  };
  put("held", true);
  put("free", false);
  put("released", true);
  caches.strays.releasing("uid-of-released");
  for (const char* name : {"held", "free", "released"}) caches.pods.erase({"ns", name}, "");
  const std::vector<objects::ObjectKey> strays = {{"ns", "held"}};
  EXPECT_EQ(caches.strays.of("ns/j"), strays);
  put("held", true);
  EXPECT_TRUE(caches.strays.of("ns/j").empty()) << "the watch shows it again";
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
