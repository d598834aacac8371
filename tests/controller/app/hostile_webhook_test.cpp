#include "common/contract.h"
#include "controller/app/reconciler.h"
#include "tests/common/api/sample_job.h"
#include "tests/support/fake_clock.h"
#include "tests/support/must.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace gnn::app {
namespace {

using objects::Json;

// The member, or an empty object where a webhook has dropped it.
Json part_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_object() ? *found : Json::object();
}

using gnn::testing::FakeClock;
using namespace std::chrono_literals;

// ---- an API server whose webhook changes what is written

// "/apis/gnn.dev/v1alpha1/namespaces/train/gnnjobs/arxiv/status", taken apart.
struct Address {
  std::string plural;
  std::string name;
  std::string subresource;
};

Address address_of(const std::string& path) {
  std::vector<std::string> parts;
  std::string part;
  for (const char c : path.substr(0, path.find('?')) + "/") {
    if (c != '/') {
      part += c;
    } else {
      parts.push_back(std::move(part));
      part.clear();
    }
  }
  const auto scope = std::ranges::find(parts, "namespaces");
  // Of cluster-scoped objects the plural follows the version.
  const size_t plural = scope == parts.end() ? 4 : static_cast<size_t>(scope - parts.begin()) + 2;
  const auto at = [&](size_t i) { return i < parts.size() ? parts[i] : ""; };
  return {.plural = at(plural), .name = at(plural + 1), .subresource = at(plural + 2)};
}

// As much of a strategic merge patch as the operator uses.
void merge_strategically(Json& object, Json patch) {
  Json& metadata = patch["metadata"];
  const std::string deletion = "$deleteFromPrimitiveList/finalizers";
  if (metadata.contains(deletion)) {
    Json kept = Json::array();
    for (const Json& each : part_of(object, "metadata").value("finalizers", Json::array())) {
      const Json& gone = metadata[deletion];
      if (std::ranges::find(gone, each) == gone.end()) kept.push_back(each);
    }
    object["metadata"]["finalizers"] = kept;
    metadata.erase(deletion);
  }
  object.merge_patch(patch);
}

class ObjectServer final : public client::HttpTransport {
 public:
  using Webhook = std::function<void(const std::string& plural, Json& object)>;

  explicit ObjectServer(Webhook webhook) : webhook_(std::move(webhook)) {}

  [[nodiscard]] Result<client::HttpResponse> send(const client::HttpRequest& request) override {
    const Address address = address_of(request.path);
    const std::string key = address.plural + "/" + address.name;
    const Json body = request.body.empty() ? Json() : Json::parse(request.body);
    if (address.plural == "events") return reply(201, body);
    if (request.method == "POST") return create(address.plural, body);
    if (address.plural == "resourceflavors") return reply(200, Json{{"spec", Json::object()}});
    if (address.plural == "workloadpriorityclasses") {
      return reply(200, Json{{"metadata", {{"name", address.name}}}, {"value", 7}});
    }
    const auto found = objects.find(key);
    if (found == objects.end()) return refuse(404, "NotFound");
    Json& object = found->second;
    if (request.method == "GET") return reply(200, object);
    const std::string uid =
        request.method == "DELETE" ? body.value(Json::json_pointer("/preconditions/uid"), "") : "";
    if (!uid.empty() && object["metadata"]["uid"] != uid) return refuse(409, "Conflict");
    ++writes
        [request.method + " " + key + " " + address.subresource + " " +
         object["metadata"]["uid"].get<std::string>()];
    if (request.method == "DELETE") return remove(key, object);
    Json changed = object;
    if (request.method == "PUT") {
      changed["status"] = body["status"];
    } else if (request.content_type.find("json-patch") != std::string::npos) {
      try {
        changed = object.patch(body);
      } catch (const Json::exception&) {
        return refuse(422, "Invalid");
      }
    } else if (request.content_type.find("strategic") != std::string::npos) {
      merge_strategically(changed, body);
    } else {
      changed.merge_patch(body);
    }
    // Of a subresource only the status is written.
    if (!address.subresource.empty()) {
      Json status = std::move(changed["status"]);
      changed = object;
      changed["status"] = std::move(status);
    }
    admit(address.plural, object, changed);
    const Json answer = object;
    collect();
    return reply(200, answer);
  }

