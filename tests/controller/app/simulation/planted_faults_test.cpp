#include "common/contract.h"
#include "common/log.h"
#include "tests/controller/app/simulation/world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace gnn::simulation {
namespace {

using client::HttpRequest;
using client::HttpResponse;

constexpr uint64_t kMostSeedsToFind = 60;

// The rule that is broken first, in any of some histories.
std::string first_broken(const PlantedFault& planted) {
  const ScopedLogOutput silent([](std::string_view) {});
  for (uint64_t seed = 1; seed <= kMostSeedsToFind; ++seed) {
    World world({.seed = seed, .planted = planted});
    if (const auto violation = world.play()) return violation->rule;
  }
  return "";
}

bool is_of(const HttpRequest& request, const std::string& method, const std::string& part) {
  return request.method == method && request.path.find(part) != std::string::npos;
}

bool is_status_of_job(const HttpRequest& request) {
  return is_of(request, "PUT", "/gnnjobs/") && request.path.ends_with("/status");
}

HttpResponse unchanged(ApiServer& server, const HttpRequest& request) {
  HttpRequest get;
  get.path = request.path;
  return server.handle(get, "nobody");
}

HttpRequest request_of(
    const std::string& method, const std::string& path, const Json& body, const std::string& type
) {
  HttpRequest request;
  request.method = method;
  request.path = path;
  request.body = body.dump();
  request.content_type = type;
  return request;
}

std::string path_of_job(const Json& job) {
  return "/apis/gnn.dev/v1alpha1/namespaces/" + key_in(job).namespace_ + "/gnnjobs/" +
         key_in(job).name;
}

std::string path_of_pods(const std::string& name_space) {
  return "/api/v1/namespaces/" + name_space + "/pods";
}

bool is_ended_job(const Json& job) {
  return condition_holds(job, "Complete") || condition_holds(job, "Failed");
}

// A write that changes nothing.
HttpRequest idle_write(const Json& job) {
  return request_of(
      "PATCH",
      path_of_job(job),
      {{"metadata", {{"uid", uid_in(job)}}}},
      "application/merge-patch+json"
  );
}

TEST(SimulatedRules, FindPodsOfTwoAttempts) {
  const auto twice = [](HttpRequest& request, ApiServer& server, const std::string& actor) {
    if (is_of(request, "POST", "/pods")) {
      Json pod = Json::parse(request.body);
      const std::string job = label_in(pod, contract::kLabelJob);
      if (const auto numbers = contract::numbers_of_pod(job, key_in(pod).name)) {
        pod["metadata"]["name"] = contract::pod_name(job, numbers->attempt + 1, numbers->node);
        HttpRequest another = request;
        another.body = pod.dump();
        static_cast<void>(server.handle(another, actor));
      }
    }
    return std::optional<HttpResponse>();
  };
  EXPECT_EQ(first_broken({.in_request = twice}), rule::kOneAttempt);
}

TEST(SimulatedRules, FindAPodWithoutAdmission) {
  const auto early = [](HttpRequest& request, ApiServer& server, const std::string& actor) {
    if (is_of(request, "POST", "/workloads")) {
      const Json workload = Json::parse(request.body);
      const std::string job = label_in(workload, contract::kLabelJob);
      const Json pod = {
          {"metadata",
           {{"name", contract::pod_name(job, 1, 0)},
            {"namespace", key_in(workload).namespace_},
            {"ownerReferences", workload["metadata"]["ownerReferences"]}}},
          {"spec", Json::object()}
      };
      static_cast<void>(server.handle(
          request_of("POST", path_of_pods(key_in(workload).namespace_), pod, ""), actor
      ));
    }
    return std::optional<HttpResponse>();
  };
  EXPECT_EQ(first_broken({.in_request = early}), rule::kAdmitted);
}

TEST(SimulatedRules, FindQuotaThatGoesBackBeforeThePods) {
  const auto hasty = [](HttpRequest& request, ApiServer& server, const std::string& actor) {
    if (!is_of(request, "POST", "/pods")) return std::optional<HttpResponse>();
    const std::string owner = owner_in(Json::parse(request.body));
    const auto owns = [&](const Object& each) {
      return owner_in(*each) == owner && !is_over(*each);
    };
    const std::vector<Object> pods = server.snapshot(kinds::kPods);
    if (!std::ranges::any_of(pods, owns)) return std::optional<HttpResponse>();
    for (const Object& each : server.snapshot(kinds::kWorkloads)) {
      if (owner_in(*each) != owner) continue;
      Json bare = *each;
      bare["metadata"].erase("finalizers");
      server.change(kinds::kWorkloads, std::move(bare), "somebody");
      server.remove(kinds::kWorkloads, key_in(*each), actor);
    }
    return std::optional<HttpResponse>();
  };
  EXPECT_EQ(first_broken({.in_request = hasty}), rule::kQuotaReleased);
}

TEST(SimulatedRules, FindQuotaThatIsKeptAfterTheEnd) {
  const auto keeps = [](HttpRequest& request, ApiServer& server, const std::string&) {
    const bool ends =
        is_of(request, "PATCH", "/workloads/") &&
        (request.body.find("Finished") != std::string::npos || request.body.starts_with("["));
    if (!ends) return std::optional<HttpResponse>();
    HttpRequest whole = request;
    if (whole.path.ends_with("/status")) whole.path.resize(whole.path.rfind('/'));
    const HttpResponse reply = unchanged(server, whole);
    if (reply.status != 200) return std::optional<HttpResponse>();
    const Json workload = Json::parse(reply.body);
    const auto is_kept = [&](const auto& each) {
      return uid_in(*each.second) == owner_in(workload) && is_ended_job(*each.second) &&
             !is_deleted(*each.second);
    };
    const bool kept =
        holds_quota(workload) && std::ranges::any_of(server.all(kinds::kJobs), is_kept);
    return kept ? std::optional(reply) : std::nullopt;
  };
  EXPECT_EQ(first_broken({.in_request = keeps}), rule::kQuotaHeld);
}

TEST(SimulatedRules, FindAFinalizerThatStays) {
  const auto keeps = [](HttpRequest& request, ApiServer& server, const std::string&) {
    if (!is_of(request, "PATCH", "/pods/") ||
        request.body.find("$deleteFromPrimitiveList") == std::string::npos) {
      return std::optional<HttpResponse>();
    }
    const HttpResponse pod = unchanged(server, request);
    if (pod.status != 200) return std::optional<HttpResponse>();
    const std::string owner = owner_in(Json::parse(pod.body));
    for (const auto& [key, job] : server.all(kinds::kJobs)) {
      if (uid_in(*job) == owner && !is_ended_job(*job)) return std::optional<HttpResponse>();
    }
    return std::optional(pod);
  };
  EXPECT_EQ(first_broken({.in_request = keeps}), rule::kNothingLeft);
}

TEST(SimulatedRules, FindAWriteAtRest) {
  const auto restless = [](const ApiServer& server) {
    std::vector<HttpRequest> writes;
    const auto& jobs = server.all(kinds::kJobs);
    if (!jobs.empty()) writes.push_back(idle_write(*jobs.begin()->second));
    return writes;
  };
  EXPECT_EQ(first_broken({.beside_pass = restless}), rule::kQuiet);
}

TEST(SimulatedRules, FindAHotLoop) {
  const auto hot = [](const ApiServer& server) {
    std::vector<HttpRequest> writes;
    const auto& jobs = server.all(kinds::kJobs);
    if (!jobs.empty()) writes.assign(200, idle_write(*jobs.begin()->second));
    return writes;
  };
  EXPECT_EQ(first_broken({.beside_pass = hot}), rule::kNoHotLoop);
}

TEST(SimulatedRules, FindAJobThatNeverEnds) {
  const auto drops = [](HttpRequest& request, ApiServer& server, const std::string&) {
    if (!is_status_of_job(request)) return std::optional<HttpResponse>();
    if (!is_ended_job(Json::parse(request.body))) return std::optional<HttpResponse>();
    HttpRequest whole = request;
    whole.path.resize(whole.path.rfind('/'));
    return std::optional(unchanged(server, whole));
  };
  EXPECT_EQ(first_broken({.in_request = drops}), rule::kEnds);
}

TEST(SimulatedRules, FindAnAttemptThatGoesBack) {
  const auto forgets = [](HttpRequest& request, ApiServer& server, const std::string&) {
    if (is_status_of_job(request)) {
      Json job = Json::parse(request.body);
      const Object present = server.find(kinds::kJobs, key_in(job));
      const Json status = present ? present->value("status", Json::object()) : Json::object();
      if (status.value("attempt", 0) > 1) job["status"]["attempt"] = 1;
      request.body = job.dump();
    }
    return std::optional<HttpResponse>();
  };
  EXPECT_EQ(first_broken({.in_request = forgets}), rule::kMonotonic);
}

TEST(SimulatedRules, FindAFinishedJobThatBeginsAgain) {
  const auto again = [](const ApiServer& server) {
    std::vector<HttpRequest> writes;
    for (const auto& [key, job] : server.all(kinds::kJobs)) {
      if (!is_ended_job(*job)) continue;
      Json changed = *job;
      changed["status"]["conditions"] = Json::array();
      writes.push_back(request_of("PUT", path_of_job(*job) + "/status", changed, "application/json")
      );
    }
    return writes;
  };
  EXPECT_EQ(first_broken({.beside_pass = again}), rule::kFinishedStays);
}

TEST(SimulatedRules, FindAFailureThatIsOurOwnStop) {
  std::set<std::string> stopped;
  const auto blames = [&stopped](HttpRequest& request, ApiServer&, const std::string&) {
    if (is_of(request, "DELETE", "/pods/")) {
      stopped.insert(request.path.substr(request.path.rfind('/') + 1));
    }
    if (is_status_of_job(request)) {
      Json job = Json::parse(request.body);
      for (const std::string& pod : stopped) {
        const auto numbers = contract::numbers_of_pod(key_in(job).name, pod);
        if (!numbers) continue;
        job["status"]["failures"].push_back(
            {{"attempt", numbers->attempt}, {"node", numbers->node}, {"reason", "PodDeleted"}}
        );
      }
      request.body = job.dump();
    }
    return std::optional<HttpResponse>();
  };
  EXPECT_EQ(first_broken({.in_request = blames}), rule::kOwnStop);
}

TEST(SimulatedRules, FindAJobThatIsDeletedBeforeItsTime) {
  const auto hasty = [](const ApiServer& server) {
    std::vector<HttpRequest> writes;
    for (const auto& [key, job] : server.all(kinds::kJobs)) {
      if (!is_ended_job(*job) || is_deleted(*job)) continue;
      const Json options = {{"preconditions", {{"uid", uid_in(*job)}}}};
      writes.push_back(request_of("DELETE", path_of_job(*job), options, "application/json"));
    }
    return writes;
  };
  EXPECT_EQ(first_broken({.beside_pass = hasty}), rule::kDue);
}

TEST(SimulatedRules, FindADataKeyInAStatus) {
  const auto tells = [](HttpRequest& request, ApiServer&, const std::string&) {
    if (is_status_of_job(request)) {
      Json job = Json::parse(request.body);
      job["status"]["message"] = std::string(kDataKeyMark) + "7";
      request.body = job.dump();
    }
    return std::optional<HttpResponse>();
  };
  EXPECT_EQ(first_broken({.in_request = tells}), rule::kNoSecrets);
}

TEST(SimulatedRules, FindADeleteOfWhateverHasTheName) {
  const auto blind = [](HttpRequest& request, ApiServer&, const std::string&) {
    if (request.method == "DELETE") request.body = "{}";
    return std::optional<HttpResponse>();
  };
  EXPECT_EQ(first_broken({.in_request = blind}), rule::kPrecondition);
}

TEST(SimulatedRules, FindAWriteToWhatBelongsToOthers) {
  const auto greedy = [](const ApiServer& server) {
    std::vector<HttpRequest> writes;
    for (const auto& [key, pod] : server.all(kinds::kPods)) {
      if (!owner_in(*pod).empty() || has_finalizer(*pod, contract::kPodFinalizer)) continue;
      const Json options = {{"preconditions", {{"uid", uid_in(*pod)}}}};
      writes.push_back(request_of(
          "DELETE", path_of_pods(key.namespace_) + "/" + key.name, options, "application/json"
      ));
    }
    return writes;
  };
  EXPECT_EQ(first_broken({.beside_pass = greedy}), rule::kForeign);
}

}  // namespace
}  // namespace gnn::simulation
