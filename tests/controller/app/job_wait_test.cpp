#include "controller/app/job_wait.h"

#include "common/api/codec.h"
#include "tests/common/api/sample_job.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace gnn::app {
namespace {

using Kind = WaitResult::Kind;
using nlohmann::json;
using ::testing::HasSubstr;

json waited_job(const std::string& uid, const std::string& condition = "") {
  json object = api::encode(api::sample_job());
  object["metadata"] = {{"name", "j"}, {"namespace", "ns"}, {"uid", uid}};
  object["status"] = {{"state", "Running"}};
  if (!condition.empty()) {
    object["status"]["conditions"] = {
        {{"type", condition},
         {"status", "True"},
         {"reason", condition},
         {"message", "it is " + condition},
         {"lastTransitionTime", "2026-01-31T12:00:00Z"}}
    };
  }
  return object;
}

std::string job_list(const json& items) {
  return json{{"metadata", {{"resourceVersion", "5"}}}, {"items", items}}.dump();
}

std::string watch_line(const char* type, const json& object) {
  return json{{"type", type}, {"object", object}}.dump() + "\n";
}

class JobWaitTest : public ::testing::Test {
 protected:
  JobWaitTest()
      : tokens_(client::KubeConfig{}, clock_), api_(transport_, tokens_, clock_, metrics_) {}

  void watch(const std::vector<std::string>& events) {
    testing::ScriptedReply reply;
    reply.stream = testing::ScriptedBody{.pieces = events, .breaks = {}};
    transport_.reply(reply);
  }

  WaitResult wait(Duration timeout = std::chrono::seconds(60)) {
    return wait_for_job(
        api_,
        {.namespace_ = "ns", .name = "j"},
        {.timeout = timeout, .pause = [this](Duration length) { clock_.advance(length); }},
        clock_
    );
  }

  testing::FakeClock clock_;
  testing::FakeTransport transport_;
  MetricsRegistry metrics_;
  client::TokenSource tokens_;
  client::ApiClient api_;
};

TEST_F(JobWaitTest, SeesTheEndOfAJobThatIsDeletedAtOnceAfterIt) {
  transport_.reply(200, job_list(json::array({waited_job("u")})));
  watch(
      {watch_line("MODIFIED", waited_job("u", "Complete")) +
       watch_line("DELETED", waited_job("u", "Complete"))}
  );
  const WaitResult result = wait();
  EXPECT_EQ(result.kind, Kind::Complete);
  EXPECT_EQ(result.message, "it is Complete");
  const std::string watched = transport_.requests().at(1).path;
  EXPECT_THAT(watched, HasSubstr("watch=true"));
  EXPECT_THAT(watched, HasSubstr("fieldSelector=metadata.name%3Dj"));
  EXPECT_THAT(watched, HasSubstr("resourceVersion=5"));
}

TEST_F(JobWaitTest, TakesTheLastStateOfADeletedJob) {
  transport_.reply(200, job_list(json::array({waited_job("u")})));
  watch({watch_line("DELETED", waited_job("u", "Failed"))});
  EXPECT_EQ(wait().kind, Kind::Failed);
}

TEST_F(JobWaitTest, EndsWhenTheJobThatWasSeenIsDeleted) {
  transport_.reply(200, job_list(json::array({waited_job("u")})));
  watch({watch_line("DELETED", waited_job("u"))});
  EXPECT_EQ(wait().kind, Kind::Deleted);
}

TEST_F(JobWaitTest, EndsWhenTheJobIsGoneAfterAWatchThatBroke) {
  transport_.reply(200, job_list(json::array({waited_job("u")})));
  watch({});
  transport_.reply(200, job_list(json::array()));
  EXPECT_EQ(wait().kind, Kind::Deleted);
}

TEST_F(JobWaitTest, AnotherJobOfTheNameIsNotTheOneThatWasSeen) {
  transport_.reply(200, job_list(json::array({waited_job("u")})));
  watch({});
  transport_.reply(200, job_list(json::array({waited_job("another", "Complete")})));
  EXPECT_EQ(wait().kind, Kind::Deleted);
}

TEST_F(JobWaitTest, AwaitsAJobThatIsNotThereYet) {
  transport_.reply(200, job_list(json::array()));
  watch({watch_line("ADDED", waited_job("u")), watch_line("MODIFIED", waited_job("u", "Complete"))}
  );
  EXPECT_EQ(wait().kind, Kind::Complete);
}

TEST_F(JobWaitTest, PollsWhereItMayNotList) {
  const std::string forbidden = R"({"kind": "Status", "code": 403, "reason": "Forbidden"})";
  transport_.reply(403, forbidden);
  transport_.reply(200, waited_job("u").dump());
  transport_.reply(404, R"({"kind": "Status", "code": 404, "reason": "NotFound"})");
  EXPECT_EQ(wait().kind, Kind::Deleted);
}

TEST_F(JobWaitTest, RetriesErrorsUntilTheTimeout) {
  // No reply is left: every call fails.
  const WaitResult result = wait(std::chrono::seconds(2));
  EXPECT_EQ(result.kind, Kind::TimedOut);
  EXPECT_EQ(transport_.requests().size(), 4U);
}

TEST_F(JobWaitTest, SaysWhatWasSeenLast) {
  transport_.reply(200, job_list(json::array({waited_job("u")})));
  watch({watch_line("MODIFIED", waited_job("u"))});
  transport_.reply(200, job_list(json::array({waited_job("u")})));
  watch({});
  transport_.reply(200, job_list(json::array({waited_job("u")})));
  EXPECT_EQ(wait(std::chrono::milliseconds(500)).message, "state Running");
}

}  // namespace
}  // namespace gnn::app
