#include "controller/client/api_client.h"

#include "controller/client/watch_decoder.h"
#include "controller/objects/pod.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_transport.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace gnn::client {
namespace {

using gnn::testing::FakeClock;
using gnn::testing::FakeTransport;
using gnn::testing::ScriptedReply;
using objects::Json;

std::string status_object(int code, const std::string& reason, const std::string& message) {
  return Json{{"kind", "Status"}, {"code", code}, {"reason", reason}, {"message", message}}.dump();
}

class ApiClientTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  FakeTransport transport_;
  MetricsRegistry metrics_;
  TokenSource tokens_{
      [] {
        KubeConfig config;
        config.token = "t";
        return config;
      }(),
      clock_
  };
  ApiClient api_{transport_, tokens_, clock_, metrics_, {.host = "h"}};
  const Resource pods_ = resource_of<objects::Pod>();
};

TEST_F(ApiClientTest, PathsArePercentEncoded) {
  EXPECT_EQ(
      resource_path({"gnn.dev", "v1alpha1", "gnnjobs", "gnnjobs"}, "a/b", "x y", "status"),
      "/apis/gnn.dev/v1alpha1/namespaces/a%2Fb/gnnjobs/x%20y/status"
  );
  EXPECT_EQ(resource_path(pods_, ""), "/api/v1/pods");
}

TEST_F(ApiClientTest, SendsTokenDeadlineAndBody) {
  transport_.reply(201, R"({"metadata":{"name":"p"}})");
  const Json pod = {{"metadata", {{"name", "p"}, {"namespace", "ns"}}}};
  ASSERT_TRUE(api_.create(pods_, pod));
  const HttpRequest request = transport_.requests().at(0);
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/api/v1/namespaces/ns/pods");
  EXPECT_EQ(request.bearer_token, "t");
  EXPECT_EQ(request.timeout, std::chrono::seconds(30));
  EXPECT_EQ(Json::parse(request.body), pod);
}

TEST_F(ApiClientTest, ErrorsAreTyped) {
  const struct {
    int code;
    std::string reason;
    ApiErrorKind kind;
  } cases[] = {
      {400, "BadRequest", ApiErrorKind::BadRequest},
      {403, "Forbidden", ApiErrorKind::Forbidden},
      {404, "NotFound", ApiErrorKind::NotFound},
      {409, "AlreadyExists", ApiErrorKind::AlreadyExists},
      {409, "Conflict", ApiErrorKind::Conflict},
      {410, "Expired", ApiErrorKind::Gone},
      {422, "Invalid", ApiErrorKind::Invalid},
      {429, "TooManyRequests", ApiErrorKind::TooManyRequests},
      {500, "InternalError", ApiErrorKind::Server},
      {504, "Timeout", ApiErrorKind::Timeout},
  };
  for (const auto& each : cases) {
    transport_.reply(each.code, status_object(each.code, each.reason, "because"));
    const auto reply = api_.get(pods_, {"ns", "p"});
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().kind, each.kind) << each.code;
    EXPECT_EQ(reply.error().reason, each.reason);
    EXPECT_NE(reply.error().message.find("because"), std::string::npos);
    EXPECT_NE(reply.error().message.find("GET /api/v1/namespaces/ns/pods/p"), std::string::npos);
  }
}

TEST_F(ApiClientTest, AReplyThatIsNotJsonIsADecodeError) {
  transport_.reply(200, "<html>");
  EXPECT_EQ(api_.get(pods_, {"ns", "p"}).error().kind, ApiErrorKind::Decode);
}

TEST_F(ApiClientTest, HonoursRetryAfter) {
  ScriptedReply busy;
  busy.status = 429;
  busy.headers = {{"retry-after", "3"}};
  transport_.reply(busy).reply(200, "{}");
  std::thread caller([&] { EXPECT_TRUE(api_.get(pods_, {"ns", "p"})); });
  clock_.await_waiters(1);
  EXPECT_EQ(transport_.requests().size(), 1U);
  clock_.advance(std::chrono::milliseconds(2900));
  EXPECT_EQ(transport_.requests().size(), 1U);
  clock_.advance(std::chrono::milliseconds(200));
  caller.join();
  EXPECT_EQ(transport_.requests().size(), 2U);
}

