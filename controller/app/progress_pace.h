#pragma once

#include "common/clock.h"
#include "common/guarded.h"
#include "controller/objects/meta.h"

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

namespace gnn::app {

/// How often each job is asked for its progress. A namespace with few jobs is asked at the shortest
/// interval however many jobs others have; one with many shares what is left: all jobs together
/// cause at most 36 requests per second. A pod that does not answer in time is asked less and less
/// often, because it costs a thread for all of that time.
/// Threads: every method may be called from any thread.
class ProgressPace {
 public:
  /// The longest interval that silence alone causes. Shorter than the wait for what node 0 says of a
  /// failed node.
  static constexpr Duration kLongestSilence = std::chrono::seconds(30);

  explicit ProgressPace(Duration shortest) : shortest_(shortest) {}

  /// The job is asked from now on, if it was not. Returns after which time.
  Duration watch(const objects::ObjectKey& job);
  /// The job is asked no more.
  void forget(const objects::ObjectKey& job);
  /// The pod has answered, refused or broken the connection. Returns when to ask again.
  Duration answered(const objects::ObjectKey& job);
  /// The pod has used up the time that it has for an answer. Returns when to ask again.
  Duration silent(const objects::ObjectKey& job);

 private:
  /// By namespace and name: how often in a row the pod was silent.
  struct State {
    std::map<std::string, std::map<std::string, int>> silences;
    size_t jobs = 0;
  };

  int& silences_of(State& state, const objects::ObjectKey& job) const;
  [[nodiscard]] Duration interval(const State& state, const objects::ObjectKey& job) const;

  const Duration shortest_;
  Guarded<State> state_;
};

}  // namespace gnn::app
