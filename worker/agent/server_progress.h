#pragma once

#include "common/guarded.h"
#include "common/metrics.h"
#include "common/progress_bar.h"
#include "worker/agent/pages.h"
#include "worker/agent/server_options.h"
#include "worker/progress/served_data.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace gnn::agent {

/// What a sampling server shows of itself: series for /metrics (docs/metrics.md), and while it loads
/// how far it has come. Passes on to `console` what it loads.
/// Threads: one loads, one calls the other functions, any reads the pages.
class ServerProgress final : public ProgressBar {
 public:
  /// `options` and `console` outlive this. `partitions`: of the job's data.
  ServerProgress(const ServerOptions& options, int64_t partitions, ProgressBar& console);

  void begin(std::string_view label, int64_t total, std::string_view unit) override;
  void advance_to(int64_t done, std::string_view note) override;
  void end() override;
  void say(std::string_view line) override;

  /// It serves from now on, until it leaves.
  void on_ready();
  void on_leaving();
  void on_data(const progress::ServerData& data);
  void on_memory(int64_t resident_bytes);

  /// They read this.
  [[nodiscard]] Pages pages() const;

 private:
  struct Now {
    std::string phase{};
    std::string label{};
    int64_t total = 0;  ///< 0: not known
    int64_t done = 0;
  };

  void enter(std::string_view phase, bool ready);
  [[nodiscard]] std::string progress_page() const;
  void set(const char* name, const char* help, double value);
  [[nodiscard]] MetricLabels labels() const;

  const ServerOptions& options_;
  ProgressBar& console_;
  MetricsRegistry registry_;
  mutable Guarded<Now> now_;
  progress::ServerData shown_;
};

}  // namespace gnn::agent