  [[nodiscard]] Result<std::unique_ptr<client::HttpStream>> open(const client::HttpRequest&)
      override {
    return fail(ErrorKind::Network, "nobody watches");
  }

  // What kubelets, Kueue and people do, which no webhook sees.
  void change(const std::string& plural, const std::function<void(Json&)>& how) {
    for (auto& [key, object] : objects) {
      if (!key.starts_with(plural + "/")) continue;
      const Json before = object;
      how(object);
      if (object != before) touch(object);
    }
    collect();
  }

  void touch(Json& object) { object["metadata"]["resourceVersion"] = std::to_string(++version_); }

  // Those that are being deleted and that nothing holds.
  void collect() {
    const auto gone = std::erase_if(objects, [](const auto& each) {
      const Json& metadata = each.second["metadata"];
      return metadata.contains("deletionTimestamp") &&
             metadata.value("deletionGracePeriodSeconds", 0) == 0 &&
             metadata.value("finalizers", Json::array()).empty();
    });
    if (gone > 0) ++version_;
  }

  [[nodiscard]] int version() const { return version_; }

  std::map<std::string, Json> objects;  ///< by plural and name
  std::map<std::string, int> writes;    ///< by method and object

 private:
  static client::HttpResponse reply(int status, const Json& body) {
    return {.status = status, .headers = {}, .body = body.dump()};
  }
  static client::HttpResponse refuse(int status, const std::string& reason) {
    return reply(status, Json{{"kind", "Status"}, {"reason", reason}, {"message", reason}});
  }

  // The server's own fields are no webhook's.
  void admit(const std::string& plural, Json& object, Json changed) {
    const Json metadata = changed["metadata"];
    webhook_(plural, changed);
    if (!changed["metadata"].is_object()) changed["metadata"] = metadata;
    for (const char* name :
         {"name",
          "namespace",
          "uid",
          "creationTimestamp",
          "resourceVersion",
          "deletionTimestamp",
          "deletionGracePeriodSeconds"}) {
      changed["metadata"].erase(name);
      if (metadata.contains(name)) changed["metadata"][name] = metadata[name];
    }
    if (changed == object) return;
    object = std::move(changed);
    touch(object);
  }

  client::HttpResponse create(const std::string& plural, Json body) {
    const std::string key = plural + "/" + body["metadata"]["name"].get<std::string>();
    ++writes["POST " + key];
    if (objects.contains(key)) return refuse(409, "AlreadyExists");
    body["metadata"]["uid"] = "uid-" + std::to_string(++version_);
    body["metadata"]["creationTimestamp"] = "2023-11-14T22:13:20Z";
    Json& object = objects[key];
    admit(plural, object, std::move(body));
    return reply(201, object);
  }

  client::HttpResponse remove(const std::string& key, Json& object) {
    Json& metadata = object["metadata"];
    if (!metadata.contains("deletionTimestamp")) {
      metadata["deletionTimestamp"] = "2033-11-14T22:13:20Z";
      metadata["deletionGracePeriodSeconds"] = key.starts_with("pods/") ? 120 : 0;
      touch(object);
    }
    collect();
    return reply(200, Json::object());
  }

  const Webhook webhook_;
  int version_ = 1;
};

// ---- what the webhook does

enum class Mutation { Drop, Change, Add };

struct Hostility {
  std::string plural;
  std::string pointer;
  Mutation mutation = Mutation::Drop;
};

