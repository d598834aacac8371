#include "tests/integration/controller/fixture.h"
#include "tests/support/must.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace gnn::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// The URL ends in an HTTPS server that is an admission webhook for the pods of one namespace: it
// refuses those of the job "denied", says nothing about those of "unanswered", and fails on those of
// "failing". Every other pod is admitted.
class Webhook {
 public:
  explicit Webhook(Cluster& cluster)
      : cluster_(cluster), server_(must(FaultProxy::in_front_of(cluster.plane()))) {
    server_->add_fault(any_request(), AnswerBy{[](const RecordedRequest& request) {
                         return review(request, "");
                       }});
    server_->add_fault(asks_about("denied"), AnswerBy{[](const RecordedRequest& request) {
                         return review(request, "no machine is free on Mondays");
                       }});
    server_->add_fault(asks_about("unanswered"), BlackHole{});
    server_->add_fault(asks_about("failing"), answer_internal_error());
    cluster_.api().create(kConfigurations, configuration());
    // The API server takes a moment to notice it.
    if (!eventually([&] { return refuses_a_pod(); })) throw std::runtime_error("no webhook");
  }
  ~Webhook() {
    if (!gone_) remove();
  }

  void remove() {
    gone_ = true;
    cluster_.api().remove(std::string(kConfigurations) + "/" + cluster_.name_space());
  }
  // How often it was asked about a pod of that job.
  size_t asked_about(const std::string& job) const {
    return server_->requests(asks_about(job)).size();
  }

 private:
  static constexpr const char* kConfigurations =
      "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

  static RequestMatcher asks_about(const std::string& job) {
    return [job](const RecordedRequest& request) {
      return request.body.find("\"name\":\"" + job + "-1-") != std::string::npos;
    };
  }
  static Answer review(const RecordedRequest& request, const std::string& refusal) {
    const Json asked = Json::parse(request.body);
    Json response = {{"uid", asked["request"]["uid"]}, {"allowed", refusal.empty()}};
    if (!refusal.empty()) response["status"] = {{"code", 403}, {"message", refusal}};
    const Json answer = {
        {"apiVersion", "admission.k8s.io/v1"}, {"kind", "AdmissionReview"}, {"response", response}
    };
    return {
        .status = 200, .headers = {{"Content-Type", "application/json"}}, .body = answer.dump()
    };
  }

  Json configuration() const {
    const auto ca =
        must(run_command({"openssl", "base64", "-A", "-in", cluster_.plane().ca_file()}));
    return {
        {"metadata", {{"name", cluster_.name_space()}}},
        {"webhooks",
         {{{"name", "pods.example.com"},
           {"clientConfig", {{"url", server_->url() + "/pods"}, {"caBundle", ca.output}}},
           {"rules",
            {{{"apiGroups", {""}},
              {"apiVersions", {"v1"}},
              {"operations", {"CREATE"}},
              {"resources", {"pods"}}}}},
           {"namespaceSelector",
            {{"matchLabels", {{"kubernetes.io/metadata.name", cluster_.name_space()}}}}},
           {"failurePolicy", "Fail"},
           {"timeoutSeconds", 1},
           {"sideEffects", "None"},
           {"admissionReviewVersions", {"v1"}}}}}
    };
  }
  bool refuses_a_pod() const {
    const Json pod = {
        {"metadata", {{"name", "denied-1-probe"}}},
        {"spec", {{"containers", {{{"name", "c"}, {"image", "localhost/none:1"}}}}}},
    };
    try {
      cluster_.api().create(cluster_.pods() + "?dryRun=All", pod);
      return false;
    } catch (const std::runtime_error& error) {
      return std::string(error.what()).find("on Mondays") != std::string::npos;
    }
  }

  Cluster& cluster_;
  std::unique_ptr<FaultProxy> server_;
  bool gone_ = false;
};

std::string reason_not_scheduled(const Cluster& cluster, const std::string& job) {
  const Json status = cluster.job(job).value("status", Json::object());
  for (const Json& each : status.value("conditions", Json::array())) {
    if (each["type"] == "Scheduled" && each["status"] == "False") return each["reason"];
  }
  return "";
}

TEST(AdmissionWebhook, HoldsUpOnlyTheJobsThatItRefusesAndTheyStartOnceItIsGone) {
  Cluster cluster;
  Webhook webhook(cluster);
  ControllerProcess controller(cluster.plane(), cluster.arguments());
  FakeKubelets kubelets(cluster.plane(), cluster.name_space(), 0ms);
  kubelets.let_finish();
  const std::vector<std::string> held_up = {"denied", "unanswered", "failing"};
  for (const std::string& job : held_up) cluster.create_job(job);
  cluster.create_job("admitted");

  ASSERT_TRUE(eventually([&] { return cluster.holds("admitted", "Complete"); }))
      << cluster.describe("admitted") << controller.log();
  const std::map<std::string, std::string> reasons = {
      {"denied", "Refused"}, {"unanswered", "CreateFailed"}, {"failing", "CreateFailed"}
  };
  for (const auto& [job, reason] : reasons) {
    ASSERT_TRUE(eventually([&] { return reason_not_scheduled(cluster, job) == reason; }))
        << cluster.describe(job) << controller.log();
  }
  EXPECT_THAT(cluster.describe("denied"), HasSubstr("no machine is free on Mondays"));
  EXPECT_THAT(cluster.describe("unanswered"), HasSubstr("deadline exceeded"));
  EXPECT_THAT(cluster.describe("failing"), HasSubstr("failed calling webhook"));
  for (const std::string& job : held_up) {
    EXPECT_TRUE(cluster.pods_of(job).empty()) << "nothing half-started waits";
    EXPECT_LE(webhook.asked_about(job), 24U) << job;
  }

  webhook.remove();
  for (const std::string& job : held_up) {
    ASSERT_TRUE(eventually([&] { return cluster.holds(job, "Complete"); }))
        << cluster.describe(job) << controller.log();
    EXPECT_EQ(cluster.job(job)["status"]["attempt"], 1);
    EXPECT_EQ(cluster.job(job)["status"]["restarts"], 0);
  }
  EXPECT_EQ(kubelets.seen().size(), 8U);
}

}  // namespace
}  // namespace gnn::testing
