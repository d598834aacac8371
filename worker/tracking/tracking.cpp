#include "worker/tracking/tracking.h"

#include "common/log.h"
#include "common/url.h"
#include "worker/tracking/event_file.h"
#include "worker/tracking/mlflow.h"

#include <chrono>
#include <utility>

namespace gnn::tracking {
namespace {

// Of a volume that hangs when the rank starts.
constexpr Duration kTimeToOpen = std::chrono::seconds(5);

// A job that is done has time; others wait for the end of one that is stopped or fails.
Duration time_to_close(RunEnd end) {
  return end == RunEnd::Done ? std::chrono::seconds(5) : std::chrono::seconds(2);
}

}  // namespace

Tracking::Tracking(int64_t log_steps)
    : sink_(
          log_steps,
          *clock_,
          [this](const Record& record) {
            for (const auto& tracker : trackers_) tracker->add(record);
          }
      ),
      meter_(std::make_shared<progress::TrackingMeter>([this] { return data(); })) {}

Tracking::~Tracking() {
  meter_->stop();
}

Result<std::unique_ptr<Tracking>> Tracking::open(
    const api::GnnJob& job, const rendezvous::Rendezvous& place, int64_t log_steps
) {
  std::unique_ptr<Tracking> tracking(new Tracking(log_steps));
  if (!job.spec.tracking) return tracking;
  if (const auto& board = job.spec.tracking->tensor_board) {
    const auto open = [folder = board->path,
                       name = job.metadata.name,
                       incarnation = place.incarnation,
                       now = tracking->clock_->now()]() -> Result<std::unique_ptr<Tracker>> {
      return EventFile::create(folder, name, incarnation, now);
    };
    if (Status opened = tracking->add(progress::kTensorBoard, open); !opened)
      return tl::unexpected(
          with_context(std::move(opened).error(), "spec.tracking.tensorBoard.path")
      );
  }
  if (const auto& mlflow = job.spec.tracking->mlflow) {
    auto server = parse_url(mlflow->uri);
    if (!server)
      return tl::unexpected(with_context(std::move(server).error(), "spec.tracking.mlflow.uri"));
    const auto open = [server = *std::move(server),
                       experiment = mlflow->experiment,
                       run = RunDescription{
                           .job = job.metadata.name,
                           .job_namespace = job.metadata.namespace_,
                           .job_uid = place.incarnation.job_uid,
                           .parameters = parameters_of(job.spec),
                       }]() -> Result<std::unique_ptr<Tracker>> {
      return std::make_unique<Mlflow>(server, experiment, run);
    };
    GNN_RETURN_IF_ERROR(tracking->add(progress::kMlflow, open));
  }
  return tracking;
}

Status Tracking::add(std::string_view name, TrackerThread::Open open) {
  trackers_.push_back(std::make_unique<TrackerThread>(
      name, std::move(open), TrackerThreadOptions{}, clock_, random_
  ));
  Status opened = trackers_.back()->await_open(kTimeToOpen);
  if (opened || opened.error().kind != ErrorKind::Timeout) return opened;
  log_warning(
      "a tracker does not answer; training goes on",
      {{"tracker", std::string(name)}, {"why", opened.error().message}}
  );
  return {};
}

void Tracking::close(RunEnd end) {
  // All at once: a slow one does not take the others' time.
  for (const auto& tracker : trackers_) tracker->finish(end, time_to_close(end));
  for (const auto& tracker : trackers_) tracker->join();
}

progress::TrackingData Tracking::data() const {
  progress::TrackingData data;
  for (const auto& tracker : trackers_) data[std::string(tracker->name())] = tracker->counts();
  return data;
}

}  // namespace gnn::tracking
