#include "controller/app/optional_apis.h"

#include "tests/support/fake_clock.h"
#include "tests/support/fake_transport.h"
#include "tests/support/fixed_random.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace gnn::app {
namespace {

using namespace std::chrono_literals;
using objects::GroupApi;

// What an API server does with the lists or watches of one API.
struct Behaviour {
  int list = 200;
  std::string says = "";
  bool list_hangs = false;
  int watch = 200;
};

// An API server that serves each kind of object by its own behaviour. Watches are silent until they end.
class ServerOfOptionalApis final : public client::HttpTransport {
 public:
  void behave(const std::string& path, Behaviour behaviour) {
    const std::lock_guard lock(mutex_);
    behaviours_[path] = std::move(behaviour);
  }
  // Ends the watches of that path.
  void end_watches(const std::string& path) {
    const std::lock_guard lock(mutex_);
    ++ended_[path];
    changed_.notify_all();
  }
  // Waits until so many lists of the path were asked for, or so many of its watches read, in all.
  void await_lists(const std::string& path, int count) { await(lists_, path, count); }
  void await_watches(const std::string& path, int count) { await(watches_, path, count); }

  Result<client::HttpResponse> send(const client::HttpRequest& request) override {
    std::unique_lock lock(mutex_);
    const std::string path = path_of(request);
    const Behaviour behaviour = behaviours_[path];
    ++lists_[path];
    changed_.notify_all();
    if (behaviour.list_hangs) {
      changed_.wait(lock, request.stop, [] { return false; });
      return fail(ErrorKind::Cancelled, "cancelled");
    }
    client::HttpResponse reply{.status = behaviour.list, .headers = {}, .body = kEmptyList};
    if (path == "/apis") reply.body = kDiscovery;
    if (behaviour.list != 200) reply.body = status_of(behaviour);
    return reply;
  }
  Result<std::unique_ptr<client::HttpStream>> open(const client::HttpRequest& request) override {
    const std::lock_guard lock(mutex_);
    const std::string path = path_of(request);
    return std::make_unique<Stream>(*this, path, behaviours_[path], ended_[path], request.stop);
  }

 private:
  static constexpr const char* kEmptyList =
      R"({"metadata": {"resourceVersion": "5"}, "items": []})";
  static constexpr const char* kDiscovery = R"({"items": [
    {"metadata": {"name": "kueue.x-k8s.io"},
     "versions": [{"version": "v1beta2", "resources": [{"resource": "workloads"}]}]},
    {"metadata": {"name": "scheduling.x-k8s.io"},
     "versions": [{"version": "v1alpha1", "resources": [{"resource": "podgroups"}]}]},
    {"metadata": {"name": "scheduling.volcano.sh"},
     "versions": [{"version": "v1beta1", "resources": [{"resource": "podgroups"}]}]}
  ]})";

  class Stream final : public client::HttpStream {
   public:
    Stream(
        ServerOfOptionalApis& server,
        std::string path,
        Behaviour behaviour,
        int ended,
        std::stop_token stop
    )
        : server_(server),
          path_(std::move(path)),
          behaviour_(std::move(behaviour)),
          ended_(ended),
          stop_(std::move(stop)) {}
    [[nodiscard]] int status() const override { return behaviour_.watch; }
    [[nodiscard]] const std::map<std::string, std::string>& headers() const override {
      return headers_;
    }
    [[nodiscard]] Result<std::string> read() override {
      if (behaviour_.watch != 200) return std::exchange(said_, true) ? "" : status_of(behaviour_);
      std::unique_lock lock(server_.mutex_);
      ++server_.watches_[path_];
      server_.changed_.notify_all();
      server_.changed_.wait(lock, stop_, [&] { return server_.ended_[path_] > ended_; });
      if (stop_.stop_requested()) return fail(ErrorKind::Cancelled, "cancelled");
      return std::string();
    }

   private:
    ServerOfOptionalApis& server_;
    const std::string path_;
    const Behaviour behaviour_;
    const int ended_;
    const std::stop_token stop_;
    const std::map<std::string, std::string> headers_;
    bool said_ = false;
  };

  static std::string path_of(const client::HttpRequest& request) {
    return request.path.substr(0, request.path.find('?'));
  }
  static std::string status_of(const Behaviour& behaviour) {
    return R"({"kind": "Status", "message": ")" + behaviour.says + R"("})";
  }
  void await(std::map<std::string, int>& counts, const std::string& path, int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return counts[path] >= count; });
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, Behaviour> behaviours_;
  std::map<std::string, int> lists_;
  std::map<std::string, int> watches_;
  std::map<std::string, int> ended_;
};

