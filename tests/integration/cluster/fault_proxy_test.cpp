#include "tests/support/fault_proxy.h"

#include "tests/support/control_plane.h"
#include "tests/support/http.h"
#include "tests/support/must.h"
#include "tests/support/read_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <future>
#include <string>

namespace gnn::testing {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

class FaultProxyTest : public ::testing::Test {
 protected:
  FaultProxyTest() {
    client_.url = proxy_->url();
    client_.ca_file = cluster_.ca_file();
  }

  std::string maps() const { return "/api/v1/namespaces/" + name_space_ + "/configmaps"; }
  Result<HttpReply> create(const std::string& name) const {
    const Json object = {{"metadata", {{"name", name}}}};
    return http_request(client_, "POST", maps(), object.dump());
  }
  bool exists(const std::string& name) const {
    return must(http_request(cluster_.admin_endpoint(), "GET", maps() + "/" + name)).status == 200;
  }
  std::unique_ptr<HttpStream> watch() const {
    return must(HttpStream::open(client_, maps() + "?watch=1"));
  }

  ControlPlane& cluster_ = ControlPlane::shared();
  const std::string name_space_ = must(cluster_.create_namespace("proxy"));
  std::unique_ptr<FaultProxy> proxy_ = must(FaultProxy::in_front_of(cluster_));
  HttpEndpoint client_{.url = ""};
};

TEST_F(FaultProxyTest, PassesAndRecordsRequests) {
  EXPECT_EQ(must(create("one")).status, 201);
  const HttpReply list = must(http_request(client_, "GET", maps() + "?labelSelector=a%3Db"));
  EXPECT_EQ(list.status, 200);
  EXPECT_EQ(Json::parse(list.body).at("kind"), "ConfigMapList");
  ASSERT_TRUE(proxy_->wait_for_requests(
      [](const RecordedRequest& request) { return request.finished; }, 2, seconds(10)
  ));
  const std::vector<RecordedRequest> requests = proxy_->requests();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0].method, "POST");
  EXPECT_TRUE(requests[0].is_write());
  EXPECT_THAT(requests[0].body, HasSubstr("one"));
  EXPECT_EQ(requests[0].status, 201);
  EXPECT_EQ(requests[1].path, maps());
  EXPECT_EQ(find_parameter(requests[1].query, "labelSelector"), "a=b");
  EXPECT_EQ(requests[1].reply_bytes, std::ssize(list.body));
  EXPECT_FALSE(requests[1].faulted);
}

TEST_F(FaultProxyTest, PassesTheClientsTokenAndNotItsOwnRights) {
  client_.bearer_token = "not-a-token";
  EXPECT_EQ(must(http_request(client_, "GET", maps())).status, 401);
  client_.bearer_token = read_file(cluster_.token_file());
  EXPECT_EQ(must(http_request(client_, "GET", maps())).status, 200);
}

TEST_F(FaultProxyTest, StreamsWatchEventsAsTheyCome) {
  const auto stream = watch();
  ASSERT_EQ(stream->status(), 200);
  // Drop what the namespace holds from the start.
  EXPECT_EQ(must(create("streamed")).status, 201);
  std::string line;
  while (line.find("\"streamed\"") == std::string::npos)
    line = must(stream->read_line(seconds(10))).value();
  EXPECT_EQ(Json::parse(line).at("type"), "ADDED");
}

TEST_F(FaultProxyTest, CutsAListAfterEveryNumberOfBytes) {
  const std::string path = maps() + "/nothing-here";  // a short, constant reply
  const int64_t whole = std::ssize(must(http_request(client_, "GET", path)).body);
  for (int64_t k = 0; k < whole; k += 7) {
    const int fault =
        proxy_->add_fault(any_request(), CutReply{.after_body_bytes = k, .reset = k % 2 == 0}, 1);
    const auto reply = http_request(client_, "GET", path);
    ASSERT_FALSE(reply) << "cut after " << k;
    EXPECT_EQ(reply.error().kind, ErrorKind::Network);
    EXPECT_EQ(proxy_->times_applied(fault), 1);
    ASSERT_TRUE(proxy_->wait_for_requests(
        [&](const RecordedRequest& request) {
          return request.faulted && request.finished && request.reply_bytes == k;
        },
        1,
        seconds(10)
    ));
  }
  EXPECT_EQ(must(http_request(client_, "GET", path)).status, 404);
}