std::string to_text(const Hostility& each) {
  const char* what = each.mutation == Mutation::Drop     ? "drops "
                     : each.mutation == Mutation::Change ? "changes "
                                                         : "adds to ";
  return what + each.plural + each.pointer;
}

void change(Json& value, int turn) {
  if (value.is_string()) {
    value = value.get<std::string>() + "-" + std::to_string(turn);
  } else if (value.is_boolean()) {
    value = !value.get<bool>();
  } else if (value.is_number()) {
    value = value.get<int64_t>() + turn;
  }
}

void mutate(Json& object, const Hostility& hostility, int turn) {
  const Json::json_pointer pointer(hostility.pointer);
  if (!object.contains(pointer)) return;
  Json& value = object[pointer];
  switch (hostility.mutation) {
    case Mutation::Drop: {
      Json& parent = object[pointer.parent_pointer()];
      if (parent.is_object()) parent.erase(pointer.back());
      if (parent.is_array()) parent.erase(std::stoul(pointer.back()));
      return;
    }
    case Mutation::Change:
      return change(value, turn);
    case Mutation::Add:
      if (value.is_object()) value["hostile"] = std::to_string(turn);
      if (value.is_array()) value.push_back(value.empty() ? Json("hostile") : value.front());
      return;
  }
}

// Everything that a webhook may change in the object, of lists the first item.
void collect_pointers(const Json& value, const std::string& pointer, std::set<std::string>& into) {
  static const std::set<std::string> kOfServer = {
      "/metadata/name",
      "/metadata/namespace",
      "/metadata/uid",
      "/metadata/creationTimestamp",
      "/metadata/resourceVersion",
      "/metadata/deletionTimestamp",
      "/metadata/deletionGracePeriodSeconds",
      "/apiVersion",
      "/kind",
      "/metadata",
  };
  if (!pointer.empty() && !kOfServer.contains(pointer)) into.insert(pointer);
  if (value.is_array() && !value.empty()) collect_pointers(value[0], pointer + "/0", into);
  if (!value.is_object()) return;
  for (const auto& [name, member] : value.items()) {
    std::string escaped;
    for (const char c : name) escaped += c == '/' ? "~1" : std::string(1, c);
    collect_pointers(member, pointer + "/" + escaped, into);
  }
}

// ---- an hour of a job

// Runs the reconciler as its work queue does, beside Kueue, a kubelet and somebody who takes labels off.
class Hour {
 public:
  explicit Hour(ObjectServer::Webhook webhook, const api::GnnJob& job)
      : server_(std::move(webhook)) {
    Json& stored = server_.objects["gnnjobs/" + job.metadata.name];
    stored = api::encode(job);
    stored["metadata"]["uid"] = "job-uid";
    stored["metadata"]["generation"] = 1;
    stored["metadata"]["labels"] = {
        {"kueue.x-k8s.io/queue-name", "queue"}, {"kueue.x-k8s.io/priority-class", "high"}
    };
    server_.touch(stored);
    on_job_change(caches_, [this](const objects::ObjectKey&) { changed_ = true; });
  }

  bool is_suspended = true;  ///< for ten minutes

  // Returns the number of passes.
  int run() {
    constexpr int kTooMany = 5000;
    int passes = 0;
    std::optional<TimePoint> due = clock_.now();
    Duration backoff = 1s;
    // Every five minutes something happens.
    for (int minute = 0; minute < 60 && passes < kTooMany;) {
      sync();
      if (changed_ || (due && *due <= clock_.now())) {
        changed_ = false;
        due.reset();
        ++passes;
        const runtime::Outcome outcome = reconciler_.reconcile({"train", "arxiv"});
        const bool failed = std::holds_alternative<runtime::Retry>(outcome);
        if (const auto* later = std::get_if<runtime::RequeueAfter>(&outcome)) {
          due = clock_.now() + later->delay;
        } else if (failed) {
          due = clock_.now() + backoff;
        }
        backoff = failed ? std::min<Duration>(2 * backoff, 5min) : 1s;
        continue;
      }
      const TimePoint next_minute = start_ + std::chrono::minutes(minute + 1);
      if (due && *due < next_minute) {
        clock_.advance(std::max<Duration>(*due - clock_.now(), 1ms));
        continue;
      }
      clock_.advance(std::max<Duration>(next_minute - clock_.now(), 1ms));
      play(++minute);
      if (minute % 5 == 0) changed_ = true;
    }
    return passes;
  }

