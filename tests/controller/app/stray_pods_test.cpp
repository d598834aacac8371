#include "controller/app/stray_pods.h"

#include "common/contract.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_transport.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gnn::app {
namespace {

objects::Json held_pod(const std::string& name, const std::string& kind) {
  return {
      {"metadata",
       {{"name", name},
        {"namespace", "ns"},
        {"finalizers", {contract::kPodFinalizer}},
        {"ownerReferences",
         {{{"apiVersion", contract::kApiGroupVersion},
           {"kind", kind},
           {"name", "j"},
           {"uid", "u"},
           {"controller", true}}}}}}
  };
}

// The pods that find_stray_pods() finds in a list of these, and the path that it asks for.
struct Found {
  std::vector<objects::ObjectMeta> pods;
  std::string asked;
};
Found found_among(const objects::Json& items) {
  gnn::testing::FakeClock clock;
  gnn::testing::FakeTransport transport;
  MetricsRegistry metrics;
  client::TokenSource tokens(client::KubeConfig{}, clock);
  client::ApiClient api(transport, tokens, clock, metrics);
  transport.reply(
      200, objects::Json{{"metadata", {{"resourceVersion", "5"}}}, {"items", items}}.dump()
  );
  Found found;
  EXPECT_TRUE(find_stray_pods(api, "ns", {}, [&](const objects::ObjectMeta& meta) {
    found.pods.push_back(meta);
  }));
  found.asked = transport.requests().at(0).path;
  return found;
}

TEST(StrayPods, AreThoseOfJobsWithoutOurLabel) {
  objects::Json released = held_pod("released", "GNNJob");
  released["metadata"].erase("finalizers");
  const objects::Json items = {
      held_pod("held", "GNNJob"), released, held_pod("of-another-kind", "Job"), {{"metadata", 3}}
  };
  const Found found = found_among(items);
  std::vector<std::string> names;
  for (const objects::ObjectMeta& meta : found.pods) names.push_back(meta.name);
  EXPECT_EQ(names, (std::vector<std::string>{"held", "released"}));
  EXPECT_NE(found.asked.find("labelSelector=%21gnn.dev%2Fjob"), std::string::npos) << found.asked;
}

TEST(StrayPods, ThatAJobHasLeftBehindAreThoseThatOurFinalizerHolds) {
  objects::Json left = held_pod("left", "GNNJob");
  left["metadata"].erase("ownerReferences");
  objects::Json released = left;
  released["metadata"]["name"] = "released";
  released["metadata"].erase("finalizers");
  StrayPods strays;
  for (const objects::ObjectMeta& meta : found_among({left, released}).pods) {
    EXPECT_EQ(job_of_stray(meta), (objects::ObjectKey{"ns", "left"}));
    strays.add(meta);
  }
  EXPECT_EQ(strays.of("ns/left"), (std::vector<objects::ObjectKey>{{"ns", "left"}}));
}

TEST(StrayPods, AreKeptByJobUntilForgotten) {
  StrayPods strays;
  const auto meta = [](const std::string& name, const std::string& job) {
    objects::ObjectMeta found;
    found.name = name;
    found.namespace_ = "ns";
    found.labels[std::string(contract::kLabelJob)] = job;
    return found;
  };
  strays.add(meta("a", "j"));
  strays.add(meta("b", "j"));
  strays.add(meta("c", "k"));
  strays.add(meta("b", "k"));
  using Keys = std::vector<objects::ObjectKey>;
  EXPECT_EQ(strays.of("ns/j"), (Keys{{"ns", "a"}}));
  EXPECT_EQ(strays.of("ns/k"), (Keys{{"ns", "b"}, {"ns", "c"}}));
  strays.forget({"ns", "c"});
  strays.forget({"ns", "unknown"});
  EXPECT_EQ(strays.of("ns/k"), (Keys{{"ns", "b"}}));
  EXPECT_TRUE(strays.of("ns/other").empty());
}

// A pod that leaves has lost our finalizer already. What a watch says when it loses its label, too, is
// what it says of one that is gone.
TEST(StrayPods, AreThoseThatMayRunWhenTheyVanish) {
  StrayPods strays;
  objects::Pod pod;
  pod.metadata.name = "a";
  pod.metadata.namespace_ = "ns";
  pod.metadata.uid = "u";
  pod.metadata.labels[std::string(contract::kLabelJob)] = "j";
  const auto is_stray = [&] {
    strays.vanished(pod);
    const bool found = !strays.of("ns/j").empty();
    strays.forget({"ns", "a"});
    return found;
  };
  EXPECT_TRUE(is_stray()) << "it may get a machine yet";
  pod.metadata.deletion_timestamp = TimePoint();
  EXPECT_FALSE(is_stray()) << "it had no machine when it was deleted";
  pod.spec.node_name = "machine";
  pod.status.phase = "Running";
  EXPECT_TRUE(is_stray());
  strays.releasing("u");
  EXPECT_TRUE(is_stray());
  pod.status.phase = "Failed";
  EXPECT_FALSE(is_stray());
}

// Whoever may write pods can let any number of them vanish from the watch.
TEST(StrayPods, AreBoundedByNamespace) {
  StrayPods strays;
  const auto add = [&](const std::string& name_space, int number) {
    objects::ObjectMeta meta;
    meta.namespace_ = name_space;
    meta.name = "p" + std::to_string(number);
    meta.labels[std::string(contract::kLabelJob)] = "j";
    strays.add(meta);
  };
  for (int i = 0; i < 3000; ++i) add("filled", i);
  add("other", 1);
  EXPECT_EQ(strays.of("filled/j").size(), StrayPods::kMostOfNamespace);
  EXPECT_EQ(strays.of("other/j").size(), 1U);
  strays.forget({"filled", "p0"});
  add("filled", 2999);
  EXPECT_EQ(strays.of("filled/j").size(), StrayPods::kMostOfNamespace);
}

}  // namespace
}  // namespace gnn::app