TEST_F(FaultProxyTest, CutsAWatchInsideALine) {
  must(create("cut"));
  proxy_->add_fault(any_watch(), CutReply{.after_body_bytes = 17}, 1);
  const auto stream = watch();
  const auto line = stream->read_line(seconds(10));
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().kind, ErrorKind::Network);
  EXPECT_TRUE(must(watch()->read_line(seconds(10))).has_value()) << "the fault is used up";
}

TEST_F(FaultProxyTest, BlackHoleStaysSilentUntilItIsCut) {
  proxy_->add_fault(any_watch(), BlackHole{.after_body_bytes = 0});
  const auto stream = watch();
  EXPECT_EQ(stream->status(), 200);
  must(create("unseen"));
  const auto silence = stream->read_line(milliseconds(300));
  ASSERT_FALSE(silence);
  EXPECT_EQ(silence.error().kind, ErrorKind::Timeout);
  proxy_->cut_connections();
  const auto broken = stream->read_line(seconds(10));
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().kind, ErrorKind::Network);

  proxy_->add_fault(any_request(), BlackHole{});
  const auto nothing = http_request(client_, "GET", maps(), {}, {}, milliseconds(300));
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().kind, ErrorKind::Timeout);
}

TEST_F(FaultProxyTest, AnswersByItself) {
  struct Case {
    Answer answer;
    int status;
  };
  for (const Case& c :
       {Case{answer_gone(), 410}, Case{answer_conflict(), 409}, Case{answer_internal_error(), 500}
       }) {
    proxy_->add_fault(any_write(), c.answer, 1);
    const HttpReply reply = must(create("refused"));
    EXPECT_EQ(reply.status, c.status);
    EXPECT_EQ(Json::parse(reply.body).at("code"), c.status);
  }
  proxy_->add_fault(any_request(), answer_too_many_requests(seconds(3)), 1);
  const HttpReply busy = must(create("refused"));
  EXPECT_EQ(busy.status, 429);
  EXPECT_EQ(busy.headers.find("retry-after"), "3");
  EXPECT_FALSE(exists("refused"));

  proxy_->add_fault(any_watch(), answer_watch_expired(), 1);
  const Json event = Json::parse(must(watch()->read_line(seconds(10))).value());
  EXPECT_EQ(event.at("type"), "ERROR");
  EXPECT_EQ(event.at("object").at("code"), 410);
}

TEST_F(FaultProxyTest, DelaysRequestsAndReplies) {
  proxy_->add_fault(
      any_request(),
      Delay{.before_request = milliseconds(150), .before_reply = milliseconds(150)},
      1
  );
  const auto before = Clock::now();
  EXPECT_EQ(must(create("late")).status, 201);
  EXPECT_GE(Clock::now() - before, milliseconds(300));
}

TEST_F(FaultProxyTest, LosesTheReplyOfAWriteThatWasDone) {
  proxy_->add_fault(any_write(), LoseReply{}, 1);
  EXPECT_FALSE(create("done"));
  EXPECT_TRUE(exists("done"));
  proxy_->add_fault(any_write(), RefuseRequest{}, 1);
  EXPECT_FALSE(create("undone"));
  EXPECT_FALSE(exists("undone"));
}

