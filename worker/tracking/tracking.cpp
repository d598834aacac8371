#include "worker/tracking/tracking.h"

#include "common/url.h"
#include "worker/tracking/event_file.h"
#include "worker/tracking/mlflow.h"

#include <chrono>
#include <utility>

namespace gnn::tracking {
namespace {

// A job that is done has time; others wait for the end of one that is stopped or fails.
Duration time_to_close(RunEnd end) {
  return end == RunEnd::Done ? std::chrono::seconds(5) : std::chrono::seconds(2);
}

}  // namespace

Tracking::Tracking(int64_t log_steps)
    : sink_(
          log_steps,
          clock_,
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
    auto events = EventFile::create(
        board->path, job.metadata.name, place.incarnation, tracking->clock_.now()
    );
    if (!events)
      return tl::unexpected(
          with_context(std::move(events).error(), "spec.tracking.tensorBoard.path")
      );
    tracking->add(*std::move(events));
  }
  if (const auto& mlflow = job.spec.tracking->mlflow) {
    auto server = parse_url(mlflow->uri);
    if (!server)
      return tl::unexpected(with_context(std::move(server).error(), "spec.tracking.mlflow.uri"));
    tracking->add(std::make_unique<Mlflow>(
        *std::move(server),
        mlflow->experiment,
        RunDescription{
            .job = job.metadata.name,
            .job_namespace = job.metadata.namespace_,
            .job_uid = place.incarnation.job_uid,
            .parameters = parameters_of(job.spec),
        }
    ));
  }
  return tracking;
}

void Tracking::add(std::unique_ptr<Tracker> tracker) {
  trackers_.push_back(
      std::make_unique<TrackerThread>(std::move(tracker), TrackerThreadOptions{}, clock_, random_)
  );
}

void Tracking::close(RunEnd end) {
  for (const auto& tracker : trackers_) tracker->close(end, time_to_close(end));
}

progress::TrackingData Tracking::data() const {
  progress::TrackingData data;
  for (const auto& tracker : trackers_) data[std::string(tracker->name())] = tracker->counts();
  return data;
}

}  // namespace gnn::tracking
