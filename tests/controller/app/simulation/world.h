#pragma once

#include "tests/controller/app/simulation/api_server.h"
#include "tests/controller/app/simulation/cluster.h"
#include "tests/controller/app/simulation/controller.h"
#include "tests/controller/app/simulation/dice.h"
#include "tests/controller/app/simulation/event_sink.h"
#include "tests/controller/app/simulation/queue_manager.h"
#include "tests/controller/app/simulation/rules.h"
#include "tests/controller/app/simulation/users.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gnn::simulation {

/// A fault of the controller that a test plants, to see it found.
struct PlantedFault {
  /// May change a request of a controller, send others, or answer in the API server's place.
  std::function<std::optional<client::HttpResponse>(
      client::HttpRequest& request, ApiServer& server, const std::string& actor
  )>
      in_request{};
  /// What the controller sends before a pass.
  std::function<std::vector<client::HttpRequest>(const ApiServer& server)> beside_pass{};
};

struct WorldOptions {
  uint64_t seed = 0;
  int steps = 150;
  bool records = false;  ///< keeps the history as text
  PlantedFault planted{};
};

/// One history: a cluster with its users, a controller or two, and everything that goes wrong. It is a
/// function of its seed alone.
class World {
 public:
  explicit World(WorldOptions options);

  /// Plays the history: a hostile part, a calm one, and a quiet one. The first violation ends it.
  [[nodiscard]] std::optional<Violation> play();
  [[nodiscard]] const std::vector<std::string>& history() const { return history_; }
  [[nodiscard]] size_t passes() const { return passes_; }
  [[nodiscard]] size_t finished() const { return finished_; }
  /// Of all that was written, in order.
  [[nodiscard]] uint64_t digest() const { return digest_; }

 private:
  void step();
  void calm();
  void set_clocks();
  void quiet();
  void settle();
  void act();
  void pass_time(Duration by);
  void work();
  void meanwhile(const Controller* controller);
  void take_over();
  void restart();
  [[nodiscard]] std::unique_ptr<Controller> start_controller();
  [[nodiscard]] std::optional<client::HttpResponse> arrives(
      client::HttpRequest& request, const std::string& actor
  );
  void send_planted(const std::string& actor);
  void tell(const std::string& kind, const Change& change, const std::string& actor);
  void note(const std::string& line);

  const WorldOptions options_;
  Dice dice_;
  SimulatedTime time_;
  const bool kueue_;
  const bool groups_;
  const bool busy_;
  const Duration clock_ahead_;
  Faults faults_;
  Rules rules_;
  EventSink events_;
  ApiServer server_;
  Cluster cluster_;
  QueueManager queue_;
  Users users_;
  std::unique_ptr<Controller> leader_;
  std::vector<std::unique_ptr<Controller>> former_;  // that have not come back from a call yet
  int controllers_ = 0;
  int depth_ = 0;  // of calls during which others act
  bool hostile_ = true;
  size_t passes_ = 0;
  size_t finished_ = 0;
  uint64_t digest_ = 0;
  std::vector<std::string> history_;
};

}  // namespace gnn::simulation