TEST_F(ApiClientTest, ALongRetryAfterIsLeftToTheCallerAndBounded) {
  const std::string status =
      R"({"kind": "Status", "code": 503, "details": {"retryAfterSeconds": 3600}})";
  ScriptedReply busy;
  busy.status = 503;
  busy.headers = {{"retry-after", "3600"}};
  ScriptedReply said;
  said.status = 503;
  said.body = status;
  transport_.reply(busy).reply(busy).reply(busy).reply(said).reply(
      200, R"({"type": "ERROR", "object": )" + status + "}\n"
  );
  const auto is_bounded = [](const ApiError& error) {
    return error.retry_after == std::chrono::seconds(30);
  };
  EXPECT_TRUE(is_bounded(api_.get(pods_, {"ns", "p"}).error()));
  EXPECT_TRUE(is_bounded(api_.list(pods_, {}, [](const Json&) {}).error()));
  EXPECT_TRUE(is_bounded(api_.watch(pods_, {}).error()));
  EXPECT_TRUE(is_bounded(api_.replace_status(pods_, Json::object()).error()));
  EXPECT_TRUE(is_bounded(api_error_from_status(Json::parse(status), "watch")));
}

TEST_F(ApiClientTest, RepeatedRetryAftersHoldACallNoLongerThanOne) {
  ScriptedReply busy;
  busy.status = 429;
  busy.headers = {{"retry-after", "4"}};
  transport_.reply(busy).reply(busy).reply(busy).reply(200, "{}");
  std::thread caller([&] {
    EXPECT_EQ(api_.get(pods_, {"ns", "p"}).error().retry_after, std::chrono::seconds(4));
  });
  for (size_t sent = 1; sent <= 2; ++sent) {
    clock_.await_waiters(1);
    clock_.advance(std::chrono::seconds(4));
    // The wait that has ended must not be taken for the next one.
    transport_.await_requests(sent + 1);
  }
  caller.join();
  EXPECT_EQ(transport_.requests().size(), 3U);
}

