#include "controller/runtime/reflector.h"

#include "controller/objects/pod.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_transport.h"
#include "tests/support/fixed_random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace gnn::runtime {
namespace {

using namespace std::chrono_literals;
using gnn::testing::ScriptedBody;
using gnn::testing::ScriptedReply;
using objects::Pod;

std::string pod(const std::string& name, int version) {
  return R"({"metadata":{"namespace":"ns","name":")" + name + R"(","resourceVersion":")" +
         std::to_string(version) + R"("}})";
}
std::string event(const std::string& type, const std::string& object) {
  return R"({"type":")" + type + R"(","object":)" + object + "}\n";
}
std::string list(int version, const std::string& items) {
  return R"({"metadata":{"resourceVersion":")" + std::to_string(version) + R"("},"items":[)" +
         items + "]}";
}

class ReflectorTest : public ::testing::Test {
 protected:
  ReflectorTest() {
    store_.on_change([this](const auto&, const auto&) {
      const std::lock_guard lock(mutex_);
      changed_.notify_all();
    });
  }

  void script_watch(ScriptedBody body) {
    ScriptedReply reply;
    reply.stream = std::move(body);
    transport_.reply(std::move(reply));
  }
  static ScriptedBody silent(std::vector<std::string> pieces = {}) {
    return {.pieces = std::move(pieces), .ends = false, .breaks = {}};
  }
  // Waits until the store holds exactly these pods, as name and version.
  void await(const std::map<std::string, std::string>& pods) {
    std::unique_lock lock(mutex_);
    const bool same = changed_.wait_for(lock, 20s, [&] {
      std::map<std::string, std::string> found;
      for (const auto& each : store_.all()) {
        found[each->metadata.name] = each->metadata.resource_version;
      }
      return found == pods;
    });
    ASSERT_TRUE(same);
  }

  SystemClock clock_;
  gnn::testing::FixedRandom random_;
  gnn::testing::FakeTransport transport_;
  MetricsRegistry metrics_;
  client::TokenSource tokens_{client::KubeConfig{}, clock_};
  client::ApiClient api_{transport_, tokens_, clock_, metrics_};
  Store<Pod> store_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Reflector<Pod> reflector_{
      api_,
      store_,
      {.namespace_ = {}, .label_selector = {}, .watcher = {.backoff = {.initial = 1ms, .cap = 2ms}}
      },
      clock_,
      random_,
      metrics_
  };
};

TEST_F(ReflectorTest, FollowsListAndWatch) {
  transport_.reply(200, list(5, pod("a", 1) + "," + pod("b", 2)));
  script_watch(silent(
      {event("MODIFIED", pod("a", 6)), event("DELETED", pod("b", 7)), event("ADDED", pod("c", 8))}
  ));
  reflector_.start();
  await({{"a", "6"}, {"c", "8"}});
  reflector_.stop();
  EXPECT_NE(transport_.requests().at(1).path.find("resourceVersion=5"), std::string::npos);
}