struct Api {
  std::string name;
  std::string path;
  std::string object;
};
const Api kKueue{"kueue.x-k8s.io/v1beta2", "/apis/kueue.x-k8s.io/v1beta2/workloads", "workloads"};
const Api kCoscheduling{
    "scheduling.x-k8s.io/v1alpha1", "/apis/scheduling.x-k8s.io/v1alpha1/podgroups", "podgroups"
};
const Api kVolcano{
    "scheduling.volcano.sh/v1beta1", "/apis/scheduling.volcano.sh/v1beta1/podgroups", "podgroups"
};
const std::vector<Api> kApis = {kKueue, kCoscheduling, kVolcano};

struct Fault {
  std::string name;
  Behaviour behaviour;
};
const std::vector<Fault> kFaults = {
    {"a dead conversion webhook", {.list = 500, .says = "no endpoints available", .watch = 500}},
    {"no rights", {.list = 403, .says = "cannot list resource", .watch = 403}},
    {"busy", {.list = 429, .says = "too many requests", .watch = 429}},
    {"hangs", {.list_hangs = true}},
};

// What every job needs.
const std::vector<std::string> kNeeded = {
    "/apis/gnn.dev/v1alpha1/gnnjobs",
    "/api/v1/pods",
    "/api/v1/configmaps",
    "/api/v1/services",
    "/apis/networking.k8s.io/v1/networkpolicies",
};

class OptionalApisTest : public ::testing::Test {
 protected:
  OptionalApisTest() { reflectors_.start(); }
  ~OptionalApisTest() override { reflectors_.stop(); }

  void discover() {
    ASSERT_TRUE(served_.discover());
    const std::vector<GroupApi> groups = served_.served().value();
    for (const GroupApi api : groups) reflectors_.start_groups(api);
    reflectors_.start_workloads(served_.kueue().value());
  }
  // Until all APIs but the broken one are watched after their list number `count`, and that one has shown
  // its fault.
  void await_lists(int count, const Api* broken = nullptr, const Fault* fault = nullptr) {
    for (const std::string& path : kNeeded) server_.await_watches(path, count);
    for (const Api& each : kApis) {
      if (broken == nullptr || each.name != broken->name) server_.await_watches(each.path, count);
    }
    if (fault == nullptr) return;
    server_.await_lists(broken->path, count);
    if (!fault->behaviour.list_hangs) clock_.await_waiters(1);
  }
  [[nodiscard]] OptionalApis now() const {
    return look_at_optional_apis(served_, reflectors_, kAllowed, true);
  }
  // Why that API's objects are not known.
  [[nodiscard]] static std::string why(const OptionalApis& found, const Api& api) {
    if (api.name == kKueue.name) return found.kueue_unknown;
    const GroupApi group = api.name == kVolcano.name ? GroupApi::Volcano : GroupApi::Coscheduling;
    const auto at = found.unknown_groups.find(group);
    return at == found.unknown_groups.end() ? "" : at->second;
  }
  void expect_reconciling() const {
    EXPECT_TRUE(reflectors_.fresh());
    EXPECT_EQ(reflectors_.waits_for(), "");
  }
  void expect_only_that_one_unknown(const Api& broken, const Fault& fault) const {
    const OptionalApis found = now();
    for (const Api& each : kApis) {
      const std::string text = why(found, each);
      if (each.name != broken.name) {
        EXPECT_EQ(text, "");
        continue;
      }
      EXPECT_NE(text.find(each.object + " of " + each.name), std::string::npos) << text;
      EXPECT_NE(text.find(fault.behaviour.says), std::string::npos) << text;
    }
    EXPECT_FALSE(found.is_settled());
  }

  const std::vector<GroupApi> kAllowed = {GroupApi::Coscheduling, GroupApi::Volcano};
  gnn::testing::FakeClock clock_;
  gnn::testing::FixedRandom random_;
  ServerOfOptionalApis server_;
  MetricsRegistry metrics_;
  client::TokenSource tokens_{client::KubeConfig{}, clock_};
  client::ApiClient api_{server_, tokens_, clock_, metrics_};
  Caches caches_;
  GroupApis served_{api_, kAllowed, true};
  CacheReflectors reflectors_{caches_, api_, {}, 90s, clock_, random_, metrics_, kAllowed, true};
};

struct Case {
  Api api;
  Fault fault;
};
std::vector<Case> cases(const std::vector<Fault>& faults) {
  std::vector<Case> all;
  for (const Api& api : kApis) {
    for (const Fault& fault : faults) all.push_back({api, fault});
  }
  return all;
}

