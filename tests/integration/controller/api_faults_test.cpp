#include "tests/integration/controller/fixture.h"
#include "tests/support/must.h"
#include "tests/support/read_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <vector>

namespace gnn::testing {
namespace {

using namespace std::chrono_literals;

// Whatever the fault, the job ends as without it: Complete, in one attempt, each pod created once.
class ApiFaults : public ::testing::Test {
 protected:
  void start(std::vector<std::string> more = {}) {
    controller_ = std::make_unique<ControllerProcess>(
        cluster_.plane(), cluster_.arguments_through(*proxy_, std::move(more))
    );
  }
  void expect_undisturbed_end() {
    kubelets_.let_finish();
    ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Complete"); }, 90s))
        << cluster_.describe("j") << controller_->log();
    const Json status = cluster_.job("j")["status"];
    EXPECT_EQ(status["attempt"], 1);
    EXPECT_EQ(status["restarts"], 0);
    EXPECT_EQ(kubelets_.seen().size(), 2U);
    EXPECT_EQ(controller_->terminate(), 0);
  }
  // The API server seems to have another certificate of its CA.
  void serve_with(const ControlPlane::CertificateOptions& options) {
    ControlPlane& plane = cluster_.plane();
    const auto certificate = must(plane.issue_server_certificate("wrong", options));
    proxy_ = must(FaultProxy::in_front_of(plane, certificate.certificate, certificate.key));
  }
  void expect_refused(const std::string& kubeconfig) {
    controller_ = std::make_unique<ControllerProcess>(
        cluster_.plane(), ControllerArguments{kubeconfig, cluster_.name_space()}
    );
    const auto says_why = [&] {
      return controller_->log().find("the server's certificate must be") != std::string::npos;
    };
    EXPECT_TRUE(eventually(says_why)) << controller_->log();
    EXPECT_EQ(controller_->http("/readyz").status, 503);
    EXPECT_TRUE(proxy_->requests().empty());
    EXPECT_EQ(controller_->terminate(), 0);
  }
  [[nodiscard]] bool running() {
    return eventually([&] { return cluster_.holds("j", "Running"); }, 90s);
  }

