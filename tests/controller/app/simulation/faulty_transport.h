#pragma once

#include "controller/client/http_transport.h"
#include "tests/controller/app/simulation/api_server.h"
#include "tests/controller/app/simulation/dice.h"
#include "tests/controller/app/simulation/simulated_time.h"

#include <functional>
#include <memory>
#include <string>

namespace gnn::simulation {

/// Thrown out of a call when the controller is killed in the middle of it.
struct Killed {};

/// How hostile the way to the API server is.
struct Faults {
  bool on = true;
  double rate = 0.05;        ///< of calls that fail
  double kills = 0;          ///< of writes at which the controller is killed
  bool wrong_clock = false;  ///< one of three API servers is an hour ahead
};

/// One controller's way to the API server: it fails by the dice, loses answers, takes time, and others
/// act between the sending of a request and its arrival.
class FaultyTransport final : public client::HttpTransport {
 public:
  struct Hooks {
    /// Others act, before the request arrives.
    std::function<void()> meanwhile;
    /// Told of each request that arrives. A test's planted fault may change it, or answer in the API
    /// server's place.
    std::function<std::optional<client::HttpResponse>(client::HttpRequest&)> arrives;
  };

  FaultyTransport(
      ApiServer& server,
      SimulatedTime& time,
      Dice& dice,
      const Faults& faults,
      std::string actor,
      Hooks hooks
  )
      : server_(server),
        time_(time),
        dice_(dice),
        faults_(faults),
        actor_(std::move(actor)),
        hooks_(std::move(hooks)) {}

  [[nodiscard]] Result<client::HttpResponse> send(const client::HttpRequest& request) override;
  /// Watches are played by the caches' feed.
  [[nodiscard]] Result<std::unique_ptr<client::HttpStream>> open(const client::HttpRequest& request
  ) override;

  /// What some API server says it is now.
  [[nodiscard]] TimePoint any_date();

 private:
  [[nodiscard]] client::HttpResponse arrive(const client::HttpRequest& request);
  [[nodiscard]] client::HttpResponse failure(const client::HttpRequest& request);
  [[nodiscard]] std::string date();

  ApiServer& server_;
  SimulatedTime& time_;
  Dice& dice_;
  const Faults& faults_;
  const std::string actor_;
  const Hooks hooks_;
};

}  // namespace gnn::simulation