// The pods of one namespace fill their share; another's are kept, and what has room again comes back.
TEST_F(ReflectorTest, LeavesOutWhatItsBudgetHasNoRoomFor) {
  MemoryBudget budget(40'000);
  ReflectorOptions options;
  options.budget = &budget;
  Reflector<Pod> reflector(api_, store_, options, clock_, random_, metrics_);
  std::string items;
  for (int i = 0; i < 100; ++i) items += pod("p" + std::to_string(100 + i), 1) + ",";
  const auto of_another = [](const std::string& name) {
    std::string text = pod(name, 1);
    return text.replace(text.find("ns"), 2, "b2");
  };
  transport_.reply(200, list(5, items + of_another("other")));
  script_watch(silent(
      {event("ADDED", pod("late", 6)),
       event("DELETED", pod("late", 7)),
       event("ADDED", of_another("last"))}
  ));
  std::vector<std::string> vanished;
  store_.on_change([&](const auto& before, const auto& after) {
    const std::lock_guard lock(mutex_);
    if (after == nullptr) vanished.push_back(before->metadata.name);
    changed_.notify_all();
  });
  reflector.start();
  {
    std::unique_lock lock(mutex_);
    const auto is_read = [&] { return store_.find({"b2", "last"}) != nullptr; };
    ASSERT_TRUE(changed_.wait_for(lock, 20s, is_read));
  }
  EXPECT_TRUE(store_.find({"b2", "other"}));
  EXPECT_LE(budget.used_by("ns"), 30'000);
  reflector.stop();
  const size_t kept = store_.size();
  EXPECT_GT(kept, 10U);
  EXPECT_LT(kept, 50U);
  EXPECT_NE(budget.complaint("ns"), "");
  EXPECT_EQ(budget.complaint("b2"), "");
  EXPECT_EQ(std::ranges::count(vanished, "p199"), 1) << "the store tells of what it leaves out";
  EXPECT_EQ(std::ranges::count(vanished, "late"), 1);
  EXPECT_FALSE(budget.is_left_out("pods", {"ns", "late"})) << "it is gone";
  const std::string page = metrics_.expose();
  EXPECT_NE(page.find("gnn_operator_left_out_objects{resource=\"pods\"} "), std::string::npos)
      << page;
}

TEST_F(ReflectorTest, ListsAgainOnceThereIsRoomForWhatItLeftOut) {
  MemoryBudget budget(40'000);
  ReflectorOptions options;
  options.watcher = {.backoff = {.initial = 1ms, .cap = 2ms}};
  options.budget = &budget;
  options.list_for_room = Duration::zero();
  Reflector<Pod> reflector(api_, store_, options, clock_, random_, metrics_);
  auto full = budget.admit("ns", 28'000, 0);
  std::string large = pod("a", 1);
  large.insert(large.size() - 1, R"(,"status":{"message":")" + std::string(9000, 'x') + R"("})");
  const std::string bookmark = event("BOOKMARK", R"({"metadata":{"resourceVersion":"9"}})");
  transport_.reply(200, list(5, large));
  script_watch({.pieces = {bookmark}, .breaks = {}});
  reflector.start();
  transport_.await_requests(3);
  EXPECT_EQ(store_.size(), 0U);
  EXPECT_TRUE(budget.is_left_out("pods", {"ns", "a"}));

  full.reset();
  script_watch(silent({bookmark}));
  transport_.reply(200, list(5, large));
  script_watch(silent());
  await({{"a", "1"}});
  reflector.stop();
  EXPECT_EQ(budget.complaint("ns"), "");
}

TEST_F(ReflectorTest, EndsWhereItsResourceIsNotServedAnyMoreAndCanBeStartedAgain) {
  std::promise<void> unserved;
  int calls = 0;
  Reflector<Pod> reflector(
      api_,
      store_,
      {.watcher = {.backoff = {.initial = 1ms, .cap = 2ms}},
       .on_unserved =
           [&] {
             ++calls;
             unserved.set_value();
           }},
      clock_,
      random_,
      metrics_
  );
  transport_.reply(200, list(5, pod("a", 1)));
  script_watch({.pieces = {event("MODIFIED", pod("a", 6))}, .breaks = {}});
  transport_.reply(404, "{}").reply(404, "{}");
  reflector.start();
  unserved.get_future().wait();
  EXPECT_EQ(store_.size(), 0U);
  EXPECT_FALSE(store_.synced());
  EXPECT_EQ(metrics_.expose().find("watch_last_event"), std::string::npos) << "nobody waits for it";
  transport_.reply(200, list(9, pod("b", 8)));
  script_watch(silent());
  reflector.start();
  await({{"b", "8"}});
  reflector.stop();
  EXPECT_TRUE(store_.synced());
  EXPECT_EQ(calls, 1);
  EXPECT_LE(transport_.requests().size(), 6U) << "nothing is asked in between";
}

TEST_F(ReflectorTest, AWatchCutAtEveryByteLosesNothing) {
  const std::string first = event("ADDED", pod("a", 6)) + event("ADDED", pod("b", 7));
  const std::string all = first + event("ADDED", pod("c", 8));
  // What the server sends again after a cut: everything after the requested version.
  for (size_t cut = 0; cut <= all.size(); ++cut) {
    gnn::testing::FakeTransport transport;
    client::ApiClient api(transport, tokens_, clock_, metrics_);
    Store<Pod> store;
    transport.reply(200, list(5, ""));
    ScriptedReply broken;
    broken.stream = ScriptedBody{
        .pieces = {all.substr(0, cut)},
        .breaks = Error{.kind = ErrorKind::Network, .message = "cut"},
    };
    transport.reply(std::move(broken));
    ScriptedReply next;
    next.stream = silent();
    transport.reply(std::move(next));
    Reflector<Pod> reflector(
        api,
        store,
        {.watcher = {.backoff = {.initial = 1us, .cap = 1us}}},
        clock_,
        random_,
        metrics_
    );
    reflector.start();
    transport.await_requests(3);
    reflector.stop();
    // The watch goes on exactly after the last event that was whole, and the store shows those.
    size_t whole = 0;
    for (size_t end = all.find('\n'); end < cut; end = all.find('\n', end + 1)) ++whole;
    ASSERT_EQ(store.size(), whole) << "cut at byte " << cut;
    const std::string expected = "resourceVersion=" + std::to_string(5 + whole);
    ASSERT_NE(transport.requests().at(2).path.find(expected), std::string::npos) << cut;
  }
}

TEST_F(ReflectorTest, ADeletionDuringAGapIsSeenByTheRelist) {
  transport_.reply(200, list(5, pod("a", 1) + "," + pod("b", 2)));
  script_watch(
      {.pieces = {event("ERROR", R"({"kind":"Status","code":410,"reason":"Expired"})")},
       .breaks = {}}
  );
  transport_.reply(200, list(9, pod("a", 8)));
  script_watch(silent());
  reflector_.start();
  await({{"a", "8"}});
  reflector_.stop();
  EXPECT_NE(
      metrics_.expose().find(
          "gnn_operator_watch_restarts_total{reason=\"gone\",resource=\"pods\"} 1"
      ),
      std::string::npos
  );
}

TEST_F(ReflectorTest, AnObjectThatCannotBeDecodedIsSkippedAndCounted) {
  transport_.reply(200, list(5, R"({"metadata":{"name":3}},)" + pod("a", 1)));
  script_watch(silent(
      {event("MODIFIED", R"({"metadata":{"name":"p"},"status":[]})"), event("ADDED", pod("b", 7))}
  ));
  reflector_.start();
  await({{"a", "1"}, {"b", "7"}});
  reflector_.stop();
  EXPECT_NE(
      metrics_.expose().find("gnn_operator_undecodable_objects_total{resource=\"pods\"} 2"),
      std::string::npos
  );
}

TEST_F(ReflectorTest, ADeletedObjectThatCannotBeDecodedIsGoneAllTheSame) {
  transport_.reply(200, list(5, pod("a", 1) + "," + pod("b", 2)));
  script_watch(silent({event(
      "DELETED", R"({"metadata":{"namespace":"ns","name":"a","resourceVersion":"6"},"status":[]})"
  )}));
  reflector_.start();
  await({{"b", "2"}});
  reflector_.stop();
}

TEST_F(ReflectorTest, ALargeObjectIsSkippedAlone) {
  const auto large = [](const std::string& name, int version) {
    return R"({"metadata":{"namespace":"ns","name":")" + name + R"(","resourceVersion":")" +
           std::to_string(version) + R"("},"data":")" +
           std::string(static_cast<size_t>(objects::JsonLimits{}.max_bytes), 'x') + R"("})";
  };
  transport_.reply(200, list(5, large("big", 1) + "," + pod("a", 1) + "," + pod("b", 2)));
  script_watch(silent(
      {event("MODIFIED", large("big", 6)),
       event("DELETED", large("a", 7)),
       event("ADDED", pod("c", 8))}
  ));
  reflector_.start();
  await({{"b", "2"}, {"c", "8"}});
  reflector_.stop();
  EXPECT_NE(
      metrics_.expose().find("gnn_operator_undecodable_objects_total{resource=\"pods\"} 2"),
      std::string::npos
  );
  EXPECT_EQ(transport_.requests().size(), 2U) << "the watch goes on";
}

