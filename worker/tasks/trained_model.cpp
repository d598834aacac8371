#include "worker/tasks/trained_model.h"

#include "common/log.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/finite.h"
#include "worker/checkpoint/state_capture.h"
#include "worker/tasks/exported_model.h"
#include "worker/training/agreement.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace gnn::tasks {
namespace {

namespace fs = std::filesystem;

constexpr const char* kField = "spec.model.from";
constexpr const char* kFailure = "could not read spec.model.from";

std::string text_of(const OpenWidths& widths) {
  return std::to_string(widths.first) + " features and " + std::to_string(widths.second) +
         " classes";
}

Error in_field(Error error) {
  // What is not there was named wrongly.
  if (error.kind == ErrorKind::NotFound) error.kind = ErrorKind::Configuration;
  return with_context(std::move(error), kField);
}

}  // namespace

Status TrainedModel::read_file() {
  GNN_ASSIGN_OR_RETURN(ExportedModel read, read_exported_model(spec_, source_));
  if (const auto name = checkpoint::first_not_finite(read.tensors))
    return fail(ErrorKind::Data, source_ + ": tensor " + *name + " holds a NaN or an infinity");
  TensorShapes shapes;
  for (const auto& tensor : checkpoint::capture_module(*read.module))
    shapes.emplace(tensor.name, tensor.tensor.sizes().vec());
  widths_ = widths_of(spec_, shapes);
  module_ = std::move(read.module);
  return {};
}

Status TrainedModel::read_checkpoint(checkpoint::FileOps& files, bool is_folder) {
  std::optional<checkpoint::LoadedCheckpoint> loaded;
  if (is_folder) {
    GNN_ASSIGN_OR_RETURN(
        checkpoint::NewestCheckpoint newest, checkpoint::load_newest_of(source_, files)
    );
    for (const checkpoint::RejectedCheckpoint& rejected : newest.rejected)
      log_warning(
          "skipped a checkpoint", {{"path", rejected.path.string()}, {"why", rejected.reason}}
      );
    if (!newest.checkpoint)
      return fail(
          ErrorKind::Configuration,
          source_ +
              ": expected a folder of checkpoints, found no valid one; of a folder of exported "
              "models, name the file"
      );
    loaded = std::move(newest.checkpoint);
  } else {
    GNN_ASSIGN_OR_RETURN(loaded, checkpoint::load_checkpoint(source_, files));
  }
  source_ = loaded->path.string();
  TensorShapes shapes;
  for (const auto& tensor : loaded->state.model)
    shapes.emplace(tensor.name, tensor.tensor.sizes().vec());
  widths_ = widths_of(spec_, shapes);
  module_ = make_model(spec_, widths_);
  if (Status fits = checkpoint::restore_module(*module_, loaded->state.model); !fits)
    return tl::unexpected(with_context(std::move(fits).error(), source_));
  return {};
}

Status TrainedModel::read_here(checkpoint::FileOps& files) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(source_, ignored);
  if (is_folder || source_.ends_with(".manifest")) return read_checkpoint(files, is_folder);
  return read_file();
}

Result<TrainedModel> TrainedModel::read(
    const api::GnnJobSpec& spec, comm::Communicator& communicator, checkpoint::FileOps& files
) {
  TrainedModel made(spec);
  Status read = communicator.rank() == 0 ? made.read_here(files) : Status();
  if (!read) read = tl::unexpected(in_field(std::move(read).error()));
  GNN_RETURN_IF_ERROR(training::agree(communicator, read, kFailure));
  return made;
}

Status TrainedModel::check_widths(const OpenWidths& data) const {
  if (widths_.first == data.first && (widths_.second == data.second || data.second < 0)) return {};
  return fail(
      ErrorKind::Configuration,
      std::string(kField) + ": " + source_ + ": expected a model of " + text_of(data) +
          ", as the data set has, found one of " + text_of(widths_)
  );
}

Result<std::shared_ptr<torch::nn::Module>> TrainedModel::make(
    const OpenWidths& data, comm::Communicator& communicator
) const {
  const Status fits = communicator.rank() == 0 ? check_widths(data) : Status();
  GNN_RETURN_IF_ERROR(training::agree(communicator, fits, kFailure));
  const at::Tensor classes = at::full({1}, widths_.second, at::kLong);
  GNN_RETURN_IF_ERROR(communicator.broadcast(classes, 0));
  auto module = make_model(spec_, {.first = data.first, .second = classes.item<int64_t>()});
  if (module_ != nullptr)
    GNN_RETURN_IF_ERROR(checkpoint::restore_module(*module, checkpoint::capture_module(*module_)));
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> values = module->parameters();
  for (const at::Tensor& buffer : module->buffers()) values.push_back(buffer);
  for (const at::Tensor& value : values)
    GNN_RETURN_IF_ERROR(communicator.broadcast(value.detach(), 0));
  return module;
}

}  // namespace gnn::tasks