TEST_F(FaultProxyTest, CallsBackAfterTheKthWriteBeforeTheClientHears) {
  std::atomic<bool> replied = false;
  std::atomic<bool> called = false;
  std::atomic<bool> done_before_reply = false;
  proxy_->after_write(2, [&] {
    called = true;
    done_before_reply = exists("second") && !replied;
  });
  must(create("first"));
  EXPECT_FALSE(called);
  must(create("second"));
  replied = true;
  EXPECT_TRUE(called);
  EXPECT_TRUE(done_before_reply);
  called = false;
  must(create("third"));
  EXPECT_FALSE(called) << "once only";
}

TEST_F(FaultProxyTest, ServesAnOldSnapshot) {
  must(create("old"));
  const Snapshot snapshot = must(proxy_->take_snapshot(maps()));
  must(create("new"));
  const int stale = proxy_->add_fault(any_request(), ServeSnapshot{snapshot});
  const std::string list = must(http_request(client_, "GET", maps())).body;
  EXPECT_THAT(list, HasSubstr("\"old\""));
  EXPECT_THAT(list, ::testing::Not(HasSubstr("\"new\"")));
  const HttpReply old_map = must(http_request(client_, "GET", maps() + "/old"));
  EXPECT_EQ(Json::parse(old_map.body).at("kind"), "ConfigMap");
  EXPECT_EQ(must(http_request(client_, "GET", maps() + "/new")).status, 404);
  EXPECT_EQ(must(create("newer")).status, 201) << "writes pass";
  EXPECT_FALSE(watch()->read_line(milliseconds(200)));
  proxy_->remove_fault(stale);
  EXPECT_EQ(must(http_request(client_, "GET", maps() + "/new")).status, 200);
}

TEST_F(FaultProxyTest, FragmentsKeepTheContent) {
  const Json object = {
      {"metadata", {{"name", "umlauts"}}}, {"data", {{"text", "gr\u00f6\u00dfe \u2603"}}}
  };
  ASSERT_EQ(must(http_request(client_, "POST", maps(), object.dump())).status, 201);
  const std::string whole = must(http_request(client_, "GET", maps() + "/umlauts")).body;
  proxy_->add_fault(any_request(), Fragment{.bytes = 3});
  EXPECT_EQ(must(http_request(client_, "GET", maps() + "/umlauts")).body, whole);
}

TEST_F(FaultProxyTest, RefusesAndAcceptsConnections) {
  proxy_->refuse_connections();
  const auto refused = http_request(client_, "GET", maps());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("refused"));
  proxy_->accept_connections();
  EXPECT_EQ(must(http_request(client_, "GET", maps())).status, 200);
}

TEST_F(FaultProxyTest, SpeaksPlainHttpWithoutACertificate) {
  const auto plain = must(FaultProxy::start({
      .upstream_url = cluster_.server_url(),
      .upstream_ca_file = cluster_.ca_file(),
      .upstream_certificate_file = cluster_.client_certificate_file(),
      .upstream_key_file = cluster_.client_key_file(),
  }));
  EXPECT_THAT(plain->url(), ::testing::StartsWith("http://"));
  EXPECT_EQ(must(http_request({.url = plain->url()}, "GET", maps())).status, 200);
}

TEST_F(FaultProxyTest, DeadApiServerLooksLikeABrokenConnection) {
  const auto orphan = must(FaultProxy::start({.upstream_url = "http://127.0.0.1:1"}));
  const auto reply = http_request({.url = orphan->url()}, "GET", "/");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().kind, ErrorKind::Network);
}

TEST_F(FaultProxyTest, StopsWhileWatchesAreOpen) {
  const auto first = watch();
  proxy_->add_fault(any_watch(), BlackHole{});
  auto second = std::async(std::launch::async, [this] {
    return HttpStream::open(client_, maps() + "?watch=1").has_value();
  });
  ASSERT_TRUE(proxy_->wait_for_requests(any_watch(), 2, seconds(10)));
  proxy_.reset();
  EXPECT_FALSE(second.get());
}

}  // namespace
}  // namespace gnn::testing
