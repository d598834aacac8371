#pragma once

#include "common/result.h"
#include "tests/support/control_plane.h"

#include <memory>
#include <string>
#include <string_view>

namespace gnn::testing {

/// Kueue as a process beside a control plane, installed as its administrator would: its module's CRDs, roles
/// and webhooks, read access to GNNJobs and nothing more, and GNNJob named as an external framework. Its
/// program comes from tools/cluster/kueue/build. It listens on 127.0.0.2, and
/// dies with the test's process.
/// Threads: one thread at a time.
class Kueue {
 public:
  /// Installs and starts it, and waits until it answers. `configuration` is a JSON object that is merged into
  /// Kueue's Configuration, e.g. R"({"waitForPodsReady": {"timeout": "1m"}})". At most one for a control
  /// plane.
  [[nodiscard]] static Result<std::unique_ptr<Kueue>> start(
      ControlPlane& cluster, std::string_view configuration = "{}"
  );
  ~Kueue();
  Kueue(const Kueue&) = delete;
  Kueue& operator=(const Kueue&) = delete;

  [[nodiscard]] std::string log() const;

 private:
  class Impl;
  explicit Kueue(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gnn::testing
