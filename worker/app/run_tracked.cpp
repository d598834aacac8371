#include "worker/app/run_tracked.h"

#include "worker/progress/console_sink.h"
#include "worker/tracking/tracking.h"

namespace gnn::app {
namespace {

tracking::RunEnd end_of(const Result<tasks::TaskResult>& outcome) {
  if (!outcome) return tracking::RunEnd::Failed;
  return outcome->stopped ? tracking::RunEnd::Stopped : tracking::RunEnd::Done;
}

}  // namespace

Result<tasks::TaskResult> run_tracked(
    const api::GnnJob& job, const RankOptions& options, const TrackedRunOptions& tracked
) {
  // All ranks have the same reports.
  if (options.rendezvous.rank != 0 || !job.spec.tracking) return run_rank(job, options);
  GNN_ASSIGN_OR_RETURN(
      const std::unique_ptr<tracking::Tracking> trackers,
      tracking::Tracking::open(job, options.rendezvous, tracked.log_steps)
  );
  if (tracked.on_meter) tracked.on_meter(trackers->meter());
  progress::TeeSink progress({&options.progress, &trackers->sink()});
  const Result<tasks::TaskResult> outcome = run_rank(
      job,
      {.rendezvous = options.rendezvous,
       .progress = progress,
       .stop = options.stop,
       .activity = options.activity,
       .servers = options.servers,
       .checked_version = options.checked_version,
       .on_checked_version = options.on_checked_version}
  );
  trackers->close(end_of(outcome));
  return outcome;
}

}  // namespace gnn::app
