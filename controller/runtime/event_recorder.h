#pragma once

#include "common/clock.h"
#include "common/guarded.h"
#include "common/metrics.h"
#include "controller/client/api_client.h"
#include "controller/objects/event.h"
#include "controller/runtime/fair_line.h"

#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

namespace gnn::runtime {

/// One event about an object, for a person to read.
struct EventText {
  objects::ObjectReference regarding;
  std::string type;    ///< Normal | Warning
  std::string reason;  ///< CamelCase
  std::string action;  ///< CamelCase: what the controller did
  std::string note;    ///< a sentence
};

struct EventCorrelatorOptions {
  /// More events than this that differ only in their note are combined into one.
  int64_t similar_limit = 10;
  Duration similar_window = std::chrono::minutes(10);
  /// Each object may cause this many events at once, and then one more per `refill`.
  double burst = 25;
  Duration refill = std::chrono::minutes(5);
  size_t max_objects = 4096;
};

/// What to write: a new event, or a higher count for an existing one.
struct CreateEvent {
  objects::Event event;
};
struct RaiseCount {
  objects::ObjectKey key;
  objects::EventSeries series;
};
using EventWrite = std::variant<CreateEvent, RaiseCount>;

/// client-go's aggregation and spam filter as a pure state machine. correlate() returns nothing for
/// an event to drop.
/// Threads: one thread at a time.
class EventCorrelator {
 public:
  explicit EventCorrelator(
      EventCorrelatorOptions options, std::string controller, std::string instance
  );

  [[nodiscard]] std::optional<EventWrite> correlate(
      const EventText& text, TimePoint now, MonotonicPoint monotonic
  );
  /// That write of `text` failed: the same event is written anew next time, not counted.
  void forget(const EventText& text, const EventWrite& write);

 private:
  struct Similar {
    std::map<std::string, bool> notes;
    MonotonicPoint last{};
  };
  struct Written {
    objects::ObjectKey key;
    int64_t count = 1;
    MonotonicPoint last{};
  };
  struct ObjectState {
    double tokens = 0;
    MonotonicPoint refilled{};
    std::map<std::string, Similar> similar;
    std::map<std::string, Written> written;
    std::list<std::string>::iterator age;
  };

  [[nodiscard]] ObjectState& state_of(const EventText& text, MonotonicPoint now);
  [[nodiscard]] bool take_token(ObjectState& state, MonotonicPoint now) const;

  const EventCorrelatorOptions options_;
  const std::string controller_;
  const std::string instance_;
  std::unordered_map<std::string, ObjectState> objects_;
  std::list<std::string> by_age_;  ///< most recently used object first
};

struct EventRecorderOptions {
  EventCorrelatorOptions correlator;
  std::string controller;  ///< reportingController
  std::string instance;    ///< reportingInstance, the pod's name
  size_t max_waiting = 4096;
  /// How many events are written at the same time, each of another namespace.
  size_t writers = 4;
  /// Most writes per second.
  double writes_per_second = 20;
  /// Most of a namespace while its reconciles wait, which take precedence.
  double writes_per_second_when_busy = 2;
  /// Whether many reconciles wait before one of this namespace.
  std::function<bool(const std::string& namespace_)> busy = [](const std::string&) {
    return false;
  };
};

/// Writes events on threads of its own. Events are best effort: one that cannot be written is dropped
/// and counted. Namespaces take turns. Above max_waiting, the newest event of the namespace with the
/// most is dropped. The events of a namespace are written in order.
/// Threads: record() may be called from any thread.
class EventRecorder {
 public:
  EventRecorder(
      client::ApiClient& api, EventRecorderOptions options, Clock& clock, MetricsRegistry& metrics
  );
  ~EventRecorder();
  EventRecorder(const EventRecorder&) = delete;
  EventRecorder& operator=(const EventRecorder&) = delete;

  void record(EventText text);
  /// Writes the queued events, until the client's calls are cancelled, and joins.
  void stop();

 private:
  struct State {
    FairLine<EventText> waiting{1};
    /// Namespaces whose reconciles wait, and until when their next event does.
    std::multimap<MonotonicPoint, std::string> resting;
    MonotonicPoint next_write{};
    bool stopping = false;
    bool cancelled = false;
  };

  void run();
  /// Waits for an event and its time. Nothing: no more is to be written.
  [[nodiscard]] std::optional<EventText> take();
  /// The namespace's next event may be taken, at once or after a rest.
  void done(const std::string& namespace_, bool got_through);
  /// Returns false once the client's calls are cancelled.
  [[nodiscard]] bool write(const EventText& text);

  client::ApiClient& api_;
  const EventRecorderOptions options_;
  Clock& clock_;
  Guarded<EventCorrelator> correlator_;
  Counter dropped_;
  Guarded<State> state_;
  std::vector<std::thread> threads_;
};

}  // namespace gnn::runtime