TEST_F(ReflectorTest, AFailedListIsTriedAgain) {
  transport_.reply(500, "{}").reply(403, "{}").reply(200, list(5, pod("a", 1)));
  script_watch(silent());
  reflector_.start();
  await({{"a", "1"}});
  reflector_.stop();
}

TEST_F(ReflectorTest, StandsStillWhenACallOutlivesItsDeadline) {
  gnn::testing::FakeClock clock;
  gnn::testing::FakeTransport transport;
  client::ApiClient api(transport, tokens_, clock, metrics_);
  ScriptedReply silence;
  silence.hangs = true;
  transport.reply(500, "{}").reply(silence);
  Store<Pod> store;
  Reflector<Pod> reflector(
      api,
      store,
      {.watcher = {.backoff = {.initial = 1h, .cap = 1h, .jitter = 0}}},
      clock,
      random_,
      metrics_
  );
  reflector.start();
  clock.await_waiters(1);
  clock.advance(59min);
  EXPECT_FALSE(reflector.stands_still()) << "it waits before the next try";
  clock.advance(1min);
  transport.await_requests(2);
  EXPECT_FALSE(reflector.stands_still());
  clock.advance(kHeartbeatPatience + 1s);
  EXPECT_TRUE(reflector.stands_still());
  reflector.stop();
  EXPECT_FALSE(reflector.stands_still());
}

