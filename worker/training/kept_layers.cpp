#include "worker/training/kept_layers.h"

#include "common/log.h"
#include "common/result.h"
#include "worker/checkpoint/durable_file.h"
#include "worker/training/model_file.h"

#include <algorithm>
#include <utility>

namespace gnn::training {

std::string KeptLayers::ending() const {
  return "-rank-" + std::to_string(options_.rank) + "-of-" + std::to_string(options_.world_size) +
         ".safetensors";
}

std::string KeptLayers::name_of(int64_t layer) const {
  return "layer-" + std::to_string(layer) + "-" + options_.key + ending();
}

bool KeptLayers::has(int64_t layer) {
  const auto names = files_->list(options_.folder);
  return names && std::ranges::find(*names, name_of(layer)) != names->end();
}

bool KeptLayers::read(int64_t layer, const std::vector<checkpoint::CheckpointTensor>& into) const {
  const std::filesystem::path path = options_.folder / name_of(layer);
  const Status read = read_model_file(path.string(), into);
  if (!read) log_warning("a layer is computed again", {{"why", read.error().message}});
  return read.has_value();
}

void KeptLayers::keep(int64_t layer, const std::vector<checkpoint::CheckpointTensor>& rows) {
  const auto write = [&]() -> Status {
    GNN_RETURN_IF_ERROR(files_->make_directory(options_.folder));
    return write_model_file(*files_, options_.folder / name_of(layer), rows, {});
  };
  if (const Status written = write(); !written) {
    log_warning("a restart will compute this layer again", {{"why", written.error().message}});
    return;
  }
  newest_ = name_of(layer);
}

Status KeptLayers::keep_on_all(
    int64_t layer,
    const std::vector<checkpoint::CheckpointTensor>& rows,
    double seconds,
    comm::Communicator& communicator,
    const EvaluationContext& context
) {
  GNN_ASSIGN_OR_RETURN(
      const std::vector<double> ranks,
      comm::all_reduce_sums(
          communicator,
          {context.stop.requested() ? 1.0 : 0.0, seconds >= options_.worth_seconds ? 1.0 : 0.0}
      )
  );
  if (ranks[0] > 0 || ranks[1] == 0) return {};
  keep(layer, rows);
  context.progress.on_mark();
  return {};
}

void KeptLayers::tell_resumed(int64_t layers, int64_t of, progress::ProgressSink& progress) {
  progress.on_message(
      "Resumed from a kept layer: " + std::to_string(layers) + " of " + std::to_string(of) +
      " are not computed again"
  );
}

void KeptLayers::remove_older() {
  if (!newest_.empty()) remove_others(newest_);
}

void KeptLayers::remove() {
  remove_others("");
  // Of several ranks the last one finds it empty.
  static_cast<void>(files_->remove_directory(options_.folder));
}

void KeptLayers::remove_others(const std::string& kept) {
  const auto names = files_->list(options_.folder);
  if (!names) return;
  for (const std::string& name : *names) {
    const std::string plain =
        name.ends_with(checkpoint::kTemporarySuffix)
            ? name.substr(0, name.size() - checkpoint::kTemporarySuffix.size())
            : name;
    if (plain.ends_with(ending()) && name != kept)
      static_cast<void>(files_->remove_file(options_.folder / name));
  }
}

}  // namespace gnn::training
