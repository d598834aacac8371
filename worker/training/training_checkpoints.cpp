#include "worker/training/training_checkpoints.h"

#include "worker/checkpoint/checkpoint_format.h"
#include "worker/training/agreement.h"
#include "worker/training/meters.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace gnn::training {
namespace {

// Gives every rank the bytes of rank 0.
Status broadcast_bytes(comm::Communicator& communicator, std::string& bytes) {
  if (communicator.world_size() == 1) return {};
  const at::Tensor size = at::full({1}, static_cast<int64_t>(bytes.size()), at::kLong);
  GNN_RETURN_IF_ERROR(communicator.broadcast(size, 0));
  const at::Tensor content = at::empty({size.item<int64_t>()}, at::kByte);
  if (content.numel() == 0) {
    bytes.clear();
    return {};
  }
  if (communicator.rank() == 0) std::memcpy(content.mutable_data_ptr(), bytes.data(), bytes.size());
  GNN_RETURN_IF_ERROR(communicator.broadcast(content, 0));
  bytes.assign(
      static_cast<const char*>(content.const_data_ptr()), static_cast<size_t>(content.numel())
  );
  return {};
}

// Whether rank 0 succeeded, for every rank.
template <class T>
Status agree(comm::Communicator& communicator, const Result<T>& result) {
  const Status mine = result ? Status() : tl::unexpected(result.error());
  return training::agree(communicator, mine, "could not read or write the checkpoint");
}

}  // namespace

TrainingCheckpoints::TrainingCheckpoints(
    const TrainingCheckpointOptions& options,
    std::shared_ptr<comm::Communicator> communicator,
    progress::ProgressSink& progress,
    std::shared_ptr<checkpoint::FileOps> files
)
    : options_(options),
      communicator_(std::move(communicator)),
      progress_(&progress),
      files_(std::move(files)) {}

Result<TrainingCheckpoints> TrainingCheckpoints::open(
    const TrainingCheckpointOptions& options,
    std::shared_ptr<comm::Communicator> communicator,
    progress::ProgressSink& progress,
    std::shared_ptr<checkpoint::FileOps> files
) {
  TrainingCheckpoints made(options, std::move(communicator), progress, std::move(files));
  Status opened;
  if (made.writes()) {
    Result<checkpoint::CheckpointStore> store = checkpoint::CheckpointStore::begin(
        {.directory = options.checkpoint.path,
         .incarnation = options.incarnation,
         .keep = options.checkpoint.keep},
        options.checkpoint.resume == "Auto" ? checkpoint::Inherit::Newest
                                            : checkpoint::Inherit::Nothing,
        made.files_
    );
    if (store) {
      made.store_ = std::move(*store);
    } else {
      opened = tl::unexpected(with_context(std::move(store).error(), "spec.checkpoint.path"));
      // A read-only folder is reported as a full one is; that a newer run took it over is no fault.
      if (opened.error().kind != ErrorKind::Conflict)
        progress.on_checkpoint(progress::CheckpointReport{});
    }
  }
  GNN_RETURN_IF_ERROR(agree(*made.communicator_, opened));
  return made;
}

Result<TrainingCheckpoints::Found> TrainingCheckpoints::read() {
  Found found;
  const std::string& choice = options_.checkpoint.resume;
  GNN_ASSIGN_OR_RETURN(checkpoint::NewestCheckpoint newest, store_->load_newest());
  for (const checkpoint::RejectedCheckpoint& rejected : newest.rejected) {
    found.resume.notices.push_back(
        "skipped checkpoint " + rejected.path.string() + ": " + rejected.reason
    );
  }
  std::optional<checkpoint::LoadedCheckpoint> loaded = std::move(newest.checkpoint);
  if (!loaded && choice != "Auto" && choice != "Never") {
    Result<checkpoint::LoadedCheckpoint> named = checkpoint::load_checkpoint(choice, *files_);
    if (!named)
      return tl::unexpected(with_context(std::move(named).error(), "spec.checkpoint.resume"));
    loaded = std::move(*named);
  }
  if (!loaded) return found;
  found.resume.path = loaded->path.string();
  found.resume.state = std::move(loaded->state);
  found.bytes = std::move(loaded->bytes);
  return found;
}