TEST_F(ReflectorTest, ListsAgainWhenAskedWhateverItWaitsFor) {
  ScriptedReply silence;
  silence.hangs = true;
  // In turn it waits for a list, a watch that does not open, and one that says nothing.
  transport_.reply(silence).reply(200, list(5, pod("a", 1))).reply(silence);
  reflector_.start();
  transport_.await_requests(1);
  EXPECT_FALSE(reflector_.fresh());
  reflector_.list_again();
  transport_.await_requests(3);
  EXPECT_TRUE(reflector_.fresh());
  transport_.reply(200, list(7, pod("a", 6)));
  script_watch(silent({event("ADDED", pod("b", 8))}));
  reflector_.list_again();
  await({{"a", "6"}, {"b", "8"}});
  EXPECT_TRUE(reflector_.fresh());
  transport_.reply(silence);
  reflector_.list_again();
  EXPECT_FALSE(reflector_.fresh()) << "a list that began before does not count";
  transport_.await_requests(6);
  reflector_.stop();
  EXPECT_FALSE(reflector_.fresh());
}

TEST_F(ReflectorTest, ListsAgainWhenAskedWithoutWaitingForTheBackOff) {
  gnn::testing::FakeClock clock;
  gnn::testing::FakeTransport transport;
  client::ApiClient api(transport, tokens_, clock, metrics_);
  transport.reply(500, "{}");
  Store<Pod> store;
  Reflector<Pod> reflector(
      api, store, {.watcher = {.backoff = {.initial = 1h, .cap = 1h}}}, clock, random_, metrics_
  );
  reflector.start();
  clock.await_waiters(1);
  ScriptedReply silence;
  silence.hangs = true;
  transport.reply(200, list(5, "")).reply(silence);
  reflector.list_again();
  transport.await_requests(3);
  EXPECT_TRUE(reflector.fresh());
  reflector.stop();
}