  [[nodiscard]] const ObjectServer& server() const { return server_; }
  [[nodiscard]] std::string message() const {
    const auto job = caches_.jobs.find({"train", "arxiv"});
    std::string text;
    for (const api::Condition& each : job->status.conditions) text += each.message + "\n";
    return text;
  }

 private:
  void play(int minute) {
    if (minute == 2) admit_workloads();
    if (minute == 4) run_pods();
    if (minute == 10) {
      server_.change("pods", [](Json& pod) {
        // The webhook may have taken them all.
        Json& metadata = pod["metadata"];
        if (metadata.contains("labels"))
          metadata["labels"].erase(std::string(contract::kLabelNode));
      });
    }
    if (minute == 15 && is_suspended) suspend(true);
    if (minute % 5 == 0) finish_leaving();
    if (minute == 25) suspend(false);
    if (minute == 27) admit_workloads();
    if (minute == 30) run_pods();
    if (minute == 45) end_pods();
  }

  void suspend(bool suspended) {
    server_.change("gnnjobs", [&](Json& job) { job["spec"]["suspend"] = suspended; });
  }

  void admit_workloads() {
    server_.change("workloads", [](Json& workload) {
      if (!part_of(workload, "spec").value("active", true)) return;
      Json sets = Json::array();
      for (const Json& each : part_of(workload, "spec").value("podSets", Json::array())) {
        sets.push_back(
            {{"name", each.value("name", "")},
             {"count", each.value("count", 0)},
             {"flavors", {{"cpu", "flavor"}}}}
        );
      }
      const auto condition = [](const char* type) {
        return Json{
            {"type", type}, {"status", "True"}, {"reason", "Admitted"}, {"message", "by Kueue"}
        };
      };
      workload["status"] = {
          {"admission", {{"clusterQueue", "cq"}, {"podSetAssignments", std::move(sets)}}},
          {"conditions", {condition("QuotaReserved"), condition("Admitted")}}
      };
    });
  }

  void run_pods() {
    server_.change("pods", [](Json& pod) {
      if (pod["metadata"].contains("deletionTimestamp")) return;
      pod["spec"]["nodeName"] = "machine";
      pod["status"] = {
          {"phase", "Running"},
          {"conditions",
           {{{"type", "PodScheduled"}, {"status", "True"}}, {{"type", "Ready"}, {"status", "True"}}}
          }
      };
    });
  }

  void end_pods() {
    server_.change("pods", [](Json& pod) {
      pod["status"] = {
          {"phase", "Succeeded"},
          {"containerStatuses",
           {{{"name", "worker"}, {"state", {{"terminated", {{"exitCode", 0}}}}}}}}
      };
    });
  }

  void finish_leaving() {
    server_.change("pods", [](Json& pod) {
      if (!pod["metadata"].contains("deletionTimestamp")) return;
      pod["metadata"]["deletionGracePeriodSeconds"] = 0;
    });
  }

