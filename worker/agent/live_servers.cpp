#include "worker/agent/live_servers.h"

namespace gnn::agent {

const std::vector<LiveServer>& LiveServers::update(
    const std::vector<std::optional<ServerReport>>& reports, MonotonicPoint now
) {
  for (const auto& report : reports) {
    if (!report) continue;
    const auto [found, is_new] = seen_.try_emplace(report->server.server, Seen{*report, now});
    Seen& seen = found->second;
    if (is_new || report->server.restart < seen.report.server.restart) continue;
    const bool beats =
        report->server.restart > seen.report.server.restart || report->beat != seen.report.beat;
    seen = {.report = *report, .at = beats ? now : seen.at};
  }
  live_.clear();
  for (const auto& [number, seen] : seen_)
    if (!seen.report.leaving && now - seen.at <= timeout_) live_.push_back(seen.report.server);
  return live_;
}

}  // namespace gnn::agent