// A watch that sends the same piece again and again, each a while after the last. The next one is refused.
class Trickle final : public client::HttpTransport {
 public:
  Trickle(gnn::testing::FakeClock& clock, std::string piece, Duration pause)
      : clock_(clock), piece_(std::move(piece)), pause_(pause) {}

  Result<client::HttpResponse> send(const client::HttpRequest&) override {
    return client::HttpResponse{.status = 200, .headers = {}, .body = list(5, "")};
  }
  Result<std::unique_ptr<client::HttpStream>> open(const client::HttpRequest&) override {
    if (opened_++ == 0) return std::make_unique<Stream>(*this);
    if (opened_ == 2) left_.set_value();
    return fail(ErrorKind::Network, "refused");
  }
  // Whether the first watch is left.
  [[nodiscard]] bool is_left() {
    return left_.get_future().wait_for(20s) == std::future_status::ready;
  }

 private:
  class Stream final : public client::HttpStream {
   public:
    explicit Stream(Trickle& trickle) : trickle_(trickle) {}
    [[nodiscard]] int status() const override { return 200; }
    [[nodiscard]] const std::map<std::string, std::string>& headers() const override {
      return headers_;
    }
    Result<std::string> read() override {
      trickle_.clock_.advance(trickle_.pause_);
      return trickle_.piece_;
    }

   private:
    Trickle& trickle_;
    std::map<std::string, std::string> headers_;
  };

  gnn::testing::FakeClock& clock_;
  const std::string piece_;
  const Duration pause_;
  int opened_ = 0;
  std::promise<void> left_;
};

TEST_F(ReflectorTest, AWatchThatTricklesWithoutAWholeEventIsLeft) {
  for (const char* piece : {"\n", " ", "{"}) {
    gnn::testing::FakeClock clock;
    Trickle trickle(clock, piece, 60s);
    client::ApiClient api(trickle, tokens_, clock, metrics_);
    Reflector<Pod> reflector(api, store_, {}, clock, random_, metrics_);
    reflector.start();
    EXPECT_TRUE(trickle.is_left()) << piece;
    reflector.stop();
    EXPECT_LE(clock.monotonic().time_since_epoch(), 5min) << piece;
  }
}

// The server was asked to end it after five to ten minutes.
TEST_F(ReflectorTest, AWatchThatBringsBookmarksForEverIsRenewed) {
  gnn::testing::FakeClock clock;
  const std::string bookmark = event("BOOKMARK", R"({"metadata":{"resourceVersion":"6"}})");
  Trickle trickle(clock, bookmark, 60s);
  client::ApiClient api(trickle, tokens_, clock, metrics_);
  Reflector<Pod> reflector(api, store_, {}, clock, random_, metrics_);
  reflector.start();
  EXPECT_TRUE(trickle.is_left());
  reflector.stop();
}

TEST_F(ReflectorTest, StopEndsASilentWatchAtOnce) {
  transport_.reply(200, list(5, ""));
  script_watch(silent());
  reflector_.start();
  transport_.await_requests(2);
  reflector_.stop();
  EXPECT_TRUE(store_.synced());
}

TEST_F(ReflectorTest, StopEndsAListThatNobodyAnswers) {
  ScriptedReply silence;
  silence.hangs = true;
  transport_.reply(silence);
  reflector_.start();
  transport_.await_requests(1);
  reflector_.stop();
  EXPECT_EQ(transport_.requests().size(), 1U);
}

TEST_F(ReflectorTest, StopEndsAWatchThatDoesNotOpen) {
  ScriptedReply silence;
  silence.hangs = true;
  transport_.reply(200, list(5, "")).reply(silence);
  reflector_.start();
  transport_.await_requests(2);
  reflector_.stop();
  EXPECT_EQ(transport_.requests().size(), 2U);
}

}  // namespace
}  // namespace gnn::runtime