  // What watches by the job's label show.
  template <class T>
  void sync(runtime::Store<T>& store, const std::string& plural, bool labelled = true) {
    std::set<objects::ObjectKey> seen;
    for (const auto& [key, json] : server_.objects) {
      if (!key.starts_with(plural + "/")) continue;
      const Json labels = part_of(json, "metadata").value("labels", Json::object());
      if (labelled && !labels.contains(std::string(contract::kLabelJob))) continue;
      auto object = objects::ResourceTraits<T>::decode(json);
      if (!object) continue;
      seen.insert({object->metadata.namespace_, object->metadata.name});
      store.upsert(std::make_shared<const T>(std::move(*object)));
    }
    for (const auto& each : store.all()) {
      const objects::ObjectKey key{each->metadata.namespace_, each->metadata.name};
      if (!seen.contains(key)) store.erase(key, "999999");
    }
  }

  void sync() {
    if (synced_ == server_.version()) return;
    synced_ = server_.version();
    sync(caches_.jobs, "gnnjobs", false);
    sync(caches_.pods, "pods");
    sync(caches_.services, "services");
    sync(caches_.config_maps, "configmaps");
    sync(caches_.network_policies, "networkpolicies");
    sync(caches_.volcano_groups, "podgroups");
    sync(caches_.workloads_v1beta2, "workloads");
  }

  static ReconcilerOptions options() {
    ReconcilerOptions options;
    options.poll_progress = false;
    options.config.kueue = true;
    options.config.group_apis = {objects::GroupApi::Volcano};
    options.optional_apis = [] {
      OptionalApis apis;
      apis.groups = {objects::GroupApi::Volcano};
      apis.kueue = objects::KueueVersion::V1Beta2;
      return apis;
    };
    return options;
  }

  FakeClock clock_;
  const TimePoint start_ = clock_.now();
  ObjectServer server_;
  MetricsRegistry metrics_;
  client::TokenSource tokens_{client::KubeConfig{}, clock_};
  client::ApiClient api_{server_, tokens_, clock_, metrics_};
  Caches caches_;
  Parallel parallel_{1, 1};
  Executor executor_{api_, caches_, parallel_, clock_, [] { return Result<std::string>("key"); }};
  runtime::EventRecorder events_{
      api_, {.correlator = {}, .controller = "c", .instance = "i"}, clock_, metrics_
  };
  JobMetrics job_metrics_{metrics_, clock_};
  Reconciler reconciler_{
      caches_,
      executor_,
      events_,
      job_metrics_,
      clock_,
      options(),
      [](const objects::ObjectKey&, Duration) {}
  };
  bool changed_ = true;
  int synced_ = 0;
};

api::GnnJob grouped_job() {
  api::GnnJob job = api::sample_job();
  job.spec.scheduling.emplace().provider = api::GangProvider::Volcano;
  return job;
}

// Every field of everything that the operator writes, as far as this history goes.
std::vector<Hostility> all_hostilities() {
  std::map<std::string, std::set<std::string>> pointers;
  std::set<std::string> containers;
  const auto look = [&](const std::string& plural, const Json& object) {
    std::set<std::string> found;
    collect_pointers(object, "", found);
    for (const std::string& pointer : found) {
      if (object.at(Json::json_pointer(pointer)).is_structured())
        containers.insert(plural + pointer);
    }
    pointers[plural].merge(found);
  };
  Hour hour(look, grouped_job());
  static_cast<void>(hour.run());
  // The operator writes nothing else of a GNNJob.
  std::erase_if(pointers["gnnjobs"], [](const std::string& pointer) {
    return !pointer.starts_with("/status");
  });
  std::vector<Hostility> all;
  for (const auto& [plural, found] : pointers) {
    for (const std::string& pointer : found) {
      const bool has_items = containers.contains(plural + pointer);
      for (const Mutation mutation :
           {Mutation::Drop, has_items ? Mutation::Add : Mutation::Change}) {
        all.push_back({.plural = plural, .pointer = pointer, .mutation = mutation});
      }
    }
  }
  return all;
}

