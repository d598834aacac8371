#pragma once

#include "common/clock.h"
#include "controller/reconcile/gang.h"
#include "controller/reconcile/observed.h"
#include "controller/reconcile/plan.h"
#include "controller/reconcile/queue.h"
#include "controller/reconcile/servers.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace gnn::reconcile {

/// One reconcile pass in the making. A function that takes a `const Pass&` decides and returns what
/// it decided; one that takes a `Pass&` returns nothing and writes into `out`.
struct Pass {
  const Observed& in;
  int64_t attempt;  ///< current attempt; 1 before the first one starts
  /// The pod that prepares the data instead, as the only node, while preparing(); see prepare.h.
  GangView gang;
  ServersView servers;
  QueueView queue;
  Plan out;  ///< out.status starts as the observed one

  [[nodiscard]] const api::GnnJob& job() const { return in.job; }
  [[nodiscard]] bool preparing() const { return gang.prepares; }
  [[nodiscard]] const api::GnnJobStatus& status() const { return out.status; }
  [[nodiscard]] api::GnnJobStatus& status() { return out.status; }

  /// Sets a condition of out.status with this pass's generation and time.
  void set(std::string_view type, bool holds, std::string_view why, std::string message);

  /// What node 0, or the pod that prepares the data, said last, if it is of this attempt.
  [[nodiscard]] const api::ProgressReport* last_report() const;

  /// Since when nodes that failed wait for what explains it, by our own clock, and how long they
  /// may: a machine's clock may be wrong, and what it says may reach us late.
  [[nodiscard]] TimePoint awaits_culprit_since() const;
  [[nodiscard]] TimePoint awaits_culprit_until() const;

  /// Asks for another pass after `wait` at the latest.
  void requeue(Duration wait);
  void requeue_at(TimePoint time);
};

}  // namespace gnn::reconcile
