#include "controller/runtime/controller_loop.h"

#include "tests/support/fixed_random.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>

namespace gnn::runtime {
namespace {

using namespace std::chrono_literals;
using objects::ObjectKey;

// Counts calls by key and lets a test wait for them.
class Calls {
 public:
  int count(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const int calls = ++calls_[name];
    changed_.notify_all();
    return calls;
  }
  void await(const std::string& name, int calls) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return calls_[name] >= calls; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> calls_;
};

class ControllerLoopTest : public ::testing::Test {
 protected:
  SystemClock clock_;
  gnn::testing::FixedRandom random_;
  MetricsRegistry metrics_;
  Calls calls_;
};

TEST_F(ControllerLoopTest, APoisonObjectBacksOffAloneWhileOthersGoOn) {
  ControllerLoop loop(
      {.name = "test", .workers = 2, .backoff = {.initial = 1ms, .cap = 10ms, .jitter = 0}},
      clock_,
      random_,
      metrics_,
      [&](const ObjectKey& key) -> Outcome {
        calls_.count(key.name);
        if (key.name == "poison") throw std::runtime_error("boom");
        return Done{};
      }
  );
  loop.start();
  loop.queue().add({"ns", "poison"});
  for (int i = 0; i < 50; ++i) {
    loop.queue().add({"ns", "good" + std::to_string(i)});
  }
  calls_.await("good49", 1);
  calls_.await("poison", 4);
  loop.stop();
  const std::string text = metrics_.expose();
  EXPECT_EQ(
      text.find("controller_runtime_reconcile_panics_total{controller=\"test\"} 0"),
      std::string::npos
  );
  EXPECT_NE(
      text.find("controller_runtime_reconcile_total{controller=\"test\",result=\"success\"} 50"),
      std::string::npos
  );
}

TEST_F(ControllerLoopTest, OutcomesDecideWhenAKeyComesAgain) {
  ControllerLoop loop(
      {.name = "test", .workers = 1, .backoff = {.initial = 1ms, .cap = 2ms, .jitter = 0}},
      clock_,
      random_,
      metrics_,
      [&](const ObjectKey& key) -> Outcome {
        const int call = calls_.count(key.name);
        if (key.name == "retry" && call < 3) return Retry{.error = "later", .at_least = {}};
        if (key.name == "requeue" && call < 3) return RequeueAfter{1ms};
        return Done{};
      }
  );
  for (const char* result : {"success", "requeue_after", "error"}) {
    const std::string line =
        std::string("controller_runtime_reconcile_total{controller=\"test\",") + "result=\"" +
        result + "\"} 0";
    EXPECT_NE(metrics_.expose().find(line), std::string::npos) << "an increase needs a zero";
  }
  loop.start();
  for (const char* name : {"retry", "requeue"}) loop.queue().add({"ns", name});
  calls_.await("retry", 3);
  calls_.await("requeue", 3);
  loop.stop();
  const std::string text = metrics_.expose();
  for (const char* line :
       {"controller_runtime_reconcile_total{controller=\"test\",result=\"success\"} 2",
        "controller_runtime_reconcile_total{controller=\"test\",result=\"requeue_after\"} 2",
        "controller_runtime_reconcile_total{controller=\"test\",result=\"error\"} 2",
        "controller_runtime_terminal_reconcile_errors_total{controller=\"test\"} 0",
        "workqueue_retries_total{name=\"test\"} 2"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
}

// However many keys one namespace has, and however long each takes: also where a call is sent again
// and again within one reconcile.
TEST_F(ControllerLoopTest, ANamespaceWhoseReconcilesDoNotReturnLeavesOthersAQuarterOfTheWorkers) {
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::atomic<int> slow = 0;
  ControllerLoop loop(
      {.name = "test", .workers = 8},
      clock_,
      random_,
      metrics_,
      [&](const ObjectKey& key) -> Outcome {
        if (key.namespace_ == "slow") {
          ++slow;
          calls_.count("slow");
          ended.wait();
          return Done{};
        }
        return calls_.count(key.name) < 3 ? Outcome(RequeueAfter{1ms}) : Outcome(Done{});
      }
  );
  for (int i = 0; i < 400; ++i) loop.queue().add({"slow", std::to_string(i)});
  for (int i = 0; i < 20; ++i) loop.queue().add({"other", "job" + std::to_string(i)});
  loop.start();
  calls_.await("slow", 6);
  for (int i = 0; i < 20; ++i) calls_.await("job" + std::to_string(i), 3);
  EXPECT_EQ(slow, 6);
  EXPECT_EQ(loop.queue().held_back(), std::set<std::string>{"slow"});
  end.set_value();
  calls_.await("slow", 400);
  loop.stop();
}

TEST_F(ControllerLoopTest, StopLetsARunningReconcileEnd) {
  bool ended = false;
  ControllerLoop
      loop({.name = "test", .workers = 1}, clock_, random_, metrics_, [&](const ObjectKey&) {
        calls_.count("started");
        // Nothing comes once stop() has begun: what follows runs while it waits.
        EXPECT_FALSE(loop.queue().get().has_value());
        ended = true;
        return Done{};
      });
  loop.start();
  loop.queue().add({"ns", "a"});
  calls_.await("started", 1);
  loop.stop();
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace gnn::runtime