TEST(HostileWebhook, WithoutOneTheHourWritesEveryKindAndFewTimes) {
  Hour hour([](const std::string&, const Json&) {}, grouped_job());
  EXPECT_LT(hour.run(), 150);
  for (const char* key :
       {"POST services/",
        "POST configmaps/",
        "POST networkpolicies/",
        "POST podgroups/",
        "POST workloads/",
        "POST pods/",
        "PATCH workloads/",
        "PATCH pods/",
        "PUT gnnjobs/",
        "DELETE pods/",
        "DELETE podgroups/"}) {
    const bool written = std::ranges::any_of(hour.server().writes, [&](const auto& each) {
      return each.first.starts_with(key);
    });
    EXPECT_TRUE(written) << key;
  }
  EXPECT_NE(hour.message().find("All nodes"), std::string::npos) << hour.message();
}

TEST(HostileWebhook, WhateverItChangesNoObjectIsWrittenWithoutEnd) {
  // Each hour takes up to half a second, and under a sanitizer ten: GNN_FULL plays them all.
#ifdef GNN_SANITIZED
  constexpr int64_t kStride = 101;
#else
  constexpr int64_t kStride = 23;
#endif
  const int64_t stride = std::getenv("GNN_FULL") == nullptr ? kStride : 1;
  int64_t number = 0;
  for (const Hostility& each : all_hostilities()) {
    if (number++ % stride != 0) continue;
    int turn = 0;
    Hour hour(
        [&](const std::string& plural, Json& object) {
          if (plural == each.plural) mutate(object, each, ++turn);
        },
        grouped_job()
    );
    ::testing::internal::CaptureStderr();
    const int passes = hour.run();
    static_cast<void>(::testing::internal::GetCapturedStderr());
    EXPECT_LT(passes, 900) << to_text(each);
    for (const auto& [object, writes] : hour.server().writes) {
      // A status is written for each change of the job, and at most every 30 s for a webhook's.
      const int most = object.starts_with("PUT gnnjobs") ? 200 : 60;
      EXPECT_LT(writes, most) << to_text(each) << ": " << object;
    }
  }
}

TEST(HostileWebhook, WhatItKeepsUndoingIsToldInTheStatusAndOnceInTheLog) {
  const Hostility hostility{
      .plural = "networkpolicies", .pointer = "/spec/policyTypes", .mutation = Mutation::Drop
  };
  Hour hour(
      [&](const std::string& plural, Json& object) {
        if (plural == hostility.plural) mutate(object, hostility, 1);
      },
      grouped_job()
  );
  hour.is_suspended = false;
  ::testing::internal::CaptureStderr();
  static_cast<void>(hour.run());
  const std::string log = ::testing::internal::GetCapturedStderr();
  const std::string what = "the spec of networkpolicy arxiv-gnn";
  EXPECT_NE(hour.message().find(what), std::string::npos) << hour.message();
  const size_t told = log.find(what);
  ASSERT_NE(told, std::string::npos) << log;
  EXPECT_EQ(log.find(what, told + 1), std::string::npos) << log;
}

// More names than that no template has: extended resources are limits, and only Kubernetes' own are requested alone.
TEST(HostileWebhook, AJobOfAllResourcesThatTheApiAllowsIsQueuedByOneWrite) {
  api::GnnJob job = grouped_job();
  job.spec.workers.gpus_per_process = 1;
  api::Resources& resources = job.spec.workers.pod_template->resources;
  resources.requests = {{"cpu", "1"}, {"memory", "1Gi"}, {"ephemeral-storage", "1Gi"}};
  for (int i = 0; i < 15; ++i) resources.limits["a.example.com/r" + std::to_string(i)] = "1";
  Hour hour([](const std::string&, const Json&) {}, job);
  static_cast<void>(hour.run());
  bool has_pods = false;
  for (const auto& [object, writes] : hour.server().writes) {
    EXPECT_LT(writes, 20) << object;
    has_pods = has_pods || object.starts_with("POST pods/");
  }
  EXPECT_TRUE(has_pods) << hour.message();
}

}  // namespace
}  // namespace gnn::app