// Those that end a watch: one that is silent is opened anew.
std::vector<Fault> answered_faults() {
  std::vector<Fault> answered;
  for (const Fault& fault : kFaults) {
    if (!fault.behaviour.list_hangs) answered.push_back(fault);
  }
  return answered;
}

class EachOptionalApi : public OptionalApisTest, public ::testing::WithParamInterface<Case> {
 protected:
  const Api& broken_ = GetParam().api;
  const Fault& fault_ = GetParam().fault;
};
class FailsInBetween : public EachOptionalApi {};

TEST_P(EachOptionalApi, IsWaitedForByNobodyElseAtTheStart) {
  server_.behave(broken_.path, fault_.behaviour);
  discover();
  await_lists(1, &broken_, &fault_);
  expect_reconciling();
  expect_only_that_one_unknown(broken_, fault_);
}

TEST_P(EachOptionalApi, IsWaitedForByNobodyElseAtATakeOverAndIsKnownAgainAfterIt) {
  discover();
  await_lists(1);
  EXPECT_TRUE(now().is_settled());
  server_.behave(broken_.path, fault_.behaviour);
  reflectors_.list_again();
  await_lists(2, &broken_, &fault_);
  expect_reconciling();
  expect_only_that_one_unknown(broken_, fault_);

  server_.behave(broken_.path, {});
  reflectors_.list_again();
  await_lists(3, &broken_);
  server_.await_watches(broken_.path, 2);
  EXPECT_TRUE(now().is_settled());
}

TEST_P(FailsInBetween, IsKnownForHalfAMinute) {
  discover();
  await_lists(1);
  server_.behave(broken_.path, fault_.behaviour);
  clock_.advance(10s);  // the watch has lived long enough to be opened again at once
  server_.end_watches(broken_.path);
  clock_.await_waiters(1);
  EXPECT_TRUE(now().is_settled());
  clock_.advance(29s);
  EXPECT_TRUE(now().is_settled());
  clock_.advance(1s);
  expect_reconciling();
  expect_only_that_one_unknown(broken_, fault_);
}

INSTANTIATE_TEST_SUITE_P(AllFaults, EachOptionalApi, ::testing::ValuesIn(cases(kFaults)));
INSTANTIATE_TEST_SUITE_P(Answered, FailsInBetween, ::testing::ValuesIn(cases(answered_faults())));

TEST_F(OptionalApisTest, AreUnknownAndNotWaitedForWhileTheApiServerDoesNotSayWhichItServes) {
  for (const Behaviour& each :
       {Behaviour{.list = 503, .says = "an aggregated API is down"},
        Behaviour{.list = 403, .says = "an aggregated API is down"}}) {
    server_.behave("/apis", each);
    EXPECT_FALSE(served_.discover());
    for (const std::string& path : kNeeded) server_.await_watches(path, 1);
    expect_reconciling();
    for (const Api& api : kApis) {
      EXPECT_NE(why(now(), api).find("an aggregated API is down"), std::string::npos);
    }
  }
  server_.behave("/apis", {});
  discover();
  await_lists(1);
  EXPECT_TRUE(now().is_settled());
}

TEST_F(OptionalApisTest, AreWhatTheyWereWhenTheApiServerDoesNotSayAgainWhichItServes) {
  discover();
  await_lists(1);
  server_.behave("/apis", {.list = 500});
  EXPECT_FALSE(served_.discover());
  EXPECT_TRUE(now().is_settled());
  EXPECT_EQ(now().groups, kAllowed);
  EXPECT_EQ(now().kueue, objects::KueueVersion::V1Beta2);
}

TEST_F(OptionalApisTest, ThatMayNotBeUsedAreNeitherKnownNorUnknown) {
  server_.behave("/apis", {.list = 503});
  EXPECT_FALSE(served_.discover());
  EXPECT_TRUE(look_at_optional_apis(served_, reflectors_, {}, false).is_settled());
}

TEST_F(OptionalApisTest, WhatEveryJobNeedsIsNamedUntilItIsListed) {
  CacheReflectors others(caches_, api_, {"ns"}, 90s, clock_, random_, metrics_);
  EXPECT_EQ(others.waits_for(), "gnnjobs have not been listed yet");
  server_.behave("/api/v1/namespaces/ns/pods", {.list = 403, .says = "no pods for you"});
  others.start();
  server_.await_watches("/apis/gnn.dev/v1alpha1/namespaces/ns/gnnjobs", 1);
  clock_.await_waiters(1);
  EXPECT_EQ(others.waits_for(), "pods cannot be listed: no pods for you");
  others.stop();
}

}  // namespace
}  // namespace gnn::app
