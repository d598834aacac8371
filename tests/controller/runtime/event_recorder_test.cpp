#include "controller/runtime/event_recorder.h"

#include "tests/support/fake_clock.h"
#include "tests/support/fake_transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

namespace gnn::runtime {
namespace {

using namespace std::chrono_literals;

EventText text(
    const std::string& reason,
    const std::string& note,
    const std::string& job = "j",
    const std::string& name_space = "ns"
) {
  EventText text;
  text.regarding.kind = "GNNJob";
  text.regarding.namespace_ = name_space;
  text.regarding.name = job;
  text.type = "Normal";
  text.reason = reason;
  text.action = "Reconcile";
  text.note = note;
  return text;
}

class EventCorrelatorTest : public ::testing::Test {
 protected:
  std::optional<EventWrite> say(const EventText& what) {
    return correlator_.correlate(what, TimePoint(now_.time_since_epoch()), now_);
  }
  static std::string note_of(const std::optional<EventWrite>& write) {
    return write && std::holds_alternative<CreateEvent>(*write)
               ? std::get<CreateEvent>(*write).event.note
               : "";
  }

  MonotonicPoint now_{1h};
  EventCorrelator correlator_{{}, "gnn.dev/gnn-controller", "pod-1"};
};

TEST_F(EventCorrelatorTest, TheSameEventAgainRaisesItsCount) {
  EXPECT_EQ(note_of(say(text("Running", "all 4 nodes run"))), "all 4 nodes run");
  const auto again = say(text("Running", "all 4 nodes run"));
  ASSERT_TRUE(again && std::holds_alternative<RaiseCount>(*again));
  EXPECT_EQ(std::get<RaiseCount>(*again).series.count, 2);
  now_ += 11min;
  EXPECT_EQ(note_of(say(text("Running", "all 4 nodes run"))), "all 4 nodes run");
}

TEST_F(EventCorrelatorTest, AnEventThatWasNotWrittenIsWrittenAnew) {
  const EventText running = text("Running", "all 4 nodes run");
  for (int i = 0; i < 2; ++i) {
    const auto write = say(running);
    ASSERT_TRUE(write && std::holds_alternative<CreateEvent>(*write)) << i;
    correlator_.forget(running, *write);
  }
  ASSERT_TRUE(say(running));
  const auto raise = say(running);
  ASSERT_TRUE(raise && std::holds_alternative<RaiseCount>(*raise));
  correlator_.forget(running, *raise);
  const auto anew = say(running);
  EXPECT_TRUE(anew && std::holds_alternative<CreateEvent>(*anew));
}

TEST_F(EventCorrelatorTest, ManySimilarEventsBecomeOne) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(note_of(say(text("Waiting", std::to_string(i)))), std::to_string(i));
  }
  EXPECT_EQ(note_of(say(text("Waiting", "10"))), "(combined from similar events): 10");
  const auto next = say(text("Waiting", "11"));
  ASSERT_TRUE(next && std::holds_alternative<RaiseCount>(*next));
  EXPECT_EQ(
      note_of(say(text("Running", "other reasons are not touched"))),
      "other reasons are not touched"
  );
}

TEST_F(EventCorrelatorTest, AnObjectThatFloodsIsCutOffAloneAndRefilled) {
  int written = 0;
  for (int i = 0; i < 100; ++i) {
    if (say(text("R" + std::to_string(i), "n"))) ++written;
  }
  EXPECT_EQ(written, 25);
  EXPECT_TRUE(say(text("Running", "n", "other")));
  now_ += 5min;
  EXPECT_TRUE(say(text("Later", "n")));
  EXPECT_FALSE(say(text("Later2", "n")));
}

TEST_F(EventCorrelatorTest, NotesAreCutBetweenCharacters) {
  std::string note;
  while (note.size() < 3000) note += "ü";
  const std::string written = note_of(say(text("Running", "x" + note)));
  EXPECT_LE(written.size(), 1024U);
  EXPECT_EQ(objects::Json::parse(objects::dump_json(written)).get<std::string>(), written);
}

TEST(EventRecorder, WritesInOrderAndSurvivesRefusals) {
  SystemClock clock;
  gnn::testing::FakeTransport transport;
  MetricsRegistry metrics;
  client::TokenSource tokens(client::KubeConfig{}, clock);
  client::ApiClient api(transport, tokens, clock, metrics);
  transport.reply(201, "{}").reply(403, "{}").reply(200, "{}");
  {
    EventRecorder recorder(
        api,
        {.correlator = {}, .controller = "c", .instance = "i", .writes_per_second = 1e6},
        clock,
        metrics
    );
    recorder.record(text("A", "1"));
    recorder.record(text("B", "2"));
    recorder.record(text("A", "1"));
    transport.await_requests(3);
  }
  const auto requests = transport.requests();
  EXPECT_EQ(requests.at(0).path, "/apis/events.k8s.io/v1/namespaces/ns/events");
  EXPECT_EQ(requests.at(2).method, "PATCH");
  EXPECT_NE(metrics.expose().find("gnn_operator_events_dropped_total 1"), std::string::npos);
}

