#pragma once

#include "tests/controller/app/simulation/api_server.h"
#include "tests/controller/app/simulation/dice.h"

#include <string>
#include <vector>

namespace gnn::simulation {

/// Kueue and its administrators.
class QueueManager {
 public:
  QueueManager(ApiServer& server, Dice& dice) : server_(server), dice_(dice) {}

  /// The objects that Workloads refer to.
  void set_up();
  /// Something happens to some Workload.
  void act();
  /// All that may be admitted is.
  void answer();

 private:
  void admit(const Object& workload);
  void evict(const Object& workload, const std::string& reason);
  void set_active(const Object& workload, bool active);
  void follow(const Object& workload);
  void set_condition(Json& workload, const std::string& type, bool holds, const std::string& reason)
      const;

  ApiServer& server_;
  Dice& dice_;
};

}  // namespace gnn::simulation
