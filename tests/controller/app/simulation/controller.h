#pragma once

#include "controller/app/caches.h"
#include "controller/app/executor.h"
#include "controller/app/group_apis.h"
#include "controller/app/job_metrics.h"
#include "controller/app/parallel.h"
#include "controller/app/reconciler.h"
#include "controller/client/server_clock.h"
#include "controller/runtime/event_recorder.h"
#include "controller/runtime/key_backoff.h"
#include "tests/controller/app/simulation/cache_feed.h"
#include "tests/controller/app/simulation/event_sink.h"
#include "tests/controller/app/simulation/faulty_transport.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::simulation {

/// What each data key of a job begins with.
inline constexpr std::string_view kDataKeyMark = "data-key-of-a-job-";

/// What a controller's pass sees of a job's queue, for the rules.
struct ViewOfQueue {
  ObjectKey job;
  bool queued = false;    ///< the job names a queue, or holds quota
  bool admitted = false;  ///< by a Workload that is admitted
};

/// A process of the controller, from its start to its end, driven step by step: the real caches,
/// reconciler, executor and client, and no thread.
class Controller {
 public:
  struct Settings {
    std::string name;
    bool kueue = false;
    bool groups = false;      ///< of pods, by coscheduling
    Duration clock_ahead{0};  ///< of the machine's wall clock
    bool busy = false;        ///< thinks that many jobs wait
  };
  struct World {
    ApiServer& server;
    SimulatedTime& time;
    Dice& dice;
    const Faults& faults;
    FaultyTransport::Hooks hooks;
    EventSink& events;
    /// Told before each pass.
    std::function<void(const ObjectKey&)> passes;
  };

  Controller(Settings settings, World world);

  /// Takes the Lease: lists everything again and works from then on.
  void lead();
  /// Renews the Lease, which tells it the time.
  void renew() { clock_.see(transport_.any_date(), Duration::zero()); }
  /// Somebody else holds the Lease by now: no write is sent any more.
  void lose() { leads_ = false; }
  [[nodiscard]] bool leads() const { return leads_; }

  /// Shows one more change of some kind to the caches, if any waits.
  bool see_something();
  void see_everything();
  void relist() { feed_.relist(world_.dice); }
  /// A watch falls silent for a while.
  void blind(Duration how_long) { feed_.blind(world_.dice, world_.time.passed() + how_long); }

  /// One pass of a key that is due; false if none is.
  bool work();
  /// When the next pass is due; nothing if none waits.
  [[nodiscard]] std::optional<Duration> next_due() const;
  /// Whether it knows which APIs are served, and which pods no watch shows.
  [[nodiscard]] bool knows_the_world() const {
    if (next_stray_look_) return false;
    return std::ranges::all_of(optional_kinds(), [this](const std::string& kind) {
      return feed_.watches(kind) == world_.server.serves(kind);
    });
  }
  /// A pass of every job, though nothing calls for it.
  void look_at_all();
  [[nodiscard]] const ViewOfQueue& view() const { return view_; }

 private:
  using Queue = std::map<ObjectKey, Duration>;

  void add(const ObjectKey& key, Duration delay);
  void discover();
  void look_for_strays();
  void take_outcome(const ObjectKey& key, const runtime::Outcome& outcome);
  void note_view(const ObjectKey& key);
  [[nodiscard]] app::ReconcilerOptions options();
  /// Those of APIs that it may use, and that may not be served.
  [[nodiscard]] std::vector<std::string> optional_kinds() const;
  [[nodiscard]] bool is_served(const std::string& kind) const;
  [[nodiscard]] app::OptionalApis optional_apis() const;

  const Settings settings_;
  World world_;
  bool leads_ = false;
  MachineClock machine_clock_;
  client::ServerClock clock_;
  MetricsRegistry metrics_;
  app::JobMetrics job_metrics_;
  client::TokenSource tokens_;
  FaultyTransport transport_;
  client::ApiClient api_;
  client::ApiClient event_api_;
  app::Caches caches_;
  app::Parallel parallel_{0, 1};
  app::Executor executor_;
  app::GroupApis apis_;
  SystemClock event_clock_;
  runtime::EventRecorder recorder_;
  app::Reconciler reconciler_;
  CacheFeed feed_;
  runtime::KeyBackoff<ObjectKey> backoff_;
  Queue queue_;
  std::optional<Duration> next_discovery_;
  Duration discovery_interval_{0};
  std::optional<Duration> next_stray_look_;
  ViewOfQueue view_;
};

}  // namespace gnn::simulation
