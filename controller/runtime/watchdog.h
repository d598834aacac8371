#pragma once

#include "common/clock.h"
#include "common/guarded.h"

#include <functional>
#include <thread>
#include <utility>

namespace gnn::runtime {

/// Calls `late` on a thread of its own after `patience`, unless it is destroyed before.
class Watchdog {
 public:
  Watchdog(Clock& clock, Duration patience, std::function<void()> late)
      : thread_([this, &clock, until = clock.monotonic() + patience, late = std::move(late)] {
          const bool in_time =
              done_.lock().wait_until(clock, until, [](bool done) { return done; });
          if (!in_time) late();
        }) {}
  ~Watchdog() {
    *done_.lock() = true;
    done_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  Guarded<bool> done_{false};
  std::thread thread_;
};

}  // namespace gnn::runtime