TEST_F(ApiClientTest, TellsWhatTimeRepliesSayItIs) {
  std::vector<TimePoint> told;
  ApiClient api(
      transport_,
      tokens_,
      clock_,
      metrics_,
      {.on_date = [&](TimePoint date, Duration /*took*/) { told.push_back(date); }}
  );
  ScriptedReply reply;
  reply.body = "{}";
  reply.headers = {{"date", "Tue, 14 Nov 2023 22:13:20 GMT"}};
  ScriptedReply page_of_proxy = reply;
  page_of_proxy.status = 503;
  ScriptedReply cached = reply;
  cached.headers["age"] = "3600";
  ScriptedReply odd = reply;
  odd.headers["date"] = "today";
  transport_.reply(reply).reply(page_of_proxy).reply(cached).reply(odd).reply(200, "{}");
  for (int i = 0; i < 5; ++i) (void)api.get(pods_, {"ns", "p"});
  EXPECT_EQ(told, std::vector{TimePoint(std::chrono::seconds(1'700'000'000))});
}

TEST_F(ApiClientTest, ShutDownEndsTheWaitForRetryAfter) {
  ScriptedReply busy;
  busy.status = 429;
  busy.headers = {{"retry-after", "9"}};
  transport_.reply(busy);
  std::thread caller([&] { EXPECT_FALSE(api_.get(pods_, {"ns", "p"})); });
  clock_.await_waiters(1);
  api_.shut_down();
  caller.join();
}

TEST_F(ApiClientTest, CancelEndsACallThatIsNotAnsweredAndAllLaterOnes) {
  ScriptedReply silence;
  silence.hangs = true;
  transport_.reply(silence).reply(silence).reply(silence);
  std::thread caller([&] {
    const auto reply = api_.get(pods_, {"ns", "p"});
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().kind, ApiErrorKind::Cancelled);
  });
  transport_.await_requests(1);
  api_.cancel();
  caller.join();
  EXPECT_EQ(api_.get(pods_, {"ns", "p"}).error().kind, ApiErrorKind::Cancelled);
  EXPECT_EQ(api_.watch(pods_, {}).error().kind, ApiErrorKind::Cancelled);
}

TEST_F(ApiClientTest, ListsPageByPage) {
  transport_
      .reply(200, R"({"metadata":{"resourceVersion":"7","continue":"a b"},"items":[{"n":1}]})")
      .reply(200, R"({"metadata":{"resourceVersion":"7"},"items":[{"n":2},{"n":3}]})");
  std::vector<int> seen;
  const auto version = api_.list(
      pods_,
      {.namespace_ = {}, .label_selector = "x=y", .resource_version = {}},
      [&](const Json& item) { seen.push_back(item["n"].get<int>()); }
  );
  EXPECT_EQ(version.value(), "7");
  EXPECT_EQ(seen, (std::vector{1, 2, 3}));
  EXPECT_EQ(transport_.requests().at(0).path, "/api/v1/pods?labelSelector=x%3Dy&limit=500");
  EXPECT_EQ(
      transport_.requests().at(1).path, "/api/v1/pods?labelSelector=x%3Dy&limit=500&continue=a%20b"
  );
}

TEST_F(ApiClientTest, AsksForMetadataAlone) {
  transport_.reply(200, R"({"metadata":{},"items":[]})").reply(200, "");
  static_cast<void>(api_.list(pods_, {.content = Content::Metadata}, [](const Json&) {}));
  static_cast<void>(api_.watch(pods_, {.content = Content::Metadata}));
  EXPECT_EQ(
      transport_.requests().at(0).accept,
      "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
  );
  EXPECT_EQ(
      transport_.requests().at(1).accept,
      "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
  );
}

TEST_F(ApiClientTest, HalvesAPageThatIsTooLarge) {
  const std::string too_large(static_cast<size_t>(kMaxReplyBytes) + 1, ' ');
  transport_.reply(200, R"({"metadata":{"continue":"c"},"items":[{"n":1}]})")
      .reply(200, too_large)
      .reply(200, too_large)
      .reply(200, R"({"metadata":{"resourceVersion":"7"},"items":[{"n":2}]})");
  std::vector<int> seen;
  const auto version = api_.list(pods_, {.page_size = 5}, [&](const Json& item) {
    seen.push_back(item["n"].get<int>());
  });
  EXPECT_EQ(version.value(), "7");
  EXPECT_EQ(seen, (std::vector{1, 2}));
  EXPECT_EQ(transport_.requests().at(2).path, "/api/v1/pods?limit=2&continue=c");
  EXPECT_EQ(transport_.requests().at(3).path, "/api/v1/pods?limit=1&continue=c");

  transport_.reply(200, too_large);
  const auto refused = api_.list(pods_, {.page_size = 1}, [](const Json&) {});
  EXPECT_EQ(refused.error().kind, ApiErrorKind::TooLarge);
}

TEST_F(ApiClientTest, AnObjectThatCannotBeReadIsSkippedIfTheCallerSaysSo) {
  const std::string body =
      R"({"metadata":{"resourceVersion":"7"},"items":[{"n":1},)"
      R"({"metadata":{"namespace":"ns","name":"p"},"spec":"0123456789"},{"n":2}]})";
  transport_.reply(200, body).reply(200, body);
  std::string seen;
  const auto version = api_.list(
      pods_,
      {.object_limits = {.max_bytes = 40},
       .unread = [&](const Json& known, const Error&) { seen += known.dump(); }},
      [&](const Json& item) { seen += item.dump(); }
  );
  EXPECT_EQ(version.value(), "7");
  EXPECT_EQ(seen, R"({"n":1}{"metadata":{"name":"p","namespace":"ns"}}{"n":2})");
  const auto refused = api_.list(pods_, {.object_limits = {.max_bytes = 40}}, [](const Json&) {});
  EXPECT_EQ(refused.error().kind, ApiErrorKind::Decode);
}

TEST_F(ApiClientTest, AnExpiredPageTokenIsGone) {
  transport_.reply(200, R"({"metadata":{"continue":"x"},"items":[]})")
      .reply(410, status_object(410, "Expired", "token too old"));
  EXPECT_EQ(api_.list(pods_, {}, [](const Json&) {}).error().kind, ApiErrorKind::Gone);
}

TEST_F(ApiClientTest, AListOfPagesThatNameThemselvesEnds) {
  for (int i = 0; i < 3; ++i) {
    transport_.reply(200, R"({"metadata":{"continue":"same"},"items":[{"n":1}]})");
  }
  const auto listed = api_.list(pods_, {}, [](const Json&) {});
  EXPECT_EQ(listed.error().kind, ApiErrorKind::Decode);
  EXPECT_NE(listed.error().message.find("names itself"), std::string::npos);
  EXPECT_EQ(transport_.requests().size(), 2U);
}

// Each page has another token, and there is always one more.
TEST_F(ApiClientTest, AListWithoutAnEndEnds) {
  class Endless final : public HttpTransport {
   public:
    Result<HttpResponse> send(const HttpRequest&) override {
      return HttpResponse{
          .status = 200,
          .headers = {},
          .body = R"({"metadata":{"continue":")" + std::to_string(++pages) + R"("},"items":[]})"
      };
    }
    Result<std::unique_ptr<HttpStream>> open(const HttpRequest&) override {
      return fail(ErrorKind::Network, "no watch");
    }
    int64_t pages = 0;
  } endless;
  ApiClient api(endless, tokens_, clock_, metrics_);
  const auto listed = api.list(pods_, {}, [](const Json&) {});
  EXPECT_EQ(listed.error().kind, ApiErrorKind::Decode);
  EXPECT_EQ(endless.pages, 20'000);
}

TEST_F(ApiClientTest, WhatIsNoListIsADecodeError) {
  for (const char* body :
       {"[]",
        "{}",
        R"({"items":[]})",
        R"({"items":3,"metadata":{}})",
        R"({"items":[],"metadata":{"continue":3}})"}) {
    transport_.reply(200, body);
    EXPECT_EQ(api_.list(pods_, {}, [](const Json&) {}).error().kind, ApiErrorKind::Decode) << body;
  }
}

TEST_F(ApiClientTest, DeleteCarriesItsPreconditions) {
  transport_.reply(200, "{}").reply(200, "{}");
  ASSERT_TRUE(api_.remove(pods_, {"ns", "p"}, {.uid = "u1", .resource_version = "7"}));
  ASSERT_TRUE(api_.remove(pods_, {"ns", "p"}, {}));
  const auto preconditions = [&](size_t i) {
    return Json::parse(transport_.requests().at(i).body).value("preconditions", Json());
  };
  EXPECT_EQ(preconditions(0), Json::parse(R"({"uid": "u1", "resourceVersion": "7"})"));
  EXPECT_EQ(preconditions(1), Json());
}

TEST_F(ApiClientTest, AWatchThatIsRefusedIsAnError) {
  transport_.reply(403, status_object(403, "Forbidden", "no watch for you"));
  const auto stream = api_.watch(pods_, {});
  ASSERT_FALSE(stream);
  EXPECT_EQ(stream.error().kind, ApiErrorKind::Forbidden);
}

TEST_F(ApiClientTest, WritesStopWhenTheGateIsShut) {
  bool open = true;
  ApiClient gated(transport_, tokens_, clock_, metrics_, {.host = "h", .may_write = [&] {
                                                            return open;
                                                          }});
  transport_.reply(200, "{}").reply(200, "{}");
  EXPECT_TRUE(gated.remove(pods_, {"ns", "p"}, {}));
  open = false;
  const auto refused = gated.remove(pods_, {"ns", "p"}, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ApiErrorKind::Cancelled);
  EXPECT_EQ(transport_.requests().size(), 1U);
  EXPECT_TRUE(gated.get(pods_, {"ns", "p"}));
}

TEST_F(ApiClientTest, CountsRequestsUnderClientGosNames) {
  transport_.reply(200, "{}");
  static_cast<void>(api_.get(pods_, {"ns", "p"}));
  const std::string text = metrics_.expose();
  EXPECT_NE(
      text.find("rest_client_requests_total{code=\"200\",host=\"h\",method=\"GET\"} 1"),
      std::string::npos
  ) << text;
}

}  // namespace
}  // namespace gnn::client
