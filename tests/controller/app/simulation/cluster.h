#pragma once

#include "tests/controller/app/simulation/api_server.h"
#include "tests/controller/app/simulation/dice.h"

#include <set>
#include <string>
#include <vector>

namespace gnn::simulation {

/// Scheduler, kubelets, node lifecycle and garbage collector.
class Cluster {
 public:
  Cluster(ApiServer& server, SimulatedTime& time, Dice& dice)
      : server_(server), time_(time), dice_(dice) {}

  /// Something happens to some pod, or to a machine.
  void act();
  /// All that is asked for is done, and every worker succeeds.
  void answer();
  /// Deletes what has lost its owners, and what is in namespaces that end.
  void collect();

 private:
  [[nodiscard]] std::vector<Object> pods() const;
  void move_on(const Object& pod);
  void disturb(const Object& pod);
  void place(const Object& pod);
  [[nodiscard]] bool awaits_group(const Json& pod) const;
  void run(const Object& pod);
  void end(const Object& pod, int64_t code, const std::string& reason, const std::string& message);
  void leave(const Object& pod);
  void evict(const Object& pod, bool disrupted);
  void refuse(const Object& pod);
  void fail_init(const Object& pod);
  void silence(const std::string& machine);
  void wake_all();
  void put(Json pod) { server_.change(kinds::kPods, std::move(pod), "kubelet"); }
  [[nodiscard]] std::string any_message();
  void collect_dependents(const Object& owner);

  ApiServer& server_;
  SimulatedTime& time_;
  Dice& dice_;
  std::set<std::string> silent_;
};

}  // namespace gnn::simulation