TEST(EventRecorder, CreatesAgainWhatTheApiServerRefused) {
  SystemClock clock;
  gnn::testing::FakeTransport transport;
  MetricsRegistry metrics;
  client::TokenSource tokens(client::KubeConfig{}, clock);
  client::ApiClient api(transport, tokens, clock, metrics);
  transport.reply(500, "{}").reply(201, "{}").reply(404, "{}").reply(201, "{}");
  EventRecorder recorder(
      api,
      {.correlator = {}, .controller = "c", .instance = "i", .writes_per_second = 1e6},
      clock,
      metrics
  );
  for (int i = 0; i < 4; ++i) recorder.record(text("A", "1"));
  recorder.stop();
  std::vector<std::string> methods;
  for (const client::HttpRequest& request : transport.requests()) methods.push_back(request.method);
  EXPECT_EQ(methods, (std::vector<std::string>{"POST", "POST", "PATCH", "POST"}));
}

TEST(EventRecorder, StandsBehindWorkThatWaits) {
  gnn::testing::FakeClock clock;
  gnn::testing::FakeTransport transport;
  MetricsRegistry metrics;
  client::TokenSource tokens(client::KubeConfig{}, clock);
  client::ApiClient api(transport, tokens, clock, metrics);
  transport.reply(201, "{}").reply(201, "{}");
  EventRecorder recorder(
      api,
      {.correlator = {},
       .controller = "c",
       .instance = "i",
       .writes_per_second = 10,
       .writes_per_second_when_busy = 1,
       .busy = [](const std::string&) { return true; }},
      clock,
      metrics
  );
  recorder.record(text("A", "1"));
  recorder.record(text("B", "2"));
  clock.await_waiters(1);
  clock.advance(std::chrono::milliseconds(900));
  EXPECT_EQ(transport.requests().size(), 1U);
  clock.advance(std::chrono::milliseconds(100));
  transport.await_requests(2);
}

// Namespaces of the events that were sent, in order.
std::vector<std::string> namespaces(const gnn::testing::FakeTransport& transport) {
  std::vector<std::string> found;
  for (const client::HttpRequest& request : transport.requests()) {
    const std::string from =
        request.path.substr(std::string("/apis/events.k8s.io/v1/namespaces/").size());
    found.push_back(from.substr(0, from.find('/')));
  }
  return found;
}

TEST(EventRecorder, AFloodOfOneNamespaceHoldsUpNoOther) {
  gnn::testing::FakeClock clock;
  gnn::testing::FakeTransport transport;
  MetricsRegistry metrics;
  client::TokenSource tokens(client::KubeConfig{}, clock);
  client::ApiClient api(transport, tokens, clock, metrics);
  for (int i = 0; i < 200; ++i) transport.reply(201, "{}");
  EventRecorder recorder(
      api,
      {.correlator = {},
       .controller = "c",
       .instance = "i",
       .max_waiting = 100,
       .busy = [](const std::string& name_space) { return name_space == "flood"; }},
      clock,
      metrics
  );
  for (int i = 0; i < 150; ++i) recorder.record(text("A", "n", std::to_string(i), "flood"));
  transport.await_requests(1);
  for (int i = 0; i < 3; ++i) recorder.record(text("A", "n", std::to_string(i), "other"));
  clock.await_waiters(1);
  for (size_t sent = 2; sent <= 4; ++sent) {
    clock.advance(50ms);
    transport.await_requests(sent);
  }
  EXPECT_EQ(namespaces(transport), (std::vector<std::string>{"flood", "other", "other", "other"}));
  recorder.stop();
  const auto all = namespaces(transport);
  EXPECT_EQ(std::ranges::count(all, "other"), 3) << "those of the flood are dropped alone";
  EXPECT_GE(std::ranges::count(all, "flood"), 97);
}

TEST(EventRecorder, ANamespaceWhoseEventsAreTakenSlowlyHoldsUpNoOther) {
  SystemClock clock;
  gnn::testing::FakeTransport transport;
  MetricsRegistry metrics;
  client::TokenSource tokens(client::KubeConfig{}, clock);
  client::ApiClient api(transport, tokens, clock, metrics);
  gnn::testing::ScriptedReply silence;
  silence.hangs = true;
  transport.reply(silence);
  for (int i = 0; i < 3; ++i) transport.reply(201, "{}");
  EventRecorder recorder(
      api,
      {.correlator = {}, .controller = "c", .instance = "i", .writes_per_second = 1e6},
      clock,
      metrics
  );
  for (int i = 0; i < 3; ++i) recorder.record(text("A", "n", std::to_string(i), "slow"));
  transport.await_requests(1);
  for (int i = 0; i < 3; ++i) recorder.record(text("A", "n", std::to_string(i), "other"));
  transport.await_requests(4);
  EXPECT_EQ(namespaces(transport), (std::vector<std::string>{"slow", "other", "other", "other"}));
  api.cancel();
}

TEST(EventRecorder, StopDoesNotWaitForAnApiServerThatIsSilent) {
  SystemClock clock;
  gnn::testing::FakeTransport transport;
  MetricsRegistry metrics;
  client::TokenSource tokens(client::KubeConfig{}, clock);
  client::ApiClient api(transport, tokens, clock, metrics);
  gnn::testing::ScriptedReply silence;
  silence.hangs = true;
  transport.reply(silence).reply(201, "{}").reply(201, "{}");
  EventRecorder recorder(
      api, {.correlator = {}, .controller = "c", .instance = "i"}, clock, metrics
  );
  for (const char* job : {"1", "2", "3"}) recorder.record(text("A", "n", job));
  transport.await_requests(1);
  std::thread stopper([&] { recorder.stop(); });
  api.cancel();
  stopper.join();
  EXPECT_NE(metrics.expose().find("gnn_operator_events_dropped_total 3"), std::string::npos)
      << metrics.expose();
}

}  // namespace
}  // namespace gnn::runtime