Result<Resume> TrainingCheckpoints::resume() {
  Result<Found> mine = writes() ? read() : Found{};
  GNN_RETURN_IF_ERROR(agree(*communicator_, mine));
  GNN_RETURN_IF_ERROR(share(*mine));
  return std::move(mine->resume);
}

Status TrainingCheckpoints::share(Found& found) {
  if (communicator_->world_size() == 1) return {};
  // The bytes as they were read: encoding the state again could give others.
  for (std::string* part : {&found.bytes.manifest, &found.bytes.data, &found.resume.path}) {
    GNN_RETURN_IF_ERROR(broadcast_bytes(*communicator_, *part));
  }
  if (writes() || found.bytes.manifest.empty()) return {};
  GNN_ASSIGN_OR_RETURN(found.resume.state, checkpoint::decode_checkpoint(found.bytes));
  return {};
}

Result<std::string> TrainingCheckpoints::find(int64_t global_step) {
  Result<std::string> path = std::string();
  if (writes()) {
    const auto found = store_->find(global_step);
    if (!found) path = tl::unexpected(found.error());
    if (found && *found) path = (*found)->string();
  }
  GNN_RETURN_IF_ERROR(agree(*communicator_, path));
  GNN_RETURN_IF_ERROR(broadcast_bytes(*communicator_, *path));
  return path;
}

Result<checkpoint::CheckpointState> TrainingCheckpoints::load(const std::string& path) {
  Result<Found> mine = Found{};
  if (writes()) {
    Result<checkpoint::LoadedCheckpoint> loaded = checkpoint::load_checkpoint(path, *files_);
    if (loaded) {
      mine->resume.state = std::move(loaded->state);
      mine->bytes = std::move(loaded->bytes);
    } else {
      Error error = std::move(loaded).error();
      // It was kept: this is damage, not absence.
      if (error.kind == ErrorKind::NotFound) error.kind = ErrorKind::Data;
      mine = tl::unexpected(std::move(error));
    }
  }
  GNN_RETURN_IF_ERROR(agree(*communicator_, mine));
  GNN_RETURN_IF_ERROR(share(*mine));
  return *std::move(mine->resume.state);
}

void TrainingCheckpoints::keep_also(std::optional<int64_t> global_step) {
  if (store_) store_->keep_also(global_step);
}

Result<checkpoint::SavedCheckpoint> TrainingCheckpoints::write(
    const std::function<Result<checkpoint::CheckpointState>()>& capture
) {
  GNN_ASSIGN_OR_RETURN(const checkpoint::CheckpointState state, capture());
  return store_->save(state);
}

Result<std::string> TrainingCheckpoints::write_and_report(
    const std::function<Result<checkpoint::CheckpointState>()>& capture
) {
  LapTimer timer;
  const Result<checkpoint::SavedCheckpoint> saved = write(capture);
  progress_->on_checkpoint({
      .written = saved.has_value(),
      .path = saved ? saved->path.string() : std::string(),
      .bytes = saved ? saved->bytes : 0,
      .seconds = timer.lap(),
  });
  if (!saved) return tl::unexpected(saved.error());
  return saved->path.string();
}

Result<std::string> TrainingCheckpoints::save(
    const std::function<Result<checkpoint::CheckpointState>()>& capture
) {
  Result<std::string> path = writes() ? write_and_report(capture) : std::string();
  GNN_RETURN_IF_ERROR(agree(*communicator_, path));
  GNN_RETURN_IF_ERROR(broadcast_bytes(*communicator_, *path));
  return path;
}

}  // namespace gnn::training