  Cluster cluster_;
  std::unique_ptr<FaultProxy> proxy_ = must(FaultProxy::in_front_of(cluster_.plane()));
  FakeKubelets kubelets_{cluster_.plane(), cluster_.name_space(), 0ms};
  std::unique_ptr<ControllerProcess> controller_;
};

TEST_F(ApiFaults, WatchesCutInTheMiddleOfEvents) {
  // Until the faults are used up each watch breaks, after a different number of bytes: sometimes
  // within its first event, sometimes later. A watch that never received a whole event would back
  // off further and further.
  std::vector<int> cuts;
  for (const int64_t bytes : {0, 6001, 1, 9000, 333, 7001, 1000, 12345}) {
    const CutReply cut{.after_body_bytes = bytes, .reset = bytes % 2 == 1};
    cuts.push_back(proxy_->add_fault(any_watch(), cut, 1));
  }
  start();
  cluster_.create_job("j");
  expect_undisturbed_end();
  const auto applied =
      std::ranges::count_if(cuts, [&](int cut) { return proxy_->times_applied(cut) == 1; });
  EXPECT_GE(applied, 4);
}

TEST_F(ApiFaults, RepliesInPiecesOfFiveBytes) {
  proxy_->add_fault(any_request(), Fragment{.bytes = 5});
  start();
  cluster_.create_job("j");
  expect_undisturbed_end();
}

TEST_F(ApiFaults, ExpiredVersions) {
  proxy_->add_fault(any_watch(), answer_watch_expired(), 8);
  proxy_->add_fault(any_watch(), answer_gone(), 4);
  start();
  cluster_.create_job("j");
  expect_undisturbed_end();
}

TEST_F(ApiFaults, ConflictsOnEveryWrite) {
  proxy_->add_fault(any_write(), answer_conflict(), 8);
  start();
  cluster_.create_job("j");
  expect_undisturbed_end();
}

TEST_F(ApiFaults, TooManyRequestsAreSentAgainWhenTheServerSays) {
  const int fault = proxy_->add_fault(any_write(), answer_too_many_requests(1s), 4);
  start();
  cluster_.create_job("j");
  expect_undisturbed_end();
  EXPECT_EQ(proxy_->times_applied(fault), 4);
}

TEST_F(ApiFaults, ConflictsWithAUserWhoEditsMeanwhile) {
  // Each of the first statuses is overtaken by an edit that its pass has not seen.
  std::atomic<int> edits = 0;
  const auto edit = [&](const RecordedRequest& status) {
    const Json labels = {{"metadata", {{"labels", {{"edit", std::to_string(++edits)}}}}}};
    EXPECT_TRUE(cluster_.api().patch(cluster_.jobs() + "/j", labels));
    return status.body;
  };
  proxy_->add_fault(path_ends_with("/gnnjobs/j/status"), EditRequest{edit}, 4);
  start();
  cluster_.create_job("j");
  expect_undisturbed_end();
  EXPECT_EQ(edits, 4);
  const auto overtaken = [](const RecordedRequest& request) {
    return request.path.ends_with("/gnnjobs/j/status") && request.status == 409;
  };
  EXPECT_EQ(proxy_->requests(overtaken).size(), 4U) << "a status was written over an unseen edit";
  EXPECT_EQ(cluster_.job("j")["metadata"]["labels"]["edit"], "4");
  const auto writes = [](const RecordedRequest& request) {
    return request.is_write() && request.path.find("/events") == std::string::npos;
  };
  // Service, ConfigMap, NetworkPolicy, pods and their finalizers, and some ten statuses.
  EXPECT_LE(proxy_->requests(writes).size(), 40U);
}

TEST_F(ApiFaults, SlowRepliesAndTimeouts) {
  const auto no_watch = [](const RecordedRequest& request) { return !request.is_watch(); };
  proxy_->add_fault(no_watch, Delay{.before_reply = 500ms});
  const Answer timeout = answer_status(504, "Timeout", "Too large resource version: 9, current: 1");
  const auto lists = [](const RecordedRequest& request) { return request.is_list_or_get(); };
  const int refused = proxy_->add_fault(lists, timeout, 4);
  const int failed = proxy_->add_fault(any_write(), answer_internal_error(), 3);
  start();
  cluster_.create_job("j");
  expect_undisturbed_end();
  EXPECT_EQ(proxy_->times_applied(refused), 4);
  EXPECT_EQ(proxy_->times_applied(failed), 3);
  EXPECT_LE(proxy_->requests(no_watch).size(), 80U);
}

TEST_F(ApiFaults, APodThatIsDeletedInACompactedGapIsNoticed) {
  start();
  cluster_.create_job("j");
  ASSERT_TRUE(running()) << cluster_.describe("j");
  proxy_->refuse_connections();
  proxy_->cut_connections();
  const std::string pod = cluster_.pods() + "/j-1-1";
  ASSERT_TRUE(cluster_.api().patch(pod, {{"metadata", {{"finalizers", nullptr}}}}));
  cluster_.api().remove(pod, R"({"gracePeriodSeconds":0})");
  ASSERT_TRUE(cluster_.api().find(pod).is_null());
  must(cluster_.plane().compact_etcd());
  // What remembers the gap besides etcd is the API server's memory.
  must(cluster_.plane().restart(ControlPlanePart::ApiServer));
  proxy_->forget_requests();
  proxy_->accept_connections();
  ASSERT_TRUE(eventually([&] { return cluster_.job("j")["status"]["attempt"] == 2; }))
      << cluster_.describe("j") << controller_->log();
  kubelets_.let_finish();
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Complete"); }))
      << cluster_.describe("j");
  const Json status = cluster_.job("j")["status"];
  EXPECT_EQ(status["attempt"], 2);
  EXPECT_EQ(status["restarts"], 0) << "somebody deleted the pod";
  const auto lists_pods = [](const RecordedRequest& request) {
    return request.is_list_or_get() && request.path.ends_with("/pods");
  };
  EXPECT_FALSE(proxy_->requests(lists_pods).empty()) << "no watch can tell of it";
  EXPECT_EQ(kubelets_.seen().size(), 4U);
}

TEST_F(ApiFaults, ARotatedCaIsReadAgain) {
  controller_ = std::make_unique<ControllerProcess>(cluster_.plane(), cluster_.arguments());
  cluster_.create_job("j");
  ASSERT_TRUE(running()) << cluster_.describe("j") << controller_->log();
  must(cluster_.plane().rotate_server_ca());
  // The controller manager reads it at its start alone.
  must(cluster_.plane().restart(ControlPlanePart::ControllerManager));
  expect_undisturbed_end();
}

TEST_F(ApiFaults, LostRepliesToWrites) {
  proxy_->add_fault(any_write(), LoseReply{}, 6);
  start();
  cluster_.create_job("j");
  expect_undisturbed_end();
}

TEST_F(ApiFaults, SilentWatchesAreReconnected) {
  proxy_->add_fault(any_watch(), BlackHole{}, 5);
  start({"--watch-idle-timeout=2"});
  ASSERT_TRUE(controller_->wait_working());
  cluster_.create_job("j");
  expect_undisturbed_end();
}

TEST_F(ApiFaults, TheApiServerRestartsMidRun) {
  start();
  cluster_.create_job("j");
  ASSERT_TRUE(running()) << cluster_.describe("j");
  must(cluster_.plane().restart(ControlPlanePart::ApiServer));
  expect_undisturbed_end();
}

TEST_F(ApiFaults, ARevokedTokenIsReadAgain) {
  controller_ = std::make_unique<ControllerProcess>(
      cluster_.plane(),
      ControllerArguments{
          must(cluster_.plane().write_kubeconfig(
              cluster_.plane().server_url(), ControlPlane::KubeconfigUser::TokenFile
          )),
          cluster_.name_space()
      }
  );
  cluster_.create_job("j");
  ASSERT_TRUE(running()) << cluster_.describe("j") << controller_->log();
  must(cluster_.plane().rotate_token(ControlPlane::OldToken::Revoke));
  expect_undisturbed_end();
}

TEST_F(ApiFaults, SigtermEndsAControllerWhoseApiServerIsSilent) {
  start();
  cluster_.create_job("j");
  ASSERT_TRUE(running());
  const int fault = proxy_->add_fault(any_request(), BlackHole{});
  // Its watch still shows this; its writes never return.
  ASSERT_TRUE(cluster_.api().patch(cluster_.jobs() + "/j", {{"spec", {{"suspend", true}}}}));
  ASSERT_TRUE(eventually([&] { return proxy_->times_applied(fault) > 0; }));
  // Within a pod's grace period and with exit code 0: the watchdog cancels the writes.
  EXPECT_EQ(controller_->terminate(), 0) << controller_->log();
}

TEST_F(ApiFaults, AServerOfAnotherCaIsRefused) {
  const std::string other = (cluster_.plane().directory() / "other-ca.crt").string();
  must(run_command(
      {"openssl",
       "req",
       "-x509",
       "-newkey",
       "rsa:2048",
       "-nodes",
       "-days",
       "1",
       "-subj",
       "/CN=other",
       "-keyout",
       "/dev/null",
       "-out",
       other}
  ));
  const std::string kubeconfig =
      must(cluster_.plane().write_kubeconfig(cluster_.plane().server_url()));
  std::string text = read_file(kubeconfig);
  const size_t at = text.find(cluster_.plane().ca_file());
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, cluster_.plane().ca_file().size(), other);
  std::ofstream(kubeconfig) << text;
  expect_refused(kubeconfig);
}

TEST_F(ApiFaults, AServerOfAnotherNameIsRefused) {
  serve_with({.alternative_names = "DNS:other.example"});
  expect_refused(cluster_.arguments_through(*proxy_).kubeconfig);
}

TEST_F(ApiFaults, AServerWhoseCertificateHasExpiredIsRefused) {
  serve_with({.expired = true});
  expect_refused(cluster_.arguments_through(*proxy_).kubeconfig);
}

TEST_F(ApiFaults, NobodySaysWhichApisAreServed) {
  const auto discovery = [](const RecordedRequest& request) { return request.path == "/apis"; };
  proxy_->add_fault(discovery, answer_internal_error());
  start({"--kueue", "--gang-provider=Volcano"});
  cluster_.create_job("j");
  expect_undisturbed_end();
}

TEST_F(ApiFaults, AWatchOfJobsThatIsSilentWhileAUserRaisesATimeToLive) {
  const auto to_live = [](int seconds) {
    return Json{{"runPolicy", {{"ttlSecondsAfterFinished", seconds}}}};
  };
  cluster_.create_job("j", 2, to_live(15));
  start();
  kubelets_.let_finish();
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Complete"); })) << controller_->log();
  EXPECT_EQ(controller_->terminate(), 0);

  const auto watches_jobs = [](const RecordedRequest& request) {
    return request.is_watch() && request.path.ends_with("/gnnjobs");
  };
  proxy_->add_fault(watches_jobs, BlackHole{.after_body_bytes = 0});
  start();
  ASSERT_TRUE(controller_->wait_working()) << controller_->log();
  ASSERT_TRUE(cluster_.api().patch(cluster_.jobs() + "/j", {{"spec", to_live(86400)}}));
  const auto refused = [](const RecordedRequest& request) {
    return request.method == "DELETE" && request.path.ends_with("/gnnjobs/j") &&
           request.status == 409;
  };
  ASSERT_TRUE(proxy_->wait_for_requests(refused, 1, 60s)) << controller_->log();
  EXPECT_FALSE(cluster_.job("j").is_null());
  EXPECT_FALSE(proxy_->wait_for_requests(refused, 2, 2s)) << "it was read instead";
  EXPECT_EQ(controller_->terminate(), 0);
}

}  // namespace
}  // namespace gnn::testing
